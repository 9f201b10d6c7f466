//! The clients that people have, through the router, to real llama.cpp servers.

use std::process::{Command, Output};

use sluicegate_tests::{LlamaServer, Router, Value, json, places, wait};

async fn llama() -> ([LlamaServer; 2], Router) {
    let servers = [LlamaServer::start().await, LlamaServer::start().await];
    let router = Router::to_urls(&[servers[0].url(), servers[1].url()]).start().await;
    wait::until("both servers are up", async || {
        let all = router.admin_json("/endpoints").await;
        all["endpoints"].as_array().unwrap().iter().all(|endpoint| endpoint["status"] == "up")
    })
    .await;
    (servers, router)
}

/// Runs a program to its end without holding up this test's own servers.
async fn run(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

async fn passes(command: Command) {
    let shown = format!("{command:?}");
    let output = run(command).await;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    eprintln!("{stdout}");
    assert!(output.status.success(), "{shown}\n{stdout}\n{stderr}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_clients() {
    let (_servers, router) = llama().await;
    let mut command = Command::new(places::python());
    command.arg(places::script("clients.py")).arg(router.url(""));
    passes(command).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn javascript_clients() {
    let (_servers, router) = llama().await;
    // Beside node_modules, where node looks for packages.
    let script = places::node().join("clients.mjs");
    std::fs::copy(places::script("clients.mjs"), &script).unwrap();
    let mut command = Command::new("node");
    command.arg(script).arg(router.url("")).current_dir(places::node());
    passes(command).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_with_and_without_a_stream() {
    let (_servers, router) = llama().await;
    let url = router.url("/v1/chat/completions");
    for stream in [false, true] {
        let body = json!({"model": "tiny", "stream": stream, "max_tokens": 5,
            "messages": [{"role": "user", "content": "hello"}]});
        let mut command = Command::new("curl");
        command.args(["-sS", "--fail-with-body", "-N", "--max-time", "60", &url]);
        command.args(["-H", "content-type: application/json", "-d", &body.to_string()]);
        let output = run(command).await;
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        if stream {
            assert!(text.starts_with("data: {") && text.trim_end().ends_with("data: [DONE]"), "{text}");
        } else {
            let answer: Value = serde_json::from_str(&text).unwrap();
            assert!(answer["choices"][0]["message"]["content"].is_string(), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_question_about_a_document_finds_it_in_the_cache() {
    let (_servers, router) = llama().await;
    for endpoint in router.admin_json("/endpoints").await["endpoints"].as_array().unwrap() {
        assert_eq!(endpoint["engine"], "llamacpp", "{endpoint}");
    }
    let document = "a document with many words that are read once and then remembered ".repeat(60);
    let mut cached = Vec::new();
    let mut endpoints = Vec::new();
    for question in ["who?", "what?", "when?", "where?"] {
        let answer = router
            .chat(&format!("{document} {question}"))
            .with("max_tokens", 2)
            .send()
            .await
            .expect(200)
            .await;
        endpoints.push(answer.endpoint().to_owned());
        let answer = answer.json().await;
        cached.push(answer["timings"]["cache_n"].as_u64().unwrap_or_default());
    }
    endpoints.dedup();
    assert_eq!(endpoints.len(), 1, "{endpoints:?}");
    assert!(cached[1..].iter().all(|tokens| *tokens > 200), "{cached:?}");
}
