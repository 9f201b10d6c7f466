//! The load generator against real engines.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper that fails is a test that fails"
)]

mod support;

use serde_json::{Value, json};
use support::{Engine, binary};

fn load(engines: &[&Engine], line: &str) -> (Option<i32>, String) {
    let mut command = binary();
    command.args(["load", "--json"]);
    for engine in engines {
        command.args(["--url", &engine.url]);
    }
    let output = command.args(line.split_whitespace()).output().expect("it runs");
    (output.status.code(), String::from_utf8(output.stdout).expect("text"))
}

fn report(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn sessions_find_their_history_in_the_cache() {
    let engine = Engine::start("--speed-up 100");
    let (code, text) =
        load(&[&engine], "--sessions 4 --turns 3 --groups 2 --prefix-tokens 160 --concurrency 3");
    let report = report(&text);
    assert_eq!((code, &report["requests"], &report["failed"]), (Some(0), &json!(12), &json!(0)));
    assert!(report["cache_hit_rate"].as_f64().unwrap() > 0.5, "{report}");
    assert_eq!(report["output_tokens"], 12 * 32);
    let state = engine.state();
    let first = &state["records"][0]["headers"];
    assert!(first["x-session-id"].as_str().unwrap().starts_with("sim-1-"));
}

#[test]
fn requests_rotate_over_all_urls() {
    let engines = [Engine::start("--speed-up 100"), Engine::start("--speed-up 100")];
    let (code, text) = load(&[&engines[0], &engines[1]], "--requests 10 --flow a --flow b --priority -2");
    assert_eq!((code, &report(&text)["failed"]), (Some(0), &json!(0)));
    for engine in &engines {
        let state = engine.state();
        assert_eq!(state["received"], 5);
        let headers = &state["records"][0]["headers"];
        assert_eq!(headers["x-sluicegate-priority"], "-2");
        assert!(headers["x-llm-d-inference-fairness-id"].is_string());
    }
}

#[test]
fn failures_are_named_and_fail_the_command() {
    let engine = Engine::start("--speed-up 100 --fault error --fault-status 429 --fault-times 3");
    let (code, text) = load(&[&engine], "--requests 10 --rate 500");
    let report = report(&text);
    assert_eq!((code, &report["failed"], &report["errors"]["status 429"]), (Some(1), &json!(3), &json!(3)));
    engine.post("/sim/faults", &json!({"mode": "cut", "after_tokens": 1, "times": 1}));
    let (code, text) = load(&[&engine], "--requests 3 --allow-failures");
    assert_eq!((code, text.contains("answer broke off")), (Some(0), true));
}

#[test]
fn the_completions_api_and_whole_answers_work_too() {
    let engine = Engine::start("--speed-up 100");
    let (code, text) = load(&[&engine], "--requests 5 --api completions --stream false");
    assert_eq!((code, &report(&text)["output_tokens"]), (Some(0), &json!(160)));
}
