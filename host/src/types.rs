//! Ids, units and small enums that every layer shares.

use std::fmt;

use serde::{Deserialize, Serialize};

mod dialect;
mod publisher;
mod url;

pub use dialect::Dialect;
pub use publisher::{Attach, EventSource, Publisher, TcpAddress};
pub use url::{Url, UrlError, host_port};

/// Headers in which callers show who they are. They go to no engine that has a key of its own, and to no engine at
/// all where tenants are configured.
pub const CREDENTIALS: [http::HeaderName; 4] = [
    http::header::AUTHORIZATION,
    http::HeaderName::from_static("x-api-key"),
    http::HeaderName::from_static("api-key"),
    http::header::PROXY_AUTHORIZATION,
];

/// Handle of an endpoint, stable in this process and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EndpointId(pub u32);

/// Which version of the policies served a request while a candidate is tried: the generation of the
/// candidate, or [`Arm::BASE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Arm(pub u64);

impl Arm {
    /// The versions in force.
    pub const BASE: Self = Self(0);
}

/// Hash of an endpoint's address and rank: equal in every replica and after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct EndpointKey(pub u64);

impl EndpointKey {
    /// The key of an endpoint's name (`host:port`, plus the rank where there are ranks).
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self(xxhash_rust::xxh64::xxh64(name.as_bytes(), 0))
    }
}

/// What an endpoint may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Prefill and decode.
    #[default]
    Both,
    /// Prefill for others only.
    Prefill,
    /// Decode; prefills its own requests when they are not split.
    Decode,
}

impl Role {
    /// Whether a prefill leg may go there.
    #[must_use]
    pub fn prefills(self) -> bool {
        matches!(self, Self::Both | Self::Prefill)
    }

    /// Whether a client's answer may come from there.
    #[must_use]
    pub fn decodes(self) -> bool {
        matches!(self, Self::Both | Self::Decode)
    }
}

/// For what a set of candidates is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// The endpoint that answers the client.
    Decode,
    /// The endpoint of a prefill leg.
    Prefill,
}

impl Profile {
    /// The profile's name as plugins see it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Prefill => "prefill",
        }
    }
}

/// What a failed call means for the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// The stage's default: the filter keeps all, the scorer adds nothing, admission accepts, flow
    /// control is first come first served, the request is not split.
    #[default]
    Default,
    /// 503, for policies that must never be skipped.
    Reject,
}

/// What it means when a filter keeps nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnEmpty {
    /// 503.
    #[default]
    Reject,
    /// The filter is ignored for this request.
    Ignore,
}

/// The API through which a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// `POST /v1/chat/completions`
    Chat,
    /// `POST /v1/completions`
    Completions,
    /// `POST /v1/responses`
    Responses,
    /// `POST /v1/messages`
    Messages,
    /// `POST /v1/embeddings`
    Embeddings,
    /// An engine's own `POST /generate`
    Generate,
    /// Any other path; passed through.
    Other,
}

/// The kind of model server behind an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// vLLM
    Vllm,
    /// SGLang
    Sglang,
    /// TensorRT-LLM (`trtllm-serve`)
    Trtllm,
    /// llama.cpp (`llama-server`)
    Llamacpp,
}

impl Engine {
    /// The engine's name in configuration and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Trtllm => "trtllm",
            Self::Llamacpp => "llamacpp",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Bytes of prompt text that are taken for one token where no tokenizer counted them.
///
/// Source: the estimate that llm-d's `token-producer` uses by default.
pub const BYTES_PER_TOKEN: usize = 4;

/// The prompt of a request in a canonical form: two requests with equal beginnings of this form have
/// equal beginnings for the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// Text, with the parts of the conversation framed so that they cannot run into each other.
    Text(Vec<u8>),
    /// Token ids, as the client sent them.
    Tokens(Vec<u32>),
}

impl Prompt {
    /// Length in tokens; of text an estimate ([`BYTES_PER_TOKEN`]), rounded up.
    #[must_use]
    pub fn tokens(&self) -> u32 {
        let tokens = match self {
            Self::Text(text) => text.len().div_ceil(BYTES_PER_TOKEN),
            Self::Tokens(ids) => ids.len(),
        };
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }

    /// Whether [`Self::tokens`] is a count and not an estimate.
    #[must_use]
    pub fn exact(&self) -> bool {
        matches!(self, Self::Tokens(_))
    }
}

/// What an engine reported of one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Usage {
    /// Tokens of the prompt, cached ones included.
    pub prompt_tokens: u32,
    /// Those of them that came out of the engine's prefix cache; none when it did not say.
    pub cached_tokens: Option<u32>,
    /// Tokens of the answer.
    pub output_tokens: u32,
}
