//! Reads a stream of server-sent events as its bytes come, at little cost: pieces are recognised, not parsed, unless
//! their text is wanted.

use memchr::{memchr, memmem};
use serde::Deserialize;

/// What a stream has said.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct StreamSummary {
    /// Pieces that carried text.
    pub pieces: u64,
    /// `prompt_tokens` of the usage.
    pub prompt_tokens: Option<u64>,
    /// `prompt_tokens_details.cached_tokens` of the usage.
    pub cached_tokens: Option<u64>,
    /// `completion_tokens` of the usage.
    pub output_tokens: Option<u64>,
    /// Whether `[DONE]` came.
    pub done: bool,
    /// Whether an error came.
    pub error: bool,
    /// The text, when it was wanted.
    pub text: String,
}

/// An incremental reader of OpenAI streams.
#[derive(Debug, Default)]
pub struct StreamReader {
    rest: Vec<u8>,
    keep_text: bool,
    summary: StreamSummary,
}

#[derive(Deserialize)]
pub(super) struct Usage {
    pub(super) prompt_tokens: Option<u64>,
    pub(super) completion_tokens: Option<u64>,
    pub(super) prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
pub(super) struct Details {
    pub(super) cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Piece>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Piece {
    delta: Option<Delta>,
    text: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
}

impl StreamReader {
    /// A reader that collects the text too when `keep_text`.
    #[must_use]
    pub fn new(keep_text: bool) -> Self {
        Self { keep_text, ..Self::default() }
    }

    /// Takes in the next bytes, however they were cut.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr(b'\n', bytes) {
            let (line, tail) = bytes.split_at(end);
            bytes = tail.get(1..).unwrap_or_default();
            if self.rest.is_empty() {
                self.line(line);
            } else {
                let mut whole = std::mem::take(&mut self.rest);
                whole.extend_from_slice(line);
                self.line(&whole);
                whole.clear();
                self.rest = whole;
            }
        }
        self.rest.extend_from_slice(bytes);
    }

    /// What was said so far.
    #[must_use]
    pub const fn summary(&self) -> &StreamSummary {
        &self.summary
    }

    /// What was said in all.
    #[must_use]
    pub fn finish(self) -> StreamSummary {
        self.summary
    }

    fn line(&mut self, line: &[u8]) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(data) = line.strip_prefix(b"data:") else { return };
        let data = data.trim_ascii_start();
        if data == b"[DONE]" {
            self.summary.done = true;
            return;
        }
        if data.starts_with(b"{\"error\"") {
            self.summary.error = true;
            return;
        }
        let has_usage =
            memmem::find(data, b"\"usage\":{").is_some() || memmem::find(data, b"\"usage\": {").is_some();
        if !has_usage && !self.keep_text {
            self.summary.pieces += u64::from(has_text(data));
            return;
        }
        let Ok(chunk) = serde_json::from_slice::<Chunk>(data) else {
            self.summary.error = true;
            return;
        };
        for piece in chunk.choices {
            let text = piece.text.or_else(|| piece.delta.and_then(|delta| delta.content)).unwrap_or_default();
            self.summary.pieces += u64::from(!text.is_empty());
            if self.keep_text {
                self.summary.text.push_str(&text);
            }
        }
        if let Some(usage) = chunk.usage {
            self.summary.prompt_tokens = usage.prompt_tokens;
            self.summary.output_tokens = usage.completion_tokens;
            self.summary.cached_tokens =
                usage.prompt_tokens_details.and_then(|details| details.cached_tokens);
        }
    }
}

/// Whether a chunk carries text that is not empty.
fn has_text(data: &[u8]) -> bool {
    [&b"\"content\":"[..], &b"\"text\":"[..]].iter().any(|key| {
        memmem::find(data, key).is_some_and(|at| {
            let value = data.get(at + key.len()..).unwrap_or_default().trim_ascii_start();
            value.first() == Some(&b'"') && value.get(1) != Some(&b'"')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = concat!(
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ab \"}}]}\n\n",
        ": a comment\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"c\"}}]}\r\n\r\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2,",
        "\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n",
        "data: [DONE]\n\n"
    );

    #[test]
    fn any_cut_reads_the_same() {
        for keep_text in [false, true] {
            for cut in 1..STREAM.len() {
                let mut reader = StreamReader::new(keep_text);
                STREAM.as_bytes().chunks(cut).for_each(|part| reader.push(part));
                let summary = reader.finish();
                assert_eq!(
                    (summary.pieces, summary.prompt_tokens, summary.cached_tokens),
                    (2, Some(9), Some(4))
                );
                assert_eq!(summary.output_tokens, Some(2));
                assert!(summary.done && !summary.error);
                assert_eq!(summary.text, if keep_text { "ab c" } else { "" });
            }
        }
    }

    #[test]
    fn an_error_in_the_stream_is_seen() {
        let mut reader = StreamReader::new(false);
        reader.push(b"data: {\"error\":{\"message\":\"x\"}}\n\n");
        assert!(reader.summary().error && !reader.summary().done);
    }
}
