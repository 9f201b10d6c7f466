//! The id under which an engine keeps an answer, for requests that continue it.
//!
//! In the Responses API it stands near the beginning of an answer and of a stream's first event. It is looked for in
//! the first 8 KiB and nowhere else.

/// Bytes in which it is looked for.
const HEAD: usize = 8 * 1_024;
/// Bytes of an id that is believed to be one.
const LONGEST: usize = 256;
/// Bytes that an id takes with its name and the marks and white space around it.
const MEMBER: usize = LONGEST + 64;

/// Looks for the id of one answer.
#[derive(Debug, Default)]
pub struct AnswerId {
    head: Vec<u8>,
    found: Option<Box<str>>,
}

impl AnswerId {
    /// The next piece of the answer.
    pub fn feed(&mut self, chunk: &[u8]) {
        let room = HEAD.saturating_sub(self.head.len());
        if room == 0 || self.found.is_some() {
            return;
        }
        // Whatever ended before was looked at when it came.
        let from = self.head.len().saturating_sub(MEMBER);
        self.head.extend_from_slice(chunk.get(..room).unwrap_or(chunk));
        self.found = self.head.get(from..).and_then(find);
    }

    /// The id, once it has come.
    #[must_use]
    pub fn get(&self) -> Option<&str> {
        self.found.as_deref()
    }
}

/// The first member `id` whose value begins as ids of answers do; messages within an answer have ids as well.
fn find(text: &[u8]) -> Option<Box<str>> {
    memchr::memmem::find_iter(text, b"\"id\"").find_map(|at| {
        let rest = text.get(at + 4..)?.trim_ascii_start().strip_prefix(b":")?;
        let value = rest.trim_ascii_start().strip_prefix(b"\"")?;
        let id = value.get(..memchr::memchr(b'"', value)?)?;
        let plain = id.len() <= LONGEST && !id.contains(&b'\\');
        let id = std::str::from_utf8(id).ok().filter(|id| plain && id.starts_with("resp"))?;
        Some(id.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_of(pieces: &[&[u8]]) -> Option<String> {
        let mut id = AnswerId::default();
        pieces.iter().for_each(|piece| id.feed(piece));
        id.get().map(str::to_owned)
    }

    #[test]
    fn it_is_found_in_answers_and_in_streams_however_they_are_cut() {
        let whole = br#"{"object":"response", "id" : "resp_1","output":[{"id":"msg_2"}]}"#;
        let stream = br#"event: response.created
data: {"response":{"output":[],"id":"resp_1"},"type":"response.created"}"#;
        for text in [whole.as_slice(), stream.as_slice()] {
            for at in 0..text.len() {
                let (a, b) = text.split_at(at);
                assert_eq!(id_of(&[a, b]).as_deref(), Some("resp_1"), "cut at {at}");
            }
        }
    }

    #[test]
    fn other_ids_and_late_ones_are_none() {
        assert_eq!(id_of(&[br#"{"id":"msg_1"}"#]), None);
        assert_eq!(id_of(&[br#"{"id":7,"x":"id"}"#, b""]), None);
        assert_eq!(id_of(&[&[b' '; HEAD], br#"{"id":"resp_1"}"#]), None);
        assert_eq!(id_of(&[format!(r#"{{"id":"resp{}"}}"#, "x".repeat(300)).as_bytes()]), None);
    }
}
