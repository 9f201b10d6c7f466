//! vLLM. With data parallelism every rank has series of its own, under the label `engine`: requests and
//! blocks add up, the share in use is their mean.

use super::{Metrics, Page, Sample};
use crate::scrape::page::Lora;

pub(super) const METRICS: Metrics = &[
    ("vllm:num_requests_waiting", |page, sample| page.waiting.add(sample.value)),
    ("vllm:num_requests_running", |page, sample| page.running.add(sample.value)),
    ("vllm:kv_cache_usage_perc", |page, sample| page.kv_usage.add(sample.value)),
    // Until 0.10.
    ("vllm:gpu_cache_usage_perc", |page, sample| page.kv_usage_old.add(sample.value)),
    ("vllm:num_preemptions_total", |page, sample| page.preemptions.add(sample.value)),
    ("vllm:cache_config_info", cache_config),
    ("vllm:lora_requests_info", lora),
];

fn cache_config(page: &mut Page, sample: Sample<'_>) {
    let block = sample.labels.number("block_size").filter(|tokens| *tokens >= 1.0);
    page.block_tokens = block.or(page.block_tokens);
    // "None" while it has not been computed, and for good where only the size in tokens is kept.
    let blocks = sample.labels.number("num_gpu_blocks");
    let blocks = blocks.or_else(|| Some(sample.labels.number("kv_cache_size_tokens")? / block?));
    page.kv_blocks.add(blocks.unwrap_or(f64::NAN));
}

/// Each combination of adapters leaves a series behind whose value is the time when it was last true:
/// the latest one holds.
fn lora(page: &mut Page, sample: Sample<'_>) {
    if page.lora.as_ref().is_some_and(|known| known.at >= sample.value) {
        return;
    }
    let mut active = Vec::new();
    for key in ["running_lora_adapters", "waiting_lora_adapters"] {
        let names = sample.labels.get(key).unwrap_or_default();
        let names = String::from_utf8_lossy(&names);
        active.extend(names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(Box::from));
    }
    active.sort_unstable();
    active.dedup();
    page.lora = Some(Lora { at: sample.value, active, max: sample.labels.number("max_lora") });
}
