//! Names and meanings of each engine's metrics, one file an engine.

pub(super) mod llamacpp;
mod sglang;
mod trtllm;
mod vllm;

use super::page::Page;
use super::prometheus::Sample;
use crate::types::Engine;

/// Takes a sample of a fixed name into the page.
pub(super) type Take = fn(&mut Page, Sample<'_>);

/// Fixed names and what they mean.
type Metrics = &'static [(&'static str, Take)];

/// The fixed names of every engine. A name that is found also tells which engine it is.
pub(super) const METRICS: &[(Engine, Metrics)] = &[
    (Engine::Vllm, vllm::METRICS),
    (Engine::Sglang, sglang::METRICS),
    (Engine::Trtllm, trtllm::METRICS),
    (Engine::Llamacpp, llamacpp::METRICS),
];

/// The engine that calls itself this in `owned_by` of its models.
pub(super) fn owner(name: &str) -> Option<Engine> {
    match name {
        "vllm" => Some(Engine::Vllm),
        "sglang" => Some(Engine::Sglang),
        "tensorrt_llm" => Some(Engine::Trtllm),
        "llamacpp" => Some(Engine::Llamacpp),
        _ => None,
    }
}
