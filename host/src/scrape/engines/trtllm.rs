//! TensorRT-LLM under `trtllm-serve`.

use super::Metrics;

pub(super) const METRICS: Metrics = &[
    ("trtllm_num_requests_waiting", |page, sample| page.waiting.add(sample.value)),
    ("trtllm_num_requests_running", |page, sample| page.running.add(sample.value)),
    ("trtllm_kv_cache_utilization", |page, sample| page.kv_usage.add(sample.value)),
    ("trtllm_kv_cache_tokens_per_block", |page, sample| page.block_tokens = Some(sample.value)),
    ("trtllm_kv_cache_max_blocks", |page, sample| page.kv_blocks.add(sample.value)),
];
