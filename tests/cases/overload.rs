//! More than the engines can take: where it waits, and what those who wait are told.

use sluicegate_tests::{
    Engine, Live, PluginDir, Reply, Router, SimEngine, Value, another, builtin, digest, wait,
};

fn pool(engine: &str, more: &str) -> String {
    format!(
        "[scrape]\ninterval_ms = 100\nbusy_interval_ms = 50\n\
         [[pool]]\nname = \"p\"\nmodels = [\"tiny\"]\nendpoints = [\"{engine}\"]\n{more}\n"
    )
}

async fn waiting(router: &Router, count: f64) {
    wait::until(&format!("{count} requests wait"), async || {
        router.metric("sluicegate_queue_requests", &[]).await >= count
    })
    .await;
}

/// A pool of one engine that takes one request at a time and is busy with one, until the handle is dropped.
async fn busy(more: &str) -> (Engine, Router, Live) {
    let engine = Engine::start().await;
    engine.report_nothing();
    engine.always(Reply::says("done"));
    let one_at_a_time = "[[plugin]]\nname = \"fairness\"\nconfig = { headroom = 0.0, full_requests = 1.0 }\n";
    let router = Router::with(format!("{one_at_a_time}{}", pool(&engine.url(), more))).start().await;
    let live = engine.next_live();
    let in_the_way = router.chat("in the way").streamed();
    tokio::spawn(async move { in_the_way.send().await.bytes().await });
    engine.received_at_least(1).await;
    router.is_full().await;
    (engine, router, live)
}

#[tokio::test]
async fn the_queue_forms_here_and_not_inside_the_engine() {
    let engine = SimEngine::with(&["--max-num-seqs", "4", "--decode-ms", "30"]).await;
    let router = Router::with(pool(&engine.url(), "")).start().await;
    let ask = || tokio::spawn(router.chat("many").with("max_tokens", 2_000).send());
    let asks: Vec<_> = (0..40).map(|_| ask()).collect();
    wait::until("the limit is learned", async || {
        let endpoint = router.endpoint(&engine.id()).await;
        endpoint["load"]["limit"].as_f64().is_some_and(|limit| limit <= 9.0)
    })
    .await;
    // What comes from now on waits here.
    let later: Vec<_> = (0..5).map(|_| ask()).collect();
    waiting(&router, 5.0).await;
    asks.into_iter().chain(later).for_each(|ask| ask.abort());
}

#[tokio::test]
async fn a_request_before_its_endpoint_waits_for_it() {
    let engine = Engine::start().await;
    let addr = engine.crash().await;
    let router = Router::with(pool(&format!("http://{addr}"), "")).unready().start().await;
    // Whether the endpoint was looked at by now or not.
    let asks: Vec<_> = (0..5).map(|_| tokio::spawn(router.chat("early").send())).collect();
    waiting(&router, 5.0).await;
    let _engine = Engine::at(&addr, "tiny").await;
    for ask in asks {
        ask.await.unwrap().expect(200).await;
    }
}

#[tokio::test]
async fn who_is_refused_is_told_where_it_would_stand() {
    let (_engine, router, _live) = busy("queue = { max_requests = 2 }").await;
    let asks: Vec<_> = (0..2).map(|_| tokio::spawn(router.chat("waits").send())).collect();
    waiting(&router, 2.0).await;
    let answer = router.chat("refused").send().await.expect(429).await;
    assert_eq!(answer.header("x-sluicegate-queue-position"), Some("3"));
    assert!(answer.header("retry-after").unwrap().parse::<u32>().unwrap() >= 1);
    asks.into_iter().for_each(|ask| ask.abort());
}

#[tokio::test]
async fn who_waited_is_told_how_long() {
    let (_engine, router, live) = busy("").await;
    let ask = tokio::spawn(router.chat("waits").send());
    waiting(&router, 1.0).await;
    drop(live);
    let answer = ask.await.unwrap().expect(200).await;
    assert_eq!(answer.header("x-sluicegate-queue-position"), Some("1"));
    assert!(answer.header("x-sluicegate-queued-ms").is_some());
}

#[tokio::test]
async fn a_flow_has_a_bound_of_its_own() {
    let (_engine, router, _live) = busy("queue = { flow_requests = 1 }").await;
    let ask = |flow: &str| router.chat("hello").header("x-llm-d-inference-fairness-id", flow).send();
    let first = tokio::spawn(ask("greedy"));
    waiting(&router, 1.0).await;
    let answer = ask("greedy").await.expect(429).await;
    assert!(answer.json().await["error"]["message"].as_str().unwrap().contains("of this flow"));
    let other = tokio::spawn(ask("modest"));
    waiting(&router, 2.0).await;
    [first, other].into_iter().for_each(|ask| ask.abort());
}

#[tokio::test]
async fn a_stream_that_waits_is_kept_alive() {
    let (_engine, router, live) = busy("queue = { keep_alive_ms = 30 }").await;
    let mut answer = router.chat("waits").streamed().send().await.expect(200).await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.chunk().await.unwrap().as_deref(), Some(&b": waiting\n\n"[..]));
    drop(live);
    let text = answer.text().await;
    assert!(text.contains("done") && text.contains("[DONE]"), "{text}");
}

#[tokio::test]
async fn a_stream_that_was_kept_alive_ends_in_an_error_of_its_api() {
    let (_engine, router, _live) = busy("queue = { keep_alive_ms = 30, ttl_ms = 300 }").await;
    let text = router.chat("waits").streamed().send().await.expect(200).await.text().await;
    let error =
        text.lines().rev().find_map(|line| line.strip_prefix("data: {")).unwrap_or_else(|| panic!("{text}"));
    assert!(error.contains("no capacity within"), "{text}");
}

#[tokio::test]
async fn engines_are_told_how_important_a_request_is() {
    let engine = Engine::start().await;
    let router = Router::with(pool(&engine.url(), "engine_priority = \"lower-first\"")).start().await;
    for priority in ["1", "-1"] {
        let request = router.chat("hello").with("priority", 7).header("x-sluicegate-priority", priority);
        request.send().await.expect(200).await;
    }
    let said = |at: usize| {
        let body: Value = serde_json::from_slice(&engine.received()[at].body).unwrap();
        body["priority"].as_i64().unwrap()
    };
    assert!(said(0) < -500_000_000 && said(1) > 500_000_000, "{} {}", said(0), said(1));
}

#[tokio::test]
async fn what_flows_had_is_counted() {
    let engine = Engine::start().await;
    let router = Router::with(pool(&engine.url(), "")).start().await;
    for _ in 0..3 {
        router.chat("hello").header("x-llm-d-inference-fairness-id", "f").send().await.expect(200).await;
    }
    wait::until("they are counted", async || {
        router.metric("sluicegate_flow_requests_total", &[("flow", "f")]).await == 3.0
    })
    .await;
    wait::until("their tokens are", async || {
        router.metric("sluicegate_flow_tokens_total", &[("flow", "f")]).await > 0.0
    })
    .await;
}

#[tokio::test]
async fn a_swap_of_the_policy_loses_nobody_who_waits() {
    let engine = Engine::start().await;
    engine.report_nothing();
    engine.always(Reply::says("done"));
    let plugins = PluginDir::new();
    let fairness = builtin("fairness");
    plugins.put("fairness", &fairness);
    let one_at_a_time = "[[plugin]]\nname = \"fairness\"\nconfig = { headroom = 0.0, full_requests = 1.0 }\n";
    let config = format!("{one_at_a_time}{}", pool(&engine.url(), ""));
    let router = Router::with(config).plugins(&plugins).start().await;
    let live = engine.next_live();
    let in_the_way = router.chat("in the way").streamed();
    tokio::spawn(async move { in_the_way.send().await.bytes().await });
    engine.received_at_least(1).await;
    router.is_full().await;
    let mut asks = Vec::new();
    for n in 0..60 {
        asks.push(tokio::spawn(router.chat(&format!("{n}")).send()));
        // In order: within a flow who came first goes first.
        waiting(&router, f64::from(n) + 1.0).await;
    }
    let next = another(&fairness, 1);
    plugins.put("fairness", &next);
    router.plugin_runs("fairness", &digest(&next)).await;
    drop(live);
    for ask in asks {
        ask.await.unwrap().expect(200).await.bytes().await;
    }
    let said = |body: &[u8]| {
        let body: Value = serde_json::from_slice(body).unwrap();
        body["messages"][0]["content"].as_str().unwrap().parse::<u32>().ok()
    };
    let order: Vec<_> = engine.received().iter().filter_map(|received| said(&received.body)).collect();
    assert_eq!(order, (0..60).collect::<Vec<_>>());
}
