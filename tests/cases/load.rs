//! The load generator that people measure with, through the router, before real engines.
//! `cargo xtask test --engines` installs it (0.9 GB) and runs these tests.

use sluicegate_tests::{LlamaServer, Router, Value, VllmServer, aiperf};

/// Holds that every request of a run was answered, and that the router counts them as aiperf does.
async fn hold(router: &Router, summary: &Value, requests: f64) {
    assert_eq!(summary["request_count"]["avg"], requests, "{:#}", summary["error_summary"]);
    assert_eq!(summary["error_summary"], Value::Array(Vec::new()));
    let answered = router.metric("sluicegate_requests_total", &[("api", "chat"), ("code", "200")]).await;
    assert_eq!(answered, requests);
    assert_eq!(router.metric("sluicegate_requests_aborted_total", &[]).await, 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs aiperf: cargo xtask test --engines"]
async fn aiperf_before_llama_servers() {
    let servers = [LlamaServer::start().await, LlamaServer::start().await];
    let router = Router::to_urls(&servers.each_ref().map(LlamaServer::url)).start().await;
    hold(&router, &aiperf(&router.url(""), 100, 8).await, 100.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs aiperf and vLLM: cargo xtask test --engines"]
async fn aiperf_before_vllm_servers() {
    let (one, two) = tokio::join!(VllmServer::start(), VllmServer::start());
    let pool = format!("[[pool]]\nname = \"p\"\nendpoints = [\"{}\", \"{}\"]\n", one.url(), two.url());
    let router = Router::with(format!("[scrape]\ntimeout_ms = 10000\n{pool}")).start().await;
    hold(&router, &aiperf(&router.url(""), 40, 4).await, 40.0).await;
}
