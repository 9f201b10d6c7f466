//! What an engine reports of itself.

/// The numbers of a vLLM's `/metrics` that matter for routing.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Metrics {
    /// Requests that run.
    pub running: u32,
    /// Requests that wait.
    pub waiting: u32,
    /// Share of the KV cache in use.
    pub kv_usage: f64,
}

impl Metrics {
    /// An engine that can take nothing more.
    #[must_use]
    pub fn full() -> Self {
        Self { running: 256, waiting: 512, kv_usage: 1.0 }
    }

    /// The page.
    pub(super) fn page(self, model: &str) -> String {
        let Self { running, waiting, kv_usage } = self;
        let labels = format!("engine=\"0\",model_name=\"{model}\"");
        format!(
            "# HELP vllm:num_requests_running Number of requests in model execution batches.\n\
             # TYPE vllm:num_requests_running gauge\n\
             vllm:num_requests_running{{{labels}}} {running}.0\n\
             # TYPE vllm:num_requests_waiting gauge\n\
             vllm:num_requests_waiting{{{labels}}} {waiting}.0\n\
             # TYPE vllm:kv_cache_usage_perc gauge\n\
             vllm:kv_cache_usage_perc{{{labels}}} {kv_usage}\n\
             # TYPE vllm:num_preemptions_total counter\n\
             vllm:num_preemptions_total{{{labels}}} 0.0\n\
             # TYPE vllm:cache_config_info gauge\n\
             vllm:cache_config_info{{block_size=\"16\",num_gpu_blocks=\"4096\",engine=\"0\"}} 1.0\n"
        )
    }
}
