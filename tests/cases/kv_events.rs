//! What engines report of their caches, and what the router makes of it.

use sluicegate_tests::{Router, SimEngine, Value, get, json, wait};

/// Small enough a cache that it has to forget: 24 blocks of 16 tokens.
const SMALL: [&str; 8] =
    ["--speed-up", "100", "--num-blocks", "24", "--block-size", "16", "--kv-events", "tcp://127.0.0.1:0"];

/// The same, and what was published can be asked for again.
fn small() -> Vec<&'static str> {
    [&SMALL[..], &["--kv-events-replay", "tcp://127.0.0.1:0"]].concat()
}

/// A pool that asks its engines where they publish.
fn asking(engines: &[&SimEngine]) -> String {
    let urls: Vec<_> = engines.iter().map(|engine| format!("\"{}\"", engine.url())).collect();
    format!(
        "[[pool]]\nname = \"p\"\nengine = \"vllm\"\nkv_events = \"auto\"\nendpoints = [{}]\n",
        urls.join(", ")
    )
}

/// Token ids that nobody else has.
fn ids(which: u32, count: u32) -> Vec<u32> {
    (0..count).map(|n| which * 10_000 + n).collect()
}

/// Asks for a completion of token ids; what the router predicted to be cached, and what the engine says was.
async fn ask(router: &Router, prompt: &[u32]) -> (u32, u32, Value) {
    let body = json!({"model": "tiny", "prompt": prompt, "max_tokens": 2}).to_string();
    let answer = router.post("/v1/completions", body).send().await.expect(200).await;
    let id = answer.request_id().to_owned();
    let usage = answer.json().await["usage"].clone();
    let decision = router.decision(&id).await;
    let of_picked = |list: &Value| {
        let candidates = decision["candidates"].as_array().unwrap();
        let place = candidates.iter().position(|candidate| *candidate == decision["endpoint"]).unwrap();
        list[place].clone()
    };
    let predicted = of_picked(&decision["columns"]["prefix.tokens"]).as_f64().unwrap();
    let actual = usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0);
    (predicted as u32, u32::try_from(actual).unwrap(), of_picked(&decision["prefix_known"]))
}

/// Waits until the router knows of as many blocks as the engines have.
async fn settled(router: &Router, engines: &[&SimEngine]) {
    wait::until("the router knows all blocks", async || {
        let mut cached = 0.0;
        for engine in engines {
            cached += engine.state().await["cache"]["blocks_cached"].as_f64().unwrap();
        }
        router.metric("sluicegate_kv_index_blocks", &[("tier", "gpu")]).await == cached
    })
    .await;
}

async fn known(router: &Router, engine: &SimEngine) -> String {
    let shown = router.endpoint(&engine.id()).await;
    shown["kv_events"]["known"].as_str().unwrap_or("none").to_owned()
}

/// Has an engine report until the router says this of what it knows. What is published before the publisher has heard
/// of a subscriber is lost to it.
async fn until_known(router: &Router, engine: &SimEngine, wanted: &[&str]) {
    let mut which = 1_000;
    wait::until("the engine's reports are heard", async || {
        which += 1;
        let body = json!({"model": "tiny", "prompt": ids(which, 20), "max_tokens": 1}).to_string();
        let url = format!("{}/v1/completions", engine.url());
        sluicegate_tests::post(url, body).send().await.expect(200).await.bytes().await;
        wanted.contains(&&*known(router, engine).await)
    })
    .await;
}

#[tokio::test]
async fn what_was_predicted_is_what_the_engine_had() {
    let engine = SimEngine::with(&small()).await;
    let router = Router::with(asking(&[&engine])).start().await;
    until_known(&router, &engine, &["exact"]).await;
    settled(&router, &[&engine]).await;
    // What was asked for again while the first messages came may have come twice.
    let dropped = async || router.metric("sluicegate_kv_events_dropped_total", &[]).await;
    let repeated = router.metric("sluicegate_kv_events_dropped_total", &[("reason", "repeated")]).await;
    assert_eq!(dropped().await, repeated, "nothing else is dropped");
    // Beginnings that are shared, prompts that come back, and a cache that holds no more than three of them.
    let (mut cached, mut forgotten) = (0, 0);
    let mut sent: Vec<Vec<u32>> = Vec::new();
    for round in 0..60_u32 {
        let (which, count) = (round * round % 31, 40 + round * 13 % 90);
        let prompt = ids(which, count);
        let (predicted, actual, known) = ask(&router, &prompt).await;
        assert_eq!((predicted, known.as_str()), (actual, Some("exact")), "round {round}");
        cached += u32::from(actual > 0);
        let shared = |before: &Vec<u32>| before.len() >= 32 && before[..32] == prompt[..32];
        forgotten += u32::from(actual == 0 && sent.iter().any(shared));
        sent.push(prompt);
        settled(&router, &[&engine]).await;
    }
    assert!(cached >= 5 && forgotten >= 5, "{cached} prompts were cached, {forgotten} not any more");
    assert!(router.metric("sluicegate_kv_events_total", &[("type", "removed")]).await > 0.0);
    assert_eq!(dropped().await, repeated, "no report is dropped from then on");
}

#[tokio::test]
async fn a_prompt_goes_where_its_cache_is_reported_to_be() {
    let engines = [SimEngine::with(&small()).await, SimEngine::with(&small()).await];
    let router = Router::with(asking(&[&engines[0], &engines[1]])).start().await;
    for engine in &engines {
        until_known(&router, engine, &["exact"]).await;
    }
    // Behind the router's back.
    let body = json!({"model": "tiny", "prompt": ids(1, 200), "max_tokens": 2}).to_string();
    let url = format!("{}/v1/completions", engines[1].url());
    sluicegate_tests::post(url, body).send().await.expect(200).await.bytes().await;
    settled(&router, &[&engines[0], &engines[1]]).await;
    let body = json!({"model": "tiny", "prompt": ids(1, 200), "max_tokens": 2}).to_string();
    let answer = router.post("/v1/completions", body).send().await.expect(200).await;
    assert_eq!(answer.endpoint(), engines[1].id());
    assert_eq!(answer.json().await["usage"]["prompt_tokens_details"]["cached_tokens"], 192);
}

#[tokio::test]
async fn salts_keep_apart() {
    let engine = SimEngine::with(&small()).await;
    let router = Router::with(asking(&[&engine])).start().await;
    until_known(&router, &engine, &["exact"]).await;
    let ask = async |salt: Option<&str>, id: &str| {
        let mut body = json!({"model": "tiny", "prompt": ids(1, 100), "max_tokens": 2});
        if let Some(salt) = salt {
            body["cache_salt"] = salt.into();
        }
        let request = router.post("/v1/completions", body.to_string()).header("x-request-id", id);
        let usage = request.send().await.expect(200).await.json().await["usage"].clone();
        settled(&router, &[&engine]).await;
        let predicted = router.decision(id).await["columns"]["prefix.tokens"][0].as_f64().unwrap();
        (predicted as u64, usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0))
    };
    assert_eq!(ask(Some("a"), "1").await, (0, 0));
    assert_eq!(ask(None, "2").await, (0, 0));
    assert_eq!(ask(Some("b"), "3").await, (0, 0));
    assert_eq!(ask(Some("b"), "4").await, (96, 96));
    assert_eq!(ask(None, "5").await, (96, 96));
}

#[tokio::test]
async fn an_engine_that_is_gone_holds_nothing() {
    let mut engine = SimEngine::with(&small()).await;
    let (id, publishes, replays) = (engine.id(), engine.kv_events().await, engine.kv_events_replay().await);
    let config = format!(
        "[[pool]]\nname = \"p\"\nengine = \"vllm\"\nendpoints = [{{ url = \"{}\", kv_events = {{ connect = \"{publishes}\", \
         replay = \"{replays}\" }} }}]\n",
        engine.url(),
    );
    let router = Router::with(config).start().await;
    until_known(&router, &engine, &["exact"]).await;
    ask(&router, &ids(1, 100)).await;
    settled(&router, &[&engine]).await;
    drop(engine);
    wait::until("its blocks are forgotten", async || {
        router.metric("sluicegate_kv_index_blocks", &[]).await < 0.5
    })
    .await;
    let flags = ["--speed-up", "100", "--kv-events", &publishes, "--kv-events-replay", &replays];
    let engine = SimEngine::at(&id, &flags).await;
    wait::until("it is up again", async || router.endpoint(&id).await["status"] == "up").await;
    until_known(&router, &engine, &["exact"]).await;
    settled(&router, &[&engine]).await;
    let (predicted, actual, _) = ask(&router, &ids(1, 100)).await;
    assert_eq!((predicted, actual), (0, 0));
    settled(&router, &[&engine]).await;
    let (predicted, actual, _) = ask(&router, &ids(1, 100)).await;
    assert_eq!((predicted, actual), (96, 96));
}

#[tokio::test]
async fn what_is_missing_is_asked_for_again() {
    let engine = SimEngine::with(&small()).await;
    // What it held before anybody listened is learned, too.
    let url = format!("{}/v1/completions", engine.url());
    let body = json!({"model": "tiny", "prompt": ids(1, 100), "max_tokens": 2}).to_string();
    sluicegate_tests::post(url, body).send().await.expect(200).await.bytes().await;
    let router = Router::with(asking(&[&engine])).start().await;
    wait::until("it is learned", async || known(&router, &engine).await == "exact").await;
    let (predicted, actual, _) = ask(&router, &ids(1, 100)).await;
    assert_eq!((predicted, actual), (96, 96));
    engine.lose_kv_events(1).await;
    ask(&router, &ids(2, 100)).await;
    ask(&router, &ids(3, 100)).await;
    settled(&router, &[&engine]).await;
    assert_eq!(known(&router, &engine).await, "exact");
    let metric = async |name: &str| router.metric(name, &[]).await;
    assert!(metric("sluicegate_kv_events_gaps_total").await > 0.0);
    assert!(metric("sluicegate_kv_events_replayed_total").await > 0.0);
    assert!(metric("sluicegate_kv_events_forgotten_total").await < 0.5);
}

#[tokio::test]
async fn what_cannot_be_asked_for_makes_all_void() {
    let engine = SimEngine::with(&SMALL).await;
    let router = Router::with(asking(&[&engine])).start().await;
    until_known(&router, &engine, &["exact", "partial"]).await;
    engine.lose_kv_events(1).await;
    ask(&router, &ids(2, 100)).await;
    ask(&router, &ids(3, 100)).await;
    wait::until("all is void", async || {
        router.metric("sluicegate_kv_events_forgotten_total", &[]).await > 0.0
    })
    .await;
    wait::until("what comes afterwards is taken", async || known(&router, &engine).await == "partial").await;
    // What was sent there counts as long as nothing better is known.
    let (predicted, actual, known) = ask(&router, &ids(3, 100)).await;
    assert_eq!((predicted, actual, known.as_str()), (96, 96, Some("partial")));
}

#[tokio::test]
async fn what_was_just_sent_counts_before_it_is_reported() {
    let slow = [
        "--kv-events",
        "tcp://127.0.0.1:0",
        "--kv-events-replay",
        "tcp://127.0.0.1:0",
        "--prefill-rate",
        "2000",
        "--max-num-batched-tokens",
        "400",
    ];
    let engines = [SimEngine::with(&slow).await, SimEngine::with(&slow).await];
    let router = Router::with(asking(&[&engines[0], &engines[1]])).start().await;
    for engine in &engines {
        until_known(&router, engine, &["exact"]).await;
    }
    settled(&router, &[&engines[0], &engines[1]]).await;
    let body = |id: u32| {
        let prompt = [ids(1, 1_600), vec![id; 16]].concat();
        json!({"model": "tiny", "prompt": prompt, "max_tokens": 1}).to_string()
    };
    let first = tokio::spawn(router.post("/v1/completions", body(0)).send());
    wait::until("the first is under way", async || {
        router.metric("sluicegate_endpoint_requests", &[]).await > 0.5
    })
    .await;
    let second = router.post("/v1/completions", body(1)).header("x-request-id", "second");
    second.send().await.expect(200).await.bytes().await;
    let first = first.await.unwrap().endpoint().to_owned();
    let decision = router.decision("second").await;
    let place = decision["candidates"].as_array().unwrap().iter().position(|id| *id == *first).unwrap();
    assert_eq!(decision["prefix_known"][place], "exact");
    assert_eq!(decision["columns"]["prefix.tokens"][place], 1_600.0);
}

#[tokio::test]
async fn an_engine_that_publishes_nothing_is_known_by_what_was_sent() {
    let engine = SimEngine::start().await;
    let router = Router::with(asking(&[&engine])).start().await;
    ask(&router, &ids(1, 100)).await;
    let (predicted, actual, known) = ask(&router, &ids(1, 100)).await;
    assert_eq!((predicted, actual, known.as_str()), (96, 96, Some("approximate")));
    assert_eq!(router.endpoint(&engine.id()).await["kv_events"], Value::Null);
    let page = get(router.admin_url("/metrics")).send().await.expect(200).await.text().await;
    assert!(!page.contains("kv_index_bytes"));
}
