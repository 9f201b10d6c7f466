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
async fn engines_that_prefill_for_others_are_replayed_too() {
    let mixed = "--prefill 2 --long-share 0.5 --long-tokens 6000";
    let (one, again) = tokio::join!(replayed(mixed), replayed(mixed));
    assert_eq!(one, again);
    assert_eq!((&one["requests"], &one["failed"]), (&json!(300), &json!(0)));
    let answered: Vec<&String> = one["endpoints"].as_object().unwrap().keys().collect();
    assert_eq!(answered, ["engine-2", "engine-3"]);
    let folder = tempdir().unwrap();
    let never = folder.path().join("never.toml");
    fs::write(&never, "[[plugin]]\nname = \"pd-split\"\nconfig = { mode = \"never\" }\n").unwrap();
    let whole = replayed(&format!("{mixed} --config {}", never.display())).await;
    let tpot = |report: &Value| report["tpot_ms"]["p50"].as_f64().unwrap();
    assert!(tpot(&one) < tpot(&whole), "{one} {whole}");
}

/// How many requests each engine got; one that got none is not named.
fn counts(report: &Value) -> Vec<u64> {
    report["endpoints"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_burst_of_equal_requests_spreads_over_idle_engines() {
    let burst = "--engines 8 --requests 256 --concurrency 256 --groups 1 --prefix-tokens 2000 --question-tokens 0 \
                 --output-tokens 5";
    let (code, text, problem) = sim(&format!("replay --json {burst}")).await;
    assert_eq!(code, Some(0), "{problem}");
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(counts(&report).len(), 8, "{report}");
    assert!(counts(&report).iter().all(|count| (24..=40).contains(count)), "{report}");
}

#[tokio::test]
async fn equal_prompts_that_come_together_are_placed_together() {
    let rollouts = "--engines 8 --requests 512 --concurrency 512 --groups 64 --prefix-tokens 1000 --question-tokens 0 \
                    --output-tokens 5";
    let (code, text, problem) = sim(&format!("replay --json {rollouts}")).await;
    assert_eq!(code, Some(0), "{problem}");
    let report: Value = serde_json::from_str(&text).unwrap();
    // Of eight equal prompts seven are found: 87.5 % at best.
    assert!(report["cache_hit_rate"].as_f64().unwrap() > 0.7, "{report}");
    assert!(counts(&report).iter().all(|count| (32..=128).contains(count)), "{report}");
}

#[tokio::test]
async fn an_engine_that_joins_gets_its_share_and_no_herd() {
    let chats = "--engines 4 --sessions 32 --concurrency 32 --turns 4 --groups 4 --prefix-tokens 2000 \
                 --question-tokens 300 --output-tokens 30 --duration 12";
    let joining = |after: &str| format!("replay --json {chats} --joining 1 --joining-after {after}");
    let (soon, never) = (joining("4"), joining("100"));
    let (with, without) = tokio::join!(sim(&soon), sim(&never));
    assert_eq!((with.0, without.0), (Some(0), Some(0)), "{} {}", with.2, without.2);
    let (with, without): (Value, Value) =
        (serde_json::from_str(&with.1).unwrap(), serde_json::from_str(&without.1).unwrap());
    let [joined, all] =
        [&with["endpoints"]["engine-3"], &with["requests"]].map(|n| n.as_f64().unwrap_or(0.0));
    // It is there for two thirds of the time, and a quarter of the pool.
    let share = joined / (all * 2.0 / 3.0);
    assert!((0.1..0.4).contains(&share), "{with}");
    let p99 = |report: &Value| report["ttft_ms"]["p99"].as_f64().unwrap();
    assert!(p99(&with) < p99(&without) * 1.5, "{with} {without}");
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
