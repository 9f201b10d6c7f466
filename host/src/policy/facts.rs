//! What is kept of a request when it is gone: numbers and short names. No prompt, no body, no headers.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{PrefixSource, Request};
use crate::clock::{MILLI, Nanos};
use crate::types::Api;

/// Bytes of one text that are kept.
const MAX_TEXT: usize = 1_024;
/// Hashes of the prompt's first blocks that are kept.
const MAX_PREFIX_KEYS: usize = 32;

/// A number of 64 bits, written as 16 hexadecimal digits: readers that know only floating point keep it whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hex(pub u64);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16)
            .map(Self)
            .map_err(|_| serde::de::Error::custom(format!("`{text}` is no hexadecimal number of 64 bits")))
    }
}

/// The facts of a request that a policy may have judged by. Texts are cut at 1,024 bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// `x-request-id`; it also seeds what the guest finds random.
    pub id: Box<str>,
    /// The API through which it came.
    pub api: Api,
    /// Path without query.
    pub path: Box<str>,
    /// Model after aliases and rewrites.
    pub model: Box<str>,
    /// LoRA adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<Box<str>>,
    /// Who called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Box<str>>,
    /// Fairness id.
    #[serde(default)]
    pub flow: Box<str>,
    /// Higher first.
    #[serde(default)]
    pub priority: i32,
    /// Session id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Box<str>>,
    /// Turns already seen in this session.
    #[serde(default)]
    pub turn: u32,
    /// Prompt length in tokens.
    pub prompt_tokens: u32,
    /// Whether that is a count and not an estimate.
    #[serde(default)]
    pub prompt_tokens_exact: bool,
    /// What the pool's tokenizer came to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<Box<str>>,
    /// The limit on output tokens that the client set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// Whether the client asked for a stream.
    #[serde(default)]
    pub streaming: bool,
    /// Target for the time to first token, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_target_ms: Option<f32>,
    /// Target for the time per output token, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpot_target_ms: Option<f32>,
    /// Milliseconds that the client allows it to wait.
    #[serde(default)]
    pub ttl_ms: Option<u32>,
    /// Milliseconds since it arrived, when it was judged.
    #[serde(default)]
    pub age_ms: u64,
    /// Hashes of the prompt's first blocks, 32 at most; none when nobody asked for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefix_keys: Vec<Hex>,
}

impl Facts {
    /// The facts of a request that is judged at `now`.
    #[must_use]
    pub fn of(request: &Request, now: Nanos) -> Self {
        let short = |text: &Option<Box<str>>| text.as_deref().map(cut);
        let keys = request.prefix.as_ref().and_then(PrefixSource::hashed).map_or(&[][..], |keys| keys);
        Self {
            id: cut(&request.id),
            api: request.api,
            path: cut(&request.path),
            model: cut(&request.model),
            adapter: short(&request.adapter),
            tenant: short(&request.tenant),
            flow: cut(&request.flow),
            priority: request.priority,
            session: short(&request.session),
            turn: request.turn,
            prompt_tokens: request.prompt_tokens,
            prompt_tokens_exact: request.prompt_tokens_exact,
            tokenizer: request.tokenizer.map(Box::from),
            max_output_tokens: request.max_output_tokens,
            streaming: request.streaming,
            ttft_target_ms: request.ttft_target_ms,
            tpot_target_ms: request.tpot_target_ms,
            ttl_ms: request.ttl_ms,
            age_ms: now.saturating_sub(request.arrived) / MILLI,
            prefix_keys: keys.iter().take(MAX_PREFIX_KEYS).copied().map(Hex).collect(),
        }
    }

    /// A request with these facts, an empty body and no headers, as a policy finds it at `now`.
    #[must_use]
    pub fn to_request(&self, now: Nanos) -> Request {
        let keys: Arc<[u64]> = self.prefix_keys.iter().map(|key| key.0).collect();
        Request {
            id: (&*self.id).into(),
            api: self.api,
            path: self.path.clone(),
            model: self.model.clone(),
            adapter: self.adapter.clone(),
            tenant: self.tenant.clone(),
            flow: self.flow.clone(),
            priority: self.priority,
            session: self.session.clone(),
            continues: None,
            turn: self.turn,
            prompt_tokens: self.prompt_tokens,
            prompt_tokens_exact: self.prompt_tokens_exact,
            tokenizer: None,
            max_output_tokens: self.max_output_tokens,
            streaming: self.streaming,
            ttft_target_ms: self.ttft_target_ms,
            tpot_target_ms: self.tpot_target_ms,
            ttl_ms: self.ttl_ms,
            arrived: now.saturating_sub(self.age_ms.saturating_mul(MILLI)),
            headers: http::HeaderMap::new(),
            body: bytes::Bytes::new(),
            prefix: Some(PrefixSource::hashed_before(keys, 1)),
        }
    }
}

fn cut(text: &str) -> Box<str> {
    let end = text.floor_char_boundary(MAX_TEXT);
    text.get(..end).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_at_a_character_and_keys_stay_whole() {
        let long = format!("{}é", "a".repeat(MAX_TEXT - 1));
        assert_eq!(cut(&long).len(), MAX_TEXT - 1);
        let json = serde_json::to_string(&Hex(u64::MAX - 1)).unwrap();
        assert_eq!(json, "\"fffffffffffffffe\"");
        assert_eq!(serde_json::from_str::<Hex>(&json).unwrap(), Hex(u64::MAX - 1));
        assert!(serde_json::from_str::<Hex>("\"xyz\"").is_err());
    }

    #[test]
    fn a_request_comes_back_with_its_facts() {
        let json = serde_json::json!({
            "id": "r", "api": "chat", "path": "/v1/chat/completions", "model": "m", "flow": "f", "priority": -2,
            "session": "s", "turn": 3, "prompt_tokens": 100, "age_ms": 7, "prefix_keys": ["00000000000000ff"],
        });
        let facts: Facts = serde_json::from_value(json).unwrap();
        let now = 10 * MILLI;
        let request = facts.to_request(now);
        assert_eq!(request.prefix_hashes(), [255]);
        assert_eq!(Facts::of(&request, now), facts);
    }
}
