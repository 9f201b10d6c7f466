//! Legs that fail: the request is answered all the same, and nothing stays behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sluicegate_tests::{Engine, Reply, Router, SimEngine, Value, json, wait};

const CLIENTS: usize = 32;

struct Pool {
    prefill: Vec<SimEngine>,
    decode: Vec<SimEngine>,
    router: Router,
    /// What engines share that hand over by a store.
    _store: tempfile::TempDir,
}

fn endpoint(engine: &SimEngine, role: &str) -> String {
    let port = engine.id().rsplit(':').next().unwrap().to_owned();
    format!("{{ url = \"{}\", role = \"{role}\", bootstrap_port = {port} }}", engine.url())
}

/// Two engines of each role, in a pool that always splits.
async fn pool(dialect: &str) -> Pool {
    let store = tempfile::tempdir().unwrap();
    let folder = store.path().to_str().unwrap();
    let flags = |role| {
        let mut flags = vec!["--speed-up", "50", "--lease-s", "2", "--connector", dialect, "--role", role];
        if dialect == "storage" {
            flags.extend(["--store", folder]);
        }
        flags
    };
    let (mut prefill, mut decode) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        prefill.push(SimEngine::with(&flags("prefill")).await);
        decode.push(SimEngine::with(&flags("decode")).await);
    }
    let endpoints = prefill.iter().map(|engine| endpoint(engine, "prefill"));
    let endpoints: Vec<_> = endpoints.chain(decode.iter().map(|engine| endpoint(engine, "decode"))).collect();
    let router = Router::with(format!(
        "[[plugin]]\nname = \"pd-split\"\nconfig = {{ mode = \"always\" }}\n[[pool]]\nname = \"p\"\nmodels = [\"tiny\"]\n\
         dialect = \"{dialect}\"\nprefill_timeout_ms = 1000\nfirst_byte_timeout_ms = 3000\nidle_timeout_ms = 3000\n\
         retry_percent = 100\nretry_min_per_s = 1000\nendpoints = [{}]\n",
        endpoints.join(", ")
    ));
    Pool { prefill, decode, router: router.start().await, _store: store }
}

fn question(number: usize) -> String {
    let text = format!("question {number}: {}", "what is to be said of this and that ".repeat(30));
    json!({"model": "tiny", "max_tokens": 4, "messages": [{"role": "user", "content": text}]}).to_string()
}

/// What may become of a stream whose first bytes have come.
#[derive(Clone, Copy, PartialEq)]
enum Begun {
    /// It comes to its end.
    Ends,
    /// Its engine may go away in its midst.
    MayBreak,
}

/// Asks with many clients, half of which stream, while `trouble` happens; everybody has to be answered.
async fn nobody_fails(pool: &Pool, begun: Begun, trouble: impl AsyncFnOnce()) {
    let (asked, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let url = pool.router.url("/v1/chat/completions");
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (asked, over, url) = (Arc::clone(&asked), Arc::clone(&over), url.clone());
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let request =
                        sluicegate_tests::post(&url, question(asked.fetch_add(1, Ordering::Relaxed)));
                    let request = if client % 2 == 0 { request.streamed() } else { request };
                    let answer = request.send().await.expect(200).await.text().await;
                    let may_break = begun == Begun::MayBreak && answer.starts_with("data: {\"id\"");
                    assert!(may_break || !answer.contains("\"error\""), "{answer}");
                }
            })
        })
        .collect();
    let more = async |count: usize| {
        let before = asked.load(Ordering::Relaxed);
        wait::until("more is asked", async || asked.load(Ordering::Relaxed) >= before + count).await;
    };
    more(CLIENTS).await;
    trouble().await;
    more(2 * CLIENTS).await;
    over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
}

async fn nothing_is_left(pool: &Pool) {
    wait::until("no load is counted", async || {
        let load = pool.router.metric("sluicegate_endpoint_requests", &[]).await
            + pool.router.metric("sluicegate_endpoint_prefill_tokens", &[]).await
            + pool.router.metric("sluicegate_endpoint_decode_tokens", &[]).await;
        load.abs() < 0.5
    })
    .await;
    assert!(pool.router.metric("sluicegate_split_leases", &[]).await.abs() < 0.5);
    for engine in pool.prefill.iter().chain(&pool.decode) {
        wait::until("nothing is kept or runs", async || {
            let state = engine.state().await;
            state["leases"]["held"] == 0 && state["running"] == 0 && state["fetching"] == 0
        })
        .await;
    }
}

async fn faults(dialect: &str, faults: &[Value]) {
    let mut pool = pool(dialect).await;
    for fault in faults {
        for side in ["prefill", "decode"] {
            let engines = if side == "prefill" { &pool.prefill } else { &pool.decode };
            let victim = &engines[0];
            nobody_fails(&pool, Begun::Ends, async || victim.fault(fault.clone()).await).await;
            victim.fault(json!({"mode": "none"})).await;
        }
    }
    nothing_is_left(&pool).await;
    // And the process itself, one of each side.
    let killed = (pool.prefill.pop(), pool.decode.pop());
    nobody_fails(&pool, Begun::MayBreak, async || drop(killed)).await;
    nothing_is_left(&pool).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_side_of_nixl_may_fail_at_each_step() {
    let list = [
        json!({"mode": "refuse"}),
        json!({"mode": "error", "status": 500}),
        json!({"mode": "cut"}),
        json!({"mode": "hang", "times": 4}),
    ];
    faults("nixl", &list).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_side_of_mooncake_may_fail_at_each_step() {
    faults(
        "mooncake",
        &[json!({"mode": "refuse"}), json!({"mode": "cut"}), json!({"mode": "hang", "times": 4})],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_side_of_sglang_may_fail_at_each_step() {
    faults("sglang", &[json!({"mode": "refuse"}), json!({"mode": "error", "status": 500})]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_side_of_offloading_may_fail_at_each_step() {
    let list = [json!({"mode": "refuse"}), json!({"mode": "cut"}), json!({"mode": "hang", "times": 4})];
    faults("offloading", &list).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_side_of_a_shared_store_may_fail_at_each_step() {
    let list = [
        json!({"mode": "refuse"}),
        json!({"mode": "error", "status": 500}),
        json!({"mode": "cut"}),
        json!({"mode": "hang", "times": 4}),
    ];
    faults("storage", &list).await;
}

/// One engine of each role that says what the test wants.
async fn scripted() -> (Engine, Engine, Router) {
    scripted_in("nixl").await
}

async fn scripted_in(dialect: &str) -> (Engine, Engine, Router) {
    let (prefill, decode) = (Engine::start().await, Engine::start().await);
    let config = format!(
        "[[plugin]]\nname = \"pd-split\"\nconfig = {{ mode = \"always\" }}\n[[pool]]\nname = \"p\"\nmodels = [\"tiny\"]\n\
         dialect = \"{dialect}\"\nfirst_byte_timeout_ms = 2000\nendpoints = [{{ url = \"{}\", role = \"prefill\" }}, \
         {{ url = \"{}\", role = \"decode\" }}]\n",
        prefill.url(),
        decode.url()
    );
    let router = Router::with(config).start().await;
    (prefill, decode, router)
}

const HANDED_OVER: &str = r#"{"id":"x","kv_transfer_params":{"do_remote_prefill":true,"remote_block_ids":[[1]],"new_member":{"a":1e400}}}"#;

#[tokio::test]
async fn nonsense_from_prefill_is_served_whole() {
    let (prefill, decode, router) = scripted().await;
    let huge = format!(r#"{{"kv_transfer_params":{{"remote_block_ids":[{}1]}}}}"#, "1,".repeat(3_000_000));
    for nonsense in [
        "",
        "no json",
        "{}",
        r#"{"kv_transfer_params":null}"#,
        "data: {\"kv_transfer_params\":{}}\n\n",
        &huge,
    ] {
        prefill.next(Reply::plain(200, nonsense.to_owned()));
        let answer = router.chat("hello").header("x-request-id", "r").send().await.expect(200).await;
        assert_eq!(answer.endpoint(), decode.id());
        answer.bytes().await;
        let decision = router.decision("r").await;
        assert_eq!(decision["split"]["outcome"], "failed", "{decision:#}");
        assert_eq!(decision["prefill"], Value::Null);
    }
    let bodies = decode.received();
    assert!(
        bodies.iter().all(|request| !String::from_utf8_lossy(&request.body).contains("kv_transfer_params"))
    );
}

#[tokio::test]
async fn what_prefill_hands_over_goes_on_as_it_came() {
    let (prefill, decode, router) = scripted().await;
    prefill.next(Reply::plain(200, HANDED_OVER));
    router.chat("hello").send().await.expect(200).await.bytes().await;
    let sent = String::from_utf8(decode.only().body.to_vec()).unwrap();
    let params = r#""kv_transfer_params":{"do_remote_prefill":true,"remote_block_ids":[[1]],"new_member":{"a":1e400}}"#;
    assert!(sent.contains(params), "{sent}");
}

#[tokio::test]
async fn a_stream_that_begins_with_an_error_is_redone_before_the_client_hears_of_it() {
    let (prefill, decode, router) = scripted().await;
    prefill.always(Reply::plain(200, HANDED_OVER));
    decode.next(Reply::events(
        "data: {\"error\":{\"message\":\"KV transfer failed\",\"code\":500}}\n\ndata: [DONE]\n\n",
    ));
    let answer = router.chat("hello").streamed().header("x-request-id", "r").send().await.expect(200).await;
    assert!(!answer.text().await.contains("KV transfer"));
    assert_eq!(decode.received().len(), 2);
    assert!(!String::from_utf8_lossy(&decode.received()[1].body).contains("kv_transfer_params"));
    assert_eq!(router.decision("r").await["split"]["outcome"], "failed");
    assert!((router.metric("sluicegate_split_leases_left_total", &[]).await - 1.0).abs() < 0.1);
}

#[tokio::test]
async fn a_decode_that_waits_for_a_cache_that_never_comes_is_redone() {
    let (prefill, decode, router) = scripted().await;
    prefill.always(Reply::plain(200, HANDED_OVER));
    decode.next(Reply::hang());
    router.chat("hello").header("x-request-id", "r").send().await.expect(200).await.bytes().await;
    assert_eq!(router.decision("r").await["split"]["outcome"], "failed");
    assert_eq!(decode.received().len(), 2);
}

#[tokio::test]
async fn a_client_that_leaves_cancels_the_leg_that_runs() {
    let (prefill, decode, router) = scripted().await;
    let _silent = prefill.next_live();
    let url = router.url("/v1/chat/completions");
    let body = json!({"model": "tiny", "messages": [{"role": "user", "content": "hello"}]}).to_string();
    let client = tokio::spawn(async move { sluicegate_tests::post(url, body).send().await });
    prefill.received_at_least(1).await;
    client.abort();
    wait::until("prefill is left", async || prefill.only().gone()).await;
    wait::until("no load is counted", async || {
        router.metric("sluicegate_endpoint_requests", &[]).await.abs() < 0.5
    })
    .await;
    assert!(decode.received().is_empty());
}

#[tokio::test]
async fn a_client_that_leaves_cancels_both_legs_that_run_at_once() {
    let (prefill, decode, router) = scripted_in("sglang").await;
    let _silent = (prefill.next_live(), decode.next_live());
    let url = router.url("/v1/chat/completions");
    let body = json!({"model": "tiny", "messages": [{"role": "user", "content": "hello"}]}).to_string();
    let client = tokio::spawn(async move { sluicegate_tests::post(url, body).send().await });
    prefill.received_at_least(1).await;
    decode.received_at_least(1).await;
    client.abort();
    wait::until("both are left", async || prefill.only().gone() && decode.only().gone()).await;
    wait::until("no load is counted", async || {
        router.metric("sluicegate_endpoint_requests", &[]).await.abs() < 0.5
    })
    .await;
}

#[tokio::test]
async fn where_nobody_decodes_those_who_prefill_answer() {
    let (prefill, decode, router) = scripted().await;
    let name = prefill.id();
    drop(decode);
    wait::until("decode is down", async || {
        router.chat("hi").send().await.expect(200).await.endpoint() == name
    })
    .await;
}
