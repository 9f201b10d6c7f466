//! Faults, aborts and what the engine remembers.

mod support;

use serde_json::json;
use std::io::Read;
use support::{Engine, chat, chat_stream};

const CHAT: &str = "/v1/chat/completions";

#[test]
fn a_client_that_leaves_aborts_its_request() {
    let engine = Engine::start("--decode-ms 20");
    for body in [chat("hello", 10_000), chat_stream("hello", 10_000)] {
        let before = engine.state()["aborted"].as_u64().unwrap();
        let stream = engine.open("POST", CHAT, "", &body.to_string());
        engine.wait("running", |state| state["running"] == 1);
        assert_eq!(engine.metric("vllm:num_requests_running"), 1.0);
        drop(stream);
        let state = engine.wait("aborted", |state| state["running"] == 0);
        assert_eq!(state["aborted"], before + 1);
        assert_eq!(state["cache"]["usage"], 0.0);
        assert_eq!(state["records"].as_array().unwrap().last().unwrap()["outcome"], "aborted");
    }
}

#[test]
fn what_does_not_fit_waits_in_order() {
    let engine = Engine::start("--max-num-seqs 1 --decode-ms 20");
    let first = engine.open("POST", CHAT, "", &chat("one", 10_000).to_string());
    engine.wait("running", |state| state["running"] == 1);
    let mut second = engine.open("POST", CHAT, "", &chat("two", 1).to_string());
    engine.wait("waiting", |state| state["waiting"] == 1);
    assert_eq!(engine.metric("vllm:num_requests_waiting"), 1.0);
    drop(first);
    let mut answer = String::new();
    second.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"));
}

#[test]
fn each_fault_is_what_it_says() {
    let engine = Engine::start("--speed-up 100");
    let set = |fault: serde_json::Value| assert_eq!(engine.post("/sim/faults", &fault).status, 200);
    set(json!({"mode": "refuse", "times": 1}));
    assert_eq!(engine.post(CHAT, &chat("x", 3)).head, "");
    set(json!({"mode": "error", "status": 502, "times": 1}));
    assert_eq!(engine.post(CHAT, &chat("x", 3)).status, 502);
    set(json!({"mode": "error", "after_tokens": 2, "times": 1}));
    let broken = engine.post(CHAT, &chat_stream("x", 9));
    assert!(broken.status == 200 && broken.whole);
    assert_eq!(broken.body.matches("\"delta\":{\"content\"").count(), 2);
    assert!(broken.body.contains("data: {\"error\""));
    set(json!({"mode": "cut", "after_tokens": 2, "times": 1}));
    let cut = engine.post(CHAT, &chat_stream("x", 9));
    assert!(!cut.whole && !cut.body.contains("[DONE]"));
    assert_eq!(cut.body.matches("\"delta\":{\"content\"").count(), 2);
    set(json!({"mode": "cut", "times": 1}));
    let cut = engine.post(CHAT, &chat("x", 9));
    assert!(cut.status == 200 && !cut.whole && !cut.body.is_empty());
    set(json!({"mode": "slow", "delay_ms": 1, "times": 1}));
    assert_eq!(engine.post(CHAT, &chat("x", 3)).status, 200);
    // All have had their times.
    assert_eq!(engine.post(CHAT, &chat("x", 3)).status, 200);
    assert_eq!(engine.post("/sim/faults", &json!({"mode": "nonsense"})).status, 400);
}

#[test]
fn a_hanging_engine_lets_go_when_the_client_does() {
    let engine = Engine::start("--speed-up 100 --fault hang --fault-after-tokens 1 --fault-times 1");
    let mut stream = engine.open("POST", CHAT, "", &chat_stream("x", 100_000).to_string());
    let mut some = [0; 1];
    stream.read_exact(&mut some).unwrap();
    engine.wait("running", |state| state["running"] == 1);
    drop(stream);
    engine.wait("given up", |state| state["running"] == 0 && state["aborted"] == 1);
}

#[test]
fn requests_are_remembered_as_they_came() {
    let engine = Engine::start("--speed-up 100 --keep-records 2");
    let body = r#"{"model" : "sim","prompt":"hello",  "max_tokens":2,"unknown":1.50}"#;
    for _ in 0..3 {
        engine.call("POST", "/v1/completions", "X-Test: a\r\nx-test: b\r\n", body);
    }
    let state = engine.state();
    let records = state["records"].as_array().unwrap();
    assert_eq!((records.len(), &state["received"]), (2, &json!(3)));
    let last = records.last().unwrap();
    assert_eq!((&last["body"], &last["headers"]["x-test"]), (&json!(body), &json!("a, b")));
    assert_eq!((&last["outcome"], &last["output_tokens"]), (&json!("finished"), &json!(2)));
    engine.post("/sim/reset", &json!({}));
    assert_eq!(engine.state()["cache"]["blocks_cached"], 0);
}

#[test]
fn preemption_is_seen_and_loses_nothing() {
    let engine = Engine::start("--num-blocks 8 --block-size 4 --speed-up 100 --max-model-len 32");
    let bodies = [json!([1, 2, 3, 4, 5, 6, 7, 8]), json!([11, 12, 13, 14, 15, 16, 17, 18])]
        .map(|prompt| json!({"model": "sim", "prompt": prompt, "max_tokens": 24}).to_string());
    let streams: Vec<_> =
        bodies.iter().map(|body| engine.open("POST", "/v1/completions", "", body)).collect();
    for mut stream in streams {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("\"completion_tokens\":24"), "{answer}");
    }
    let state = engine.state();
    assert_eq!((&state["cache"]["blocks_free"], &state["generation_tokens"]), (&json!(8), &json!(48)));
}
