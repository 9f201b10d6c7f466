//! SGLang.

use super::Metrics;

pub(super) const METRICS: Metrics = &[
    ("sglang:num_queue_reqs", |page, sample| page.waiting.add(sample.value)),
    ("sglang:num_running_reqs", |page, sample| page.running.add(sample.value)),
    ("sglang:token_usage", |page, sample| page.kv_usage.add(sample.value)),
    ("sglang:cache_config_info", |page, sample| {
        page.block_tokens = sample.labels.number("page_size").or(page.block_tokens);
        page.kv_blocks.add(sample.labels.number("num_pages").unwrap_or(f64::NAN));
    }),
];
