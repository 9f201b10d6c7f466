//! Pages as engines serve them.

use std::fmt::Write;

/// llama.cpp with `--metrics`.
pub(crate) const LLAMACPP: &str = "\
# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed.
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 12058
# HELP llamacpp:requests_processing Number of requests processing.
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 2
# HELP llamacpp:requests_deferred Number of requests deferred.
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred 1
# HELP llamacpp:n_busy_slots_per_decode Average number of busy slots per llama_decode() call
# TYPE llamacpp:n_busy_slots_per_decode counter
llamacpp:n_busy_slots_per_decode 1.24
";

/// llama.cpp's `/slots`, four of them, two at work.
pub(crate) const SLOTS: &str = r#"[
{"id":0,"n_ctx":8192,"speculative":false,"is_processing":true,"id_task":17,"params":{"seed":1,"stop":[]},"n_prompt_tokens":4000,"n_prompt_tokens_processed":1000,"n_prompt_tokens_cache":3000,"next_token":[{"has_next_token":true,"n_remain":10,"n_decoded":96}]},
{"id":1,"n_ctx":8192,"speculative":false,"is_processing":true,"id_task":18,"n_past":4096},
{"id":2,"n_ctx":8192,"speculative":false,"is_processing":false,"id_task":3,"n_past":900},
{"id":3,"n_ctx":8192,"speculative":false,"is_processing":false}]"#;

/// SGLang with `--enable-metrics`.
pub(crate) const SGLANG: &str = "\
# HELP sglang:num_running_reqs The number of running requests
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name=\"meta-llama/Llama-3.1-8B-Instruct\",engine_type=\"unified\",tp_rank=\"0\"} 27.0
# HELP sglang:num_used_tokens The number of used tokens
# TYPE sglang:num_used_tokens gauge
sglang:num_used_tokens{model_name=\"meta-llama/Llama-3.1-8B-Instruct\"} 123859.0
# HELP sglang:token_usage The token usage
# TYPE sglang:token_usage gauge
sglang:token_usage{model_name=\"meta-llama/Llama-3.1-8B-Instruct\"} 0.28
# HELP sglang:num_queue_reqs The number of requests in the waiting queue
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{model_name=\"meta-llama/Llama-3.1-8B-Instruct\"} 2.0
sglang:cache_config_info{page_size=\"64\",num_pages=\"6832\"} 1.0
";

/// TensorRT-LLM under trtllm-serve.
pub(crate) const TRTLLM: &str = "\
# HELP trtllm_num_requests_running Number of active requests
# TYPE trtllm_num_requests_running gauge
trtllm_num_requests_running{engine_type=\"pytorch\",model_name=\"tiny\"} 5.0
trtllm_num_requests_waiting{engine_type=\"pytorch\",model_name=\"tiny\"} 3.0
trtllm_kv_cache_utilization{engine_type=\"pytorch\",model_name=\"tiny\"} 0.5
trtllm_kv_cache_tokens_per_block{engine_type=\"pytorch\",model_name=\"tiny\"} 32.0
trtllm_kv_cache_max_blocks{engine_type=\"pytorch\",model_name=\"tiny\"} 4096.0
";

/// vLLM 0.6, with the names of that time and LoRA.
pub(crate) const VLLM_OLD: &str = "\
# HELP vllm:lora_requests_info Running stats on lora requests.
# TYPE vllm:lora_requests_info gauge
vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"\",waiting_lora_adapters=\"\"} 1.7e+09
vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"sql,chat\",waiting_lora_adapters=\"math\"} 1.700000007e+09
vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"chat\",waiting_lora_adapters=\"\"} 1.700000001e+09
# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size=\"16\",cache_dtype=\"auto\",cpu_offload_gb=\"0\",enable_prefix_caching=\"True\",num_cpu_blocks=\"2048\",num_gpu_blocks=\"27000\"} 1.0
vllm:num_requests_running{model_name=\"llama\"} 3.0
vllm:num_requests_waiting{model_name=\"llama\"} 1.0
vllm:num_requests_swapped{model_name=\"llama\"} 6.0
vllm:gpu_cache_usage_perc{model_name=\"llama\"} 0.25
vllm:cpu_cache_usage_perc{model_name=\"llama\"} 0.0
vllm:num_preemptions_total{model_name=\"llama\"} 12.0
";

/// A present vLLM with two data-parallel ranks that has served for a while: about 60 KB, most of it
/// the buckets of histograms.
pub(crate) fn vllm() -> String {
    const MODEL: &str = "meta-llama/Llama-3.1-8B-Instruct";
    const GAUGES: [(&str, f64); 8] = [
        ("vllm:num_requests_running", 12.0),
        ("vllm:num_requests_waiting", 4.0),
        ("vllm:engine_sleep_state", 0.0),
        ("vllm:kv_cache_usage_perc", 0.37),
        ("vllm:prefix_cache_queries_total", 9.3e6),
        ("vllm:prefix_cache_hits_total", 5.1e6),
        ("vllm:num_preemptions_total", 2.0),
        ("vllm:generation_tokens_total", 1.25e7),
    ];
    const HISTOGRAMS: [&str; 11] = [
        "vllm:iteration_tokens_total",
        "vllm:time_to_first_token_seconds",
        "vllm:inter_token_latency_seconds",
        "vllm:request_time_per_output_token_seconds",
        "vllm:e2e_request_latency_seconds",
        "vllm:request_queue_time_seconds",
        "vllm:request_inference_time_seconds",
        "vllm:request_prefill_time_seconds",
        "vllm:request_decode_time_seconds",
        "vllm:request_prompt_tokens",
        "vllm:request_generation_tokens",
    ];
    let mut page = String::from("# HELP python_gc_objects_collected_total Objects collected during gc\n");
    let _ = writeln!(page, "process_resident_memory_bytes 2.7e+09\nprocess_start_time_seconds 1.7e+09");
    for rank in 0..2 {
        let labels = format!("engine=\"{rank}\",model_name=\"{MODEL}\"");
        for (name, value) in GAUGES {
            let _ =
                writeln!(page, "# HELP {name} Help of it.\n# TYPE {name} gauge\n{name}{{{labels}}} {value}");
        }
        let _ = writeln!(
            page,
            "vllm:cache_config_info{{block_size=\"16\",cache_dtype=\"auto\",engine=\"{rank}\",num_gpu_blocks=\"40000\",prefix_caching_hash_algo=\"sha256\"}} 1.0"
        );
        for name in HISTOGRAMS {
            let _ = writeln!(page, "# HELP {name} Histogram of it in seconds.\n# TYPE {name} histogram");
            for bucket in 0..21 {
                let le = 0.001 * f64::from(1 << bucket);
                let _ = writeln!(page, "{name}_bucket{{{labels},le=\"{le}\"}} {}.0", bucket * 4_711);
            }
            let _ = writeln!(page, "{name}_bucket{{{labels},le=\"+Inf\"}} 98931.0");
            let _ = writeln!(page, "{name}_count{{{labels}}} 98931.0\n{name}_sum{{{labels}}} 17234.1234");
        }
        for reason in ["stop", "length", "abort"] {
            let _ =
                writeln!(page, "vllm:request_success_total{{{labels},finished_reason=\"{reason}\"}} 33.0");
        }
    }
    page
}

/// `/v1/models` of an engine that calls itself `owner`.
pub(crate) fn models(owner: &str, ids: &[&str]) -> String {
    let list: Vec<_> = ids
        .iter()
        .map(|id| serde_json::json!({ "id": id, "object": "model", "created": 1, "owned_by": owner, "max_model_len": 8192 }))
        .collect();
    serde_json::json!({ "object": "list", "data": list }).to_string()
}
