//! Policies judged in virtual time, and traffic that somebody recorded.

use std::fs;

use sluicegate_tests::{Engine, Reply, Router, Value, json, places};
use tempfile::tempdir;
use tokio::process::Command;

/// 12 prefixes of 2,000 tokens over 4 engines, each of which holds a few of them.
const TRAFFIC: &str = "--engines 4 --num-blocks 1000 --rate 10 --requests 300 --groups 12 --prefix-tokens 2000 \
                       --question-tokens 100 --output-tokens 20";

/// Exit code, stdout and stderr of the simulator's program.
async fn sim(arguments: &str) -> (Option<i32>, String, String) {
    let folder = tempdir().unwrap();
    let mut command = Command::new(places::sim());
    let output = command.args(arguments.split_whitespace()).current_dir(&folder).output().await.unwrap();
    // It judges, and leaves nothing behind: least of all in the state of a router.
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

async fn replayed(more: &str) -> Value {
    let (code, text, problem) = sim(&format!("replay --json {TRAFFIC} {more}")).await;
    assert_eq!(code, Some(0), "{problem}");
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn the_same_traffic_has_the_same_outcome_and_policies_show() {
    let (one, again) = tokio::join!(replayed(""), replayed(""));
    assert_eq!(one, again);
    assert_eq!((&one["requests"], &one["failed"]), (&json!(300), &json!(0)));
    let blind = replayed("--by round-robin").await;
    let rate = |report: &Value| report["cache_hit_rate"].as_f64().unwrap();
    assert!(rate(&one) > rate(&blind) + 0.2, "{one} {blind}");

    let folder = tempdir().unwrap();
    let off = folder.path().join("off.toml");
    fs::write(&off, "[[plugin]]\nname = \"prefix-affinity\"\nmode = \"off\"\n").unwrap();
    let without = replayed(&format!("--config {}", off.display())).await;
    assert!(rate(&one) > rate(&without) + 0.2, "{one} {without}");
}

#[tokio::test]
async fn a_configuration_that_is_wrong_is_told_with_its_line() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("wrong.toml");
    fs::write(&file, "[[plugin]]\nname = \"prefix-affinity\"\nwieght = 2.0\n").unwrap();
    let (code, _, problem) = sim(&format!("replay {TRAFFIC} --config {}", file.display())).await;
    assert_eq!(code, Some(1));
    assert!(problem.contains("wrong.toml:3") && problem.contains("weight"), "{problem}");
    let (code, _, problem) = sim("replay --engines 0").await;
    assert_eq!(code, Some(1));
    assert!(problem.contains("1 to 60000 engines"), "{problem}");
}

#[tokio::test]
async fn recorded_sessions_are_sent_turn_after_turn() {
    let engine = Engine::start().await;
    engine.always(Reply::says("yes"));
    let router = Router::to(&[&engine]).start().await;
    let folder = tempdir().unwrap();
    let trace = folder.path().join("trace.jsonl");
    let line =
        |session: &str, input: &str| json!({"session_id": session, "input": input, "output": "12345678"});
    let lines = [line("a", "one"), line("b", "un"), line("a", "one two"), line("a", "one two three")];
    fs::write(&trace, lines.map(|line| line.to_string()).join("\n")).unwrap();

    let url = router.url("");
    let (code, text, problem) =
        sim(&format!("load --url {url} --model tiny --trace {} --concurrency 2 --json", trace.display()))
            .await;
    assert_eq!(code, Some(0), "{problem}");
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&report["requests"], &report["failed"]), (&json!(4), &json!(0)));
    let bodies: Vec<Value> =
        engine.received().iter().map(|received| serde_json::from_slice(&received.body).unwrap()).collect();
    let asked: Vec<&str> =
        bodies.iter().map(|body| body["messages"][0]["content"].as_str().unwrap()).collect();
    let of_a: Vec<&&str> = asked.iter().filter(|text| text.starts_with("one")).collect();
    assert_eq!(of_a, [&"one", &"one two", &"one two three"]);
    assert!(bodies.iter().all(|body| body["max_tokens"] == 2), "{bodies:?}");

    fs::write(&trace, "{\"session_id\":1}\n").unwrap();
    let (code, _, problem) = sim(&format!("load --url {url} --model tiny --trace {}", trace.display())).await;
    assert_eq!(code, Some(1));
    assert!(problem.contains("trace.jsonl:1") && problem.contains("input"), "{problem}");
}
