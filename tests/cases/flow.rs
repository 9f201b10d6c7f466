//! Who waits, and who goes first.

use std::time::Duration;

use sluicegate_tests::{Answer, Engine, Live, Metrics, PluginDir, Reply, Router, builtin, wait};
use tokio::task::JoinHandle;

/// A pool of one engine that takes one request at a time and is busy with one, until the handle is dropped.
async fn busy(queue: &str) -> (Engine, Router, Live) {
    busy_with(queue, None).await
}

/// The same with a plugin directory.
async fn busy_with(queue: &str, plugins: Option<&PluginDir>) -> (Engine, Router, Live) {
    let engine = Engine::start().await;
    engine.report_nothing();
    engine.always(Reply::says("done").after(Duration::from_millis(5)));
    let config = format!(
        "[[plugin]]\nname = \"fairness\"\nconfig = {{ headroom = 0.0, full_requests = 1.0 }}\n\
         [[pool]]\nname = \"p\"\nendpoints = [\"{}\"]\n{queue}\n",
        engine.url()
    );
    let router = Router::with(config);
    let router = match plugins {
        Some(plugins) => router.plugins(plugins).start().await,
        None => router.start().await,
    };
    let live = engine.next_live();
    let in_the_way = router.chat("in the way").streamed();
    tokio::spawn(async move { in_the_way.send().await.bytes().await });
    engine.received_at_least(1).await;
    router.is_full().await;
    (engine, router, live)
}

async fn waiting(router: &Router, count: f64) {
    wait::until(&format!("{count} requests wait"), async || {
        router.metric("sluicegate_queue_requests", &[]).await == count
    })
    .await;
}

/// Frees the engine and says in which order it was asked.
async fn order(engine: &Engine, live: Live, asks: Vec<JoinHandle<Answer>>) -> Vec<String> {
    drop(live);
    for ask in asks {
        ask.await.unwrap().expect(200).await.bytes().await;
    }
    let said = |body: &[u8]| {
        let body: sluicegate_tests::Value = serde_json::from_slice(body).unwrap();
        body["messages"][0]["content"].as_str().unwrap().to_owned()
    };
    engine.received().iter().skip(1).map(|received| said(&received.body)).collect()
}

fn mean_place(order: &[String], name: &str) -> f64 {
    let places: Vec<usize> = (0..order.len()).filter(|place| order[*place] == name).collect();
    places.iter().sum::<usize>() as f64 / places.len() as f64
}

#[tokio::test]
async fn the_higher_band_goes_first() {
    let (engine, router, live) = busy("").await;
    let mut asks = Vec::new();
    for (name, priority) in [("low", "0"), ("high", "5")] {
        for _ in 0..10 {
            asks.push(tokio::spawn(router.chat(name).header("x-sluicegate-priority", priority).send()));
        }
        waiting(&router, asks.len() as f64).await;
    }
    let order = order(&engine, live, asks).await;
    assert!(order.iter().take(10).all(|name| name == "high"), "{order:?}");
}

#[tokio::test]
async fn a_flow_that_asks_much_does_not_crowd_out_one_that_asks_little() {
    let (engine, router, live) = busy("").await;
    let mut asks = Vec::new();
    for (name, count) in [("greedy", 20), ("modest", 4)] {
        for _ in 0..count {
            asks.push(tokio::spawn(router.chat(name).header("x-llm-d-inference-fairness-id", name).send()));
        }
        waiting(&router, asks.len() as f64).await;
    }
    let order = order(&engine, live, asks).await;
    // First come, first served would put the modest ones last, at 21.5 on average.
    assert!(mean_place(&order, "modest") < 12.0, "{order:?}");
}

#[tokio::test]
async fn who_waits_too_long_is_told_so() {
    let (engine, router, _live) = busy("queue = { ttl_ms = 200 }").await;
    let answer = router.chat("hello").send().await.expect(429).await;
    assert_eq!(answer.header("x-llm-d-request-dropped-reason"), Some("rejected-ttl-expired"));
    assert!(answer.header("retry-after").is_some());
    assert!(answer.json().await["error"]["message"].is_string());
    assert_eq!(engine.received().len(), 1, "only the one in the way");
}

#[tokio::test]
async fn a_full_queue_refuses_at_once() {
    let (engine, router, live) = busy("queue = { max_requests = 3 }").await;
    let mut asks: Vec<_> = (0..3).map(|_| tokio::spawn(router.chat("waits").send())).collect();
    waiting(&router, 3.0).await;
    let answer = router.chat("refused").send().await.expect(429).await;
    assert_eq!(answer.header("x-llm-d-request-dropped-reason"), Some("rejected-saturated"));
    assert!(
        router.metric("sluicegate_requests_refused_total", &[("reason", "rejected-saturated")]).await >= 1.0
    );

    // A place in the queue ends with the client that holds it.
    asks.pop().unwrap().abort();
    waiting(&router, 2.0).await;
    assert_eq!(order(&engine, live, asks).await, ["waits", "waits"]);
}

#[tokio::test]
async fn an_empty_pool_queues_until_an_endpoint_comes() {
    let engine = Engine::start().await;
    let addr = engine.crash().await;
    let config = format!("[[pool]]\nname = \"p\"\nmodels = [\"tiny\"]\nendpoints = [\"http://{addr}\"]\n");
    let router = Router::with(config).unready().start().await;
    // What has not been asked yet may be up, and is tried.
    wait::until("the endpoint is known to be down", async || {
        router.endpoint(&addr).await["status"] == "down"
    })
    .await;
    let ask = tokio::spawn(router.chat("patience").send());
    waiting(&router, 1.0).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!ask.is_finished());
    let _engine = Engine::at(&addr, "tiny").await;
    ask.await.unwrap().expect(200).await;
}

#[tokio::test]
async fn what_an_engine_reports_fills_and_empties_the_pool() {
    let engine = Engine::start().await;
    let router = Router::with(format!("[[pool]]\nname = \"p\"\nendpoints = [\"{}\"]\n", engine.url()));
    let router = router.start().await;
    engine.report(Metrics::full());
    router.is_full().await;
    let ask = tokio::spawn(router.chat("patience").send());
    waiting(&router, 1.0).await;
    assert!(engine.received().is_empty());
    engine.report(Metrics::default());
    ask.await.unwrap().expect(200).await;
}

/// Flow control under other bytes is the same policy: it would have served the same flow next in every round.
#[tokio::test]
async fn a_shadow_of_flow_control_says_whom_it_would_have_served_next() {
    let plugins = PluginDir::new();
    // A custom section changes the digest and nothing else: id 0, its length, a name of one letter.
    let other = [&builtin("fairness")[..], &[0, 2, 1, b'x']].concat();
    plugins.put_file("fairness.next.toml", b"[config]\nheadroom = 0.0\nfull_requests = 1.0\n");
    plugins.put("fairness.next", &other);
    let (engine, router, live) = busy_with("", Some(&plugins)).await;
    let shadow = async || router.plugin("fairness").await.unwrap()["candidate"]["shadow"].clone();
    wait::until("it is in shadow", async || {
        router.plugin("fairness").await.unwrap()["candidate"]["mode"] == "shadow"
    })
    .await;
    let mut asks = Vec::new();
    for name in ["a", "b", "c"] {
        for _ in 0..4 {
            asks.push(tokio::spawn(router.chat(name).header("x-llm-d-inference-fairness-id", name).send()));
        }
        waiting(&router, asks.len() as f64).await;
    }
    order(&engine, live, asks).await;
    let said = wait::until_some("it was asked", async || {
        let shadow = shadow().await;
        (shadow["agreement"]["select"]["agree"].as_u64()? > 0).then_some(shadow)
    })
    .await;
    assert!(said["agreement"]["flow-control"]["agree"].as_u64() > Some(0), "{said}");
    assert_eq!(said["agreement"]["select"]["differ"], 0, "{said}");
    assert!(said["last_order"].is_object() || said["last_order"].is_array(), "{said}");
}
