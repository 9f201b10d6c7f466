//! The protocols by which engines hand over KV caches.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Engine;

/// A protocol between prefill and decode, as its engines call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// vLLM's `NixlConnector`: decode fetches the blocks that prefill's answer names.
    Nixl,
    /// vLLM's `MooncakeConnector`: both legs at once, under an id that the router makes up.
    Mooncake,
    /// SGLang: both legs at once, with the same body.
    Sglang,
    /// A store that both engines share (LMCache, Mooncake store, shared files): no parameters.
    Storage,
    /// vLLM's `OffloadingConnector` between hosts: both legs at once, each told of the other.
    Offloading,
    /// TensorRT-LLM's `disaggregated_params`.
    Trtllm,
    /// vLLM's `MoRIIOConnector` in its reading mode.
    Moriio,
}

impl Dialect {
    /// The dialect's name in configuration, metrics and explanations.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nixl => "nixl",
            Self::Mooncake => "mooncake",
            Self::Sglang => "sglang",
            Self::Storage => "storage",
            Self::Offloading => "offloading",
            Self::Trtllm => "trtllm",
            Self::Moriio => "moriio",
        }
    }

    /// What engines of this kind speak when nothing else is said; none for those that hand nothing over.
    #[must_use]
    pub fn usual(engine: Engine) -> Option<Self> {
        match engine {
            Engine::Vllm => Some(Self::Nixl),
            Engine::Sglang => Some(Self::Sglang),
            Engine::Trtllm => Some(Self::Trtllm),
            Engine::Llamacpp => None,
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
