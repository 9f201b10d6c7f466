//! Endpoints that fail: ejected, tried, brought back.

use sluicegate_tests::{Answer, Engine, Reply, Request, Router, Value, json, wait};

/// A pool of these engines, with more keys of the pool and of its `health`.
async fn router(engines: &[&Engine], pool: &str, health: &str) -> Router {
    let urls: Vec<_> = engines.iter().map(|engine| engine.url()).collect();
    let config =
        format!("[[pool]]\nname = \"default\"\nendpoints = {urls:?}\n{pool}\n[pool.health]\n{health}\n");
    Router::with(config).start().await
}

/// Every retry is allowed, and two failures eject for a short time.
const QUICK: &str = "eject_after = 2\neject_ms = 200\nslow_start_ms = 0";
const RETRIES: &str = "retry_min_per_s = 10000";

async fn state(router: &Router, engine: &Engine) -> String {
    router.endpoint(&engine.id()).await["circuit"]["state"].as_str().unwrap().to_owned()
}

/// A prompt that no cache holds.
async fn ask(router: &Router, turn: &mut usize) -> Answer {
    *turn += 1;
    router.chat(&format!("{turn} is a prompt of its own")).send().await
}

#[tokio::test]
async fn an_endpoint_whose_requests_keep_failing_is_ejected_and_tried_until_it_is_well() {
    let [one, two] = [Engine::start().await, Engine::start().await];
    let router = router(&[&one, &two], RETRIES, QUICK).await;
    let failing: [fn() -> Reply; 2] = [|| Reply::plain(500, r#"{"error":{"message":"oom"}}"#), Reply::reset];
    let mut turn = 0;
    for failure in failing {
        one.always(failure());
        let mut seen = false;
        wait::until("it is ejected, and decisions say so", async || {
            let answer = ask(&router, &mut turn).await.expect(200).await;
            let id = answer.request_id().to_owned();
            answer.bytes().await;
            let out = &router.decision(&id).await["out_of_use"];
            seen |= *out == json!([{"endpoint": one.id(), "why": "ejected"}]);
            seen
        })
        .await;
        one.always(Reply::says("well again"));
        wait::until("it is brought back", async || {
            ask(&router, &mut turn).await.expect(200).await.bytes().await;
            state(&router, &one).await == "closed"
        })
        .await;
    }
    let labels = one.id();
    assert!(router.metric("sluicegate_endpoint_ejections_total", &[("endpoint", &labels)]).await >= 2.0);
}

#[tokio::test]
async fn an_ejected_endpoint_is_tried_by_one_request_at_a_time() {
    let [one, two] = [Engine::start().await, Engine::start().await];
    let router = router(&[&one, &two], RETRIES, QUICK).await;
    one.always(Reply::plain(500, "{}"));
    let mut turn = 0;
    wait::until("it is ejected", async || {
        ask(&router, &mut turn).await.expect(200).await.bytes().await;
        state(&router, &one).await == "open"
    })
    .await;
    one.always(Reply::hang());
    wait::until("its time is up", async || state(&router, &one).await == "half_open").await;
    let before = one.received().len();
    let mut held = Vec::new();
    wait::until("a request tries it", async || {
        turn += 1;
        let request = router.chat(&format!("{turn} is a prompt of its own"));
        held.push(tokio::spawn(async move { request.try_send().await.map(|answer| answer.status()) }));
        one.received().len() > before
    })
    .await;
    for _ in 0..20 {
        ask(&router, &mut turn).await.expect(200).await.bytes().await;
    }
    assert_eq!(one.received().len(), before + 1);
    held.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_pool_is_never_ejected_whole() {
    let [one, two] = [Engine::start().await, Engine::start().await];
    let router = router(&[&one, &two], "retry_min_per_s = 0\nretry_percent = 0", QUICK).await;
    for engine in [&one, &two] {
        engine.always(Reply::plain(500, r#"{"error":{"message":"oom"}}"#));
    }
    let mut turn = 0;
    for _ in 0..20 {
        ask(&router, &mut turn).await.expect(500).await.bytes().await;
    }
    let states = [state(&router, &one).await, state(&router, &two).await];
    assert!(states.contains(&"closed".to_owned()), "{states:?}");
    assert!(states != ["closed", "closed"], "{states:?}");
}

#[tokio::test]
async fn a_busy_engine_is_left_alone_for_the_time_that_it_asks_for() {
    let [one, two] = [Engine::start().await, Engine::start().await];
    let router = router(&[&one, &two], "retry_min_per_s = 0\nretry_percent = 0", "eject_after = 1").await;
    let busy =
        |seconds: &str| Reply::plain(429, r#"{"error":{"message":"busy"}}"#).with("retry-after", seconds);
    one.always(busy("30"));
    let mut turn = 0;
    wait::until("it was asked", async || {
        let answer = ask(&router, &mut turn).await.expect(200).await;
        assert_eq!(answer.endpoint(), two.id());
        !one.received().is_empty()
    })
    .await;
    for _ in 0..10 {
        ask(&router, &mut turn).await.expect(200).await.bytes().await;
    }
    assert_eq!(one.received().len(), 1);
    let endpoint = router.endpoint(&one.id()).await;
    assert_eq!(endpoint["circuit"]["state"], "closed", "{endpoint:#}");
    assert!(endpoint["circuit"]["busy_for_ms"].as_u64().unwrap() > 0, "{endpoint:#}");
    assert!(endpoint["success_ratio"].is_null() && endpoint["status"] == "up", "{endpoint:#}");

    two.always(busy("7"));
    let answer = ask(&router, &mut turn).await.expect(429).await;
    assert_eq!(answer.header("retry-after"), Some("7"));
    assert_eq!(answer.json().await["error"]["message"], "busy");
}

#[tokio::test]
async fn a_request_has_a_time_for_everything() {
    let engine = Engine::start().await;
    let router = router(&[&engine], "total_timeout_ms = 300", "eject_after = 1").await;
    engine.next(Reply::hang());
    let answer = router.chat("hello").send().await.expect(504).await;
    assert_eq!(answer.json().await["error"]["code"], "total_timeout");

    let live = engine.next_live();
    let mut answer = router.chat("hello").streamed().send().await.expect(200).await;
    live.event(r#"{"choices":[{"index":0,"delta":{"content":"a"}}]}"#).await;
    answer.event().await.unwrap();
    let error = answer.event().await.expect("no error event");
    assert!(error.contains("total_timeout"), "{error}");
    let endpoint = router.endpoint(&engine.id()).await;
    assert_eq!((&endpoint["last_error"], &endpoint["circuit"]["ejections"]), (&json!(""), &json!(0)));
}

#[tokio::test]
async fn an_endpoint_that_is_not_well_by_its_own_word_is_down() {
    let [one, two] = [Engine::start().await, Engine::start().await];
    let router = router(&[&one, &two], "", "path = \"/alive\"\ninterval_ms = 50").await;
    one.always(Reply::plain(503, "engine dead"));
    wait::until("it is down", async || router.endpoint(&one.id()).await["status"] == "down").await;
    let reason = router.endpoint(&one.id()).await["reason"].to_string();
    assert!(reason.contains("/alive answered 503"), "{reason}");
    assert_eq!(router.chat("hello").send().await.expect(200).await.endpoint(), two.id());
    one.always(Reply::says("well again"));
    wait::until("it is up", async || router.endpoint(&one.id()).await["status"] == "up").await;
}

#[tokio::test]
async fn an_endpoint_that_comes_back_gets_a_growing_share() {
    let [one, two] = [Engine::start().await, Engine::start().await];
    let router = router(&[&one, &two], "", "slow_start_ms = 3600000").await;
    let addr = one.crash().await;
    wait::until("it is down", async || router.endpoint(&addr).await["status"] == "down").await;
    let one = Engine::at(&addr, "tiny").await;
    wait::until("it is up", async || router.endpoint(&addr).await["status"] == "up").await;
    let mut turn = 0;
    for _ in 0..40 {
        ask(&router, &mut turn).await.expect(200).await.bytes().await;
    }
    assert!(one.received().len() < 20, "{} of 40 for a tenth of its share", one.received().len());
    let share = router.endpoint(&addr).await["circuit"]["share"].as_f64().unwrap();
    assert!((0.1..0.2).contains(&share), "{share}");
}

/// How a stream ended.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Whole,
    Told,
}

async fn stream(request: Request) -> Ended {
    let events = request.send().await.expect(200).await.events().await;
    let last = events.last().expect("no event");
    if last == "[DONE]" {
        return Ended::Whole;
    }
    let error: Value = serde_json::from_str(last).expect("no error event");
    assert_eq!(error["error"]["code"], "endpoint_failed", "{last}");
    Ended::Told
}

/// Of 32 clients that stream nobody fails whose answer has not begun, and the others are told in their API's shape.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_is_killed_hangs_or_cuts_costs_streams_under_way_alone() {
    const CLIENTS: usize = 32;
    let slow = || Reply::says(&"word ".repeat(40)).every(std::time::Duration::from_millis(10));
    for fault in ["killed", "hung", "cut"] {
        let mut engines = vec![Engine::start().await, Engine::start().await, Engine::start().await];
        for engine in &engines {
            engine.always(slow());
        }
        let times = "first_byte_timeout_ms = 1000\nretry_min_per_s = 10000";
        let router = router(&engines.iter().collect::<Vec<_>>(), times, "eject_after = 0").await;
        let ask = |turn: usize| router.chat(&format!("{turn} is a prompt of its own")).streamed();
        let before: Vec<_> = (0..CLIENTS).map(|turn| tokio::spawn(stream(ask(turn)))).collect();
        let victim = &engines[0];
        victim.received_at_least(1).await;
        // All of the first clients are served before what begins now can be cut.
        let begun = engines.iter().map(|engine| engine.received().len()).sum::<usize>();
        match fault {
            "killed" => drop(engines.remove(0).crash().await),
            "hung" => victim.always(Reply::hang()),
            _ => victim.always(Reply::cut("cut off after some words of it", 3)),
        }
        let after: Vec<_> = (CLIENTS..2 * CLIENTS).map(|turn| tokio::spawn(stream(ask(turn)))).collect();
        let mut told = 0;
        for ended in before.into_iter().chain(after) {
            told += usize::from(ended.await.expect("a client failed") == Ended::Told);
        }
        match fault {
            "killed" => assert!(told <= begun.max(CLIENTS), "{told} of {begun}"),
            "hung" => assert_eq!(told, 0),
            _ => assert!(told > 0),
        }
        let counted = router.metric("sluicegate_requests_total", &[("code", "502")]).await;
        assert_eq!(counted, told as f64, "{fault}");
    }
}
