//! How fast an endpoint is, measured.

use std::fs;

use sluicegate_tests::{Engine, Reply, SimEngine, Value, places};
use tokio::process::Command;

/// Exit code, stdout and stderr of the router's program.
async fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(places::router()).args(arguments).output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn an_endpoint_is_measured_and_the_answer_is_a_configuration() {
    let engine = SimEngine::with(&["--prefill-rate", "20000", "--decode-ms", "2"]).await;
    let (code, text, problem) = run(&["calibrate", &engine.url()]).await;
    assert_eq!((code, problem.as_str()), (Some(0), ""), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sluicegate.toml");
    fs::write(&file, text).unwrap();
    let (code, _, problem) =
        run(&["check", "--config", file.to_str().unwrap(), "--backend", "127.0.0.1:1"]).await;
    assert_eq!(code, Some(0), "{problem}");

    let (code, text, problem) = run(&["calibrate", &engine.url(), "--json"]).await;
    assert_eq!(code, Some(0), "{problem}");
    let measured: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(measured["model"], "tiny");
    assert!(measured["prefill_tokens_per_s"].as_f64().unwrap() > 0.0, "{measured}");
    // What was asked last is longer than what was asked first, by the engine's own count, and none was cached.
    let prompts = measured["prompts"].as_array().unwrap();
    assert_eq!(prompts.len(), 9);
    assert!(prompts[8][0].as_u64() > prompts[0][0].as_u64(), "{measured}");
    let state = engine.state().await;
    assert_eq!(state["cache"]["hit_tokens"], 0, "{state}");
}

#[tokio::test]
async fn what_cannot_be_measured_is_told_in_words() {
    let (code, _, problem) = run(&["calibrate", "http://127.0.0.1:1"]).await;
    assert_eq!(code, Some(1));
    assert!(problem.contains("http://127.0.0.1:1 does not answer"), "{problem}");

    let engine = Engine::start().await;
    engine.always(Reply::plain(404, "no such path"));
    let (code, _, problem) = run(&["calibrate", &engine.url(), "--model", "tiny"]).await;
    assert_eq!(code, Some(1));
    assert!(problem.contains("/v1/completions answers 404 Not Found: no such path"), "{problem}");

    engine.always(Reply::plain(200, "{}"));
    let (code, _, problem) = run(&["calibrate", &engine.url(), "--model", "tiny"]).await;
    assert_eq!(code, Some(1));
    assert!(problem.contains("its streams carry no tokens"), "{problem}");
}
