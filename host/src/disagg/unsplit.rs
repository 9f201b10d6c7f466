//! Requests that are never split, because their answer would not be the one of a single engine.

use serde_json::Value;

use super::one_token::NEW_TOKENS;
use crate::api::{SpliceError, splice};
use crate::types::{Api, Dialect};

/// Why a request is not split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unsplit {
    /// Its API has no legs.
    Api,
    /// Its body is no JSON object.
    Body,
    /// It wants several answers: each would fetch the same blocks, which are let go after the first.
    Choices,
    /// It has several prompts, and the dialect hands over one.
    Batch,
    /// It wants to hear of its prompt, which an engine that fetches it does not compute.
    Prompt,
    /// It searches in several directions at once.
    BeamSearch,
    /// It continues an answer that one engine has kept.
    StoredAnswer,
    /// It forces a tool's call, of which one token is none.
    ToolChoice,
    /// Nothing is left to decode after the first token.
    OneToken,
}

impl Unsplit {
    /// Its name in metrics and explanations.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Body => "body",
            Self::Choices => "choices",
            Self::Batch => "batch",
            Self::Prompt => "prompt_wanted",
            Self::BeamSearch => "beam_search",
            Self::StoredAnswer => "stored_answer",
            Self::ToolChoice => "tool_choice",
            Self::OneToken => "one_token",
        }
    }
}

/// The members that decide.
const KEYS: [&str; 15] = [
    "n",
    "best_of",
    "use_beam_search",
    "echo",
    "prompt_logprobs",
    "return_logprob",
    "previous_response_id",
    "tool_choice",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "prompt",
    "text",
    "input_ids",
    "sampling_params",
];

/// Why a request is not to be split in this dialect, if it is not.
#[must_use]
pub fn unsplit(dialect: Dialect, api: Api, body: &[u8]) -> Option<Unsplit> {
    if matches!(api, Api::Embeddings | Api::Other) {
        return Some(Unsplit::Api);
    }
    match members(body) {
        Ok(members) => members.reason(dialect, api),
        Err(_) => Some(Unsplit::Body),
    }
}

fn members(body: &[u8]) -> Result<Members<'_>, SpliceError> {
    splice::members(body, &KEYS).map(Members)
}

/// The raw JSON of [`KEYS`].
struct Members<'a>(Vec<Option<&'a str>>);

impl Members<'_> {
    fn raw(&self, key: &str) -> Option<&str> {
        let at = KEYS.iter().position(|known| *known == key)?;
        self.0.get(at).copied().flatten().filter(|raw| *raw != "null")
    }

    fn reason(&self, dialect: Dialect, api: Api) -> Option<Unsplit> {
        let sampling = self.raw("sampling_params").and_then(|raw| serde_json::from_str::<Value>(raw).ok());
        let sampled =
            |key: &str| sampling.as_ref().and_then(|sampling| sampling.get(key)).map(Value::to_string);
        let several = |key: &str| above_one(self.raw(key)) || above_one(sampled(key).as_deref());
        let wanted = |key: &str| switched_on(self.raw(key)) || switched_on(sampled(key).as_deref());
        let reasons = [
            (Unsplit::Choices, dialect != Dialect::Sglang && (several("n") || several("best_of"))),
            (Unsplit::BeamSearch, wanted("use_beam_search")),
            (Unsplit::Prompt, wanted("echo") || wanted("prompt_logprobs") || self.wants_prompt(dialect)),
            (Unsplit::StoredAnswer, api == Api::Responses && self.raw("previous_response_id").is_some()),
            (Unsplit::ToolChoice, dialect != Dialect::Sglang && self.forces_a_tool()),
            (Unsplit::Batch, dialect != Dialect::Sglang && self.is_batch(api)),
            (
                Unsplit::OneToken,
                self.is_one_token(api, sampled("max_tokens").or_else(|| sampled(NEW_TOKENS)).as_deref()),
            ),
        ];
        reasons.into_iter().find(|(_, holds)| *holds).map(|(reason, _)| reason)
    }

    /// SGLang's prefill says it, and its decode's answer is merged with that.
    fn wants_prompt(&self, dialect: Dialect) -> bool {
        dialect != Dialect::Sglang && switched_on(self.raw("return_logprob"))
    }

    fn forces_a_tool(&self) -> bool {
        self.raw("tool_choice").is_some_and(|raw| !matches!(raw, r#""auto""# | r#""none""#))
    }

    fn is_batch(&self, api: Api) -> bool {
        let keys: &[&str] = match api {
            Api::Completions => &["prompt"],
            Api::Generate => &["text", "input_ids"],
            _ => &[],
        };
        keys.iter().filter_map(|key| self.raw(key)).any(|raw| {
            let inner = raw.strip_prefix('[').map(str::trim_start).unwrap_or_default();
            inner.starts_with(['"', '['])
                && serde_json::from_str::<Vec<serde::de::IgnoredAny>>(raw).map_or(true, |list| list.len() > 1)
        })
    }

    fn is_one_token(&self, api: Api, sampled: Option<&str>) -> bool {
        let limit = match api {
            Api::Responses => self.raw("max_output_tokens"),
            Api::Generate => sampled.or(self.raw("max_tokens")),
            _ => self.raw("max_completion_tokens").or(self.raw("max_tokens")),
        };
        limit == Some("1")
    }
}

fn above_one(raw: Option<&str>) -> bool {
    raw.and_then(|raw| raw.parse::<f64>().ok()).is_some_and(|number| number > 1.0)
}

/// Whether a member asks for something: `true`, a number, or a list of such.
fn switched_on(raw: Option<&str>) -> bool {
    raw.is_some_and(|raw| !matches!(raw, "false" | "null"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(dialect: Dialect, api: Api, body: &str) -> Option<Unsplit> {
        unsplit(dialect, api, body.as_bytes())
    }

    #[test]
    fn what_would_be_answered_otherwise_is_not_split() {
        for (api, body, expected) in [
            (Api::Embeddings, "{}", Unsplit::Api),
            (Api::Chat, "[]", Unsplit::Body),
            (Api::Chat, r#"{"n":2}"#, Unsplit::Choices),
            (Api::Completions, r#"{"prompt":"x","best_of":3}"#, Unsplit::Choices),
            (Api::Generate, r#"{"sampling_params":{"n":4}}"#, Unsplit::Choices),
            (Api::Completions, r#"{"prompt":"x","echo":true}"#, Unsplit::Prompt),
            (Api::Completions, r#"{"prompt":"x","prompt_logprobs":0}"#, Unsplit::Prompt),
            (Api::Generate, r#"{"text":"x","return_logprob":[true,false]}"#, Unsplit::Prompt),
            (Api::Generate, r#"{"sampling_params":{"prompt_logprobs":1}}"#, Unsplit::Prompt),
            (Api::Chat, r#"{"use_beam_search":true}"#, Unsplit::BeamSearch),
            (Api::Responses, r#"{"input":"x","previous_response_id":"resp_1"}"#, Unsplit::StoredAnswer),
            (Api::Chat, r#"{"tool_choice":"required"}"#, Unsplit::ToolChoice),
            (Api::Chat, r#"{"tool_choice":{"type":"function"}}"#, Unsplit::ToolChoice),
            (Api::Completions, r#"{"prompt":["a","b"]}"#, Unsplit::Batch),
            (Api::Completions, r#"{"prompt":[ [1],[2]]}"#, Unsplit::Batch),
            (Api::Chat, r#"{"max_completion_tokens":1,"max_tokens":9}"#, Unsplit::OneToken),
            (Api::Generate, r#"{"text":"x","sampling_params":{"max_new_tokens":1}}"#, Unsplit::OneToken),
        ] {
            assert_eq!(reason(Dialect::Nixl, api, body), Some(expected), "{body}");
        }
    }

    #[test]
    fn everything_else_is() {
        for (api, body) in [
            (
                Api::Chat,
                r#"{"messages":[],"n":1,"tools":[{}],"tool_choice":"auto","logprobs":true,"top_logprobs":3}"#,
            ),
            (Api::Chat, r#"{"messages":[],"response_format":{"type":"json_object"},"n":null,"best_of":1}"#),
            (Api::Completions, r#"{"prompt":["a"],"logprobs":2,"echo":false}"#),
            (Api::Completions, r#"{"prompt":[1,2,3],"guided_json":{}}"#),
            (Api::Messages, r#"{"messages":[],"max_tokens":100}"#),
            (Api::Responses, r#"{"input":"x"}"#),
        ] {
            assert_eq!(reason(Dialect::Nixl, api, body), None, "{body}");
        }
        assert_eq!(reason(Dialect::Sglang, Api::Completions, r#"{"prompt":["a","b"]}"#), None);
        assert_eq!(reason(Dialect::Sglang, Api::Chat, r#"{"tool_choice":"required"}"#), None);
    }
}
