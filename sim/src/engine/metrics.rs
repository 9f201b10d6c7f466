//! `GET /metrics` under vLLM's names (version 0.32).

use super::node::Node;
use crate::scheduler::Histogram;
use std::fmt::Write;

/// One exposition, as it is written.
struct Page {
    text: String,
    labels: String,
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, name: &str, extra: &str, value: f64) {
        let _ = writeln!(self.text, "{name}{{{}{extra}}} {value}", self.labels);
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.family(name, "gauge", help);
        self.sample(name, "", value);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", help);
        self.sample(&format!("{name}_total"), "", value as f64);
    }

    fn counters(&mut self, name: &str, help: &str, label: &str, values: &[(&str, u64)]) {
        self.family(name, "counter", help);
        for (of, value) in values {
            self.sample(&format!("{name}_total"), &format!(",{label}=\"{of}\""), *value as f64);
        }
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.family(name, "histogram", help);
        for (bound, count) in histogram.cumulative() {
            self.sample(&format!("{name}_bucket"), &format!(",le=\"{bound:?}\""), count as f64);
        }
        self.sample(&format!("{name}_bucket"), ",le=\"+Inf\"", histogram.count() as f64);
        self.sample(&format!("{name}_sum"), "", histogram.sum());
        self.sample(&format!("{name}_count"), "", histogram.count() as f64);
    }
}

/// The page.
pub(super) fn page(node: &Node) -> String {
    let (gauges, stats) = node.snapshot();
    let config = node.args.sizes.scheduler();
    let model = node.args.models.first().map_or("sim", String::as_str);
    let mut page = Page {
        text: String::with_capacity(12 << 10),
        labels: format!("engine=\"0\",model_name=\"{model}\""),
    };
    page.gauge(
        "vllm:num_requests_running",
        "Number of requests in model execution batches.",
        gauges.running as f64,
    );
    let waiting = gauges.waiting + gauges.fetching;
    page.gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", waiting as f64);
    page.family("vllm:num_requests_waiting_by_reason", "gauge", "Number of waiting requests by reason.");
    page.sample("vllm:num_requests_waiting_by_reason", ",reason=\"capacity\"", gauges.waiting as f64);
    page.sample("vllm:num_requests_waiting_by_reason", ",reason=\"deferred\"", gauges.fetching as f64);
    page.gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", gauges.kv_usage);
    page.counter("vllm:prefix_cache_queries", "Prefix cache queries, in tokens.", stats.prefix_queries);
    page.counter("vllm:prefix_cache_hits", "Prefix cache hits, in tokens.", stats.prefix_hits);
    page.counter(
        "vllm:external_prefix_cache_queries",
        "External cache queries, in tokens.",
        stats.external_queries,
    );
    page.counter(
        "vllm:external_prefix_cache_hits",
        "External cache hits, in tokens.",
        stats.external_kv_transfer,
    );
    page.counter(
        "vllm:num_preemptions",
        "Cumulative number of preemptions from the engine.",
        stats.preemptions,
    );
    page.counter("vllm:prompt_tokens", "Number of prefill tokens processed.", stats.prompt_tokens);
    page.counter("vllm:generation_tokens", "Number of generation tokens processed.", stats.generation_tokens);
    page.counters(
        "vllm:prompt_tokens_by_source",
        "Number of prompt tokens by source.",
        "source",
        &[
            ("local_compute", stats.local_compute),
            ("local_cache_hit", stats.local_cache_hit),
            ("external_kv_transfer", stats.external_kv_transfer),
        ],
    );
    page.counters(
        "vllm:request_success",
        "Count of successfully processed requests.",
        "finished_reason",
        &[("stop", stats.finished_stop), ("length", stats.finished_length), ("abort", stats.aborted)],
    );
    page.histogram(
        "vllm:time_to_first_token_seconds",
        "Histogram of time to first token in seconds.",
        &stats.ttft,
    );
    page.histogram(
        "vllm:inter_token_latency_seconds",
        "Histogram of inter-token latency.",
        &stats.inter_token,
    );
    page.histogram("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency.", &stats.e2e);
    page.histogram(
        "vllm:request_queue_time_seconds",
        "Histogram of time spent in WAITING phase.",
        &stats.queue,
    );
    page.histogram(
        "vllm:request_prefill_time_seconds",
        "Histogram of time spent in PREFILL phase.",
        &stats.prefill,
    );
    page.histogram(
        "vllm:request_decode_time_seconds",
        "Histogram of time spent in DECODE phase.",
        &stats.decode,
    );
    page.family("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig.");
    let _ = writeln!(
        page.text,
        "vllm:cache_config_info{{block_size=\"{}\",cache_dtype=\"auto\",enable_prefix_caching=\"True\",engine=\"0\",\
         gpu_memory_utilization=\"0.9\",kv_cache_size_tokens=\"{}\",num_gpu_blocks=\"{}\"}} 1.0",
        config.block_size,
        config.num_blocks * config.block_size,
        config.num_blocks,
    );
    if !node.args.loras.is_empty() {
        page.family("vllm:lora_requests_info", "gauge", "Running stats on lora requests.");
        let _ = writeln!(
            page.text,
            "vllm:lora_requests_info{{max_lora=\"{}\",running_lora_adapters=\"\",waiting_lora_adapters=\"\"}} {}",
            node.args.loras.len(),
            node.unix_seconds(node.now()),
        );
    }
    page.text
}
