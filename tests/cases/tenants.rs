//! Who calls, what they may use, and what of them an engine sees.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use sha2::{Digest as _, Sha256};
use sluicegate_tests::{Answer, Engine, Reply, Router, Value, json, places, wait};

const ACME: &str = "sk-test-acme-0123456789";
const BETA: &str = "sk-test-beta-0123456789";

fn hash(key: &str) -> String {
    let hex: String = Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

fn tenant(name: &str, key: &str, more: &str) -> String {
    format!("[[tenant]]\nname = \"{name}\"\nkey_hashes = [\"{}\"]\n{more}\n", hash(key))
}

fn pool(engine: &Engine) -> String {
    format!("[[pool]]\nname = \"p\"\nendpoints = [\"{}\"]\n", engine.url())
}

async fn with(engine: &Engine, tenants: &str) -> Router {
    Router::with(format!("{tenants}\n{}", pool(engine))).start().await
}

fn body(engine: &Engine) -> Value {
    serde_json::from_slice(&engine.received().pop().unwrap().body).unwrap()
}

async fn refused(answer: Answer, status: u16) -> Value {
    let answer = answer.expect(status).await;
    assert!(!answer.request_id().is_empty());
    answer.json().await
}

#[tokio::test]
async fn without_a_key_that_is_known_nobody_is_served() {
    let engine = Engine::start().await;
    let router = with(&engine, &tenant("acme", ACME, "")).await;

    let answer = router.chat("hello").send().await;
    assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    let error = refused(answer, 401).await;
    assert_eq!(error["error"]["type"], "authentication_error", "{error}");
    let wrong = router.chat("hello").header("authorization", "Bearer sk-wrong-sk-wrong").send().await;
    let error = refused(wrong, 401).await;
    assert!(!error.to_string().contains("sk-wrong"), "{error}");
    let messages = json!({"model": "tiny", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]});
    let answer = router.post("/v1/messages", messages.to_string()).header("x-api-key", "nobody").send().await;
    let error = refused(answer, 401).await;
    assert_eq!((&error["type"], &error["error"]["type"]), (&"error".into(), &"authentication_error".into()));
    router.get("/v1/models").send().await.expect(401).await;
    router.get("/tokenize").send().await.expect(401).await;
    assert!(engine.received().is_empty());
    assert_eq!(router.metric("sluicegate_requests_total", &[("code", "401")]).await, 5.0);

    let bearer = format!("Bearer {ACME}");
    router.chat("hello").header("authorization", &bearer).send().await.expect(200).await;
    router
        .post("/v1/messages", messages.to_string())
        .header("x-api-key", ACME)
        .send()
        .await
        .expect(200)
        .await;
    router.get("/v1/models").header("x-api-key", ACME).send().await.expect(200).await;
    assert!(!router.log().contains("sk-"), "{}", router.log());
}

#[tokio::test]
async fn the_callers_key_goes_to_no_engine_and_to_no_record() {
    let engine = Engine::start().await;
    let router = with(&engine, &tenant("acme", ACME, "")).await;
    let chat = router.chat("hello").header("authorization", &format!("Bearer {ACME}"));
    let answer = chat.header("x-api-key", ACME).header("api-key", ACME).send().await.expect(200).await;
    let id = answer.request_id().to_owned();
    answer.bytes().await;

    let received = engine.only();
    for name in ["authorization", "x-api-key", "api-key"] {
        assert_eq!(received.header(name), None, "{name}");
    }
    let decision = router.decision(&id).await;
    assert_eq!(decision["tenant"], "acme", "{decision}");
    let case = router.admin(&format!("/decisions/{id}?as=case")).await.expect(200).await.text().await;
    for (what, text) in [("decision", decision.to_string()), ("case", case), ("log", router.log())] {
        assert!(!text.contains(ACME), "{what}: {text}");
    }
}

#[tokio::test]
async fn an_engine_is_shown_the_key_of_its_pool_or_its_own() {
    let [one, two] = [Engine::serving("one").await, Engine::serving("two").await];
    let folder = tempfile::TempDir::new().unwrap();
    for (name, key) in [("pool.key", "sk-upstream-of-the-pool"), ("own.key", "sk-upstream-of-its-own")] {
        fs::write(folder.path().join(name), format!("{key}\n")).unwrap();
    }
    let dir = folder.path().display();
    let config = format!(
        "[[pool]]\nname = \"one\"\napi_key = \"file:{dir}/pool.key\"\nendpoints = [\"{}\"]\n\
         [[pool]]\nname = \"two\"\napi_key = \"file:{dir}/pool.key\"\n\
         endpoints = [{{ url = \"{}\", api_key = \"file:{dir}/own.key\" }}]\n",
        one.url(),
        two.url()
    );
    let router = Router::with(config).start().await;
    for (engine, model, key) in
        [(&one, "one", "sk-upstream-of-the-pool"), (&two, "two", "sk-upstream-of-its-own")]
    {
        let chat = router.chat("hello").with("model", model).header("x-api-key", "the-callers");
        chat.header("authorization", "Bearer the-callers").send().await.expect(200).await.bytes().await;
        let received = engine.only();
        assert_eq!(received.header("authorization"), Some(&*format!("Bearer {key}")));
        assert_eq!(received.header("x-api-key"), None);
    }
    let shown = router.admin_json("/config").await.to_string();
    assert!(shown.contains("pool.key") && !shown.contains("sk-upstream"), "{shown}");
    assert!(!router.log().contains("sk-upstream"), "{}", router.log());
}

#[tokio::test]
async fn without_tenants_and_keys_of_its_own_a_pool_is_shown_the_callers() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;
    router.chat("hello").header("authorization", "Bearer theirs").send().await.expect(200).await;
    assert_eq!(engine.only().header("authorization"), Some("Bearer theirs"));
}

#[tokio::test]
async fn what_is_asked_for_only_lowers_what_the_tenant_has() {
    let engine = Engine::start().await;
    let objective = "[[objective]]\nname = \"batch\"\npriority = -7\n";
    let tenants =
        tenant("acme", ACME, "max_priority = 3\npriority = 1") + &tenant("beta", BETA, "") + objective;
    let router = with(&engine, &tenants).await;
    let mut asked = Vec::new();
    for (key, headers) in [
        (ACME, &[][..]),
        (ACME, &[("x-sluicegate-priority", "9")][..]),
        (ACME, &[("x-sluicegate-priority", "-2")][..]),
        (ACME, &[("x-llm-d-inference-objective", "batch")][..]),
        (BETA, &[("x-sluicegate-priority", "9"), ("x-session-id", "s")][..]),
    ] {
        let mut chat = router.chat("hello").header("x-api-key", key);
        for (name, value) in headers {
            chat = chat.header(name, value);
        }
        let answer = chat.send().await.expect(200).await;
        let decision = router.decision(answer.request_id()).await;
        asked.push((decision["tenant"].clone(), decision["priority"].clone(), decision["session"].clone()));
    }
    let acme = |priority: i64| ("acme".into(), priority.into(), Value::Null);
    assert_eq!(asked, [acme(1), acme(3), acme(-2), acme(-7), ("beta".into(), 0.into(), "beta/s".into())]);
}

#[tokio::test]
async fn a_tenant_that_calls_itself_many_gets_no_more() {
    let engine = Engine::start().await;
    engine.report_nothing();
    let fairness = "[[plugin]]\nname = \"fairness\"\nconfig = { headroom = 0.0, full_requests = 1.0 }\n";
    let tenants = tenant("acme", ACME, "") + &tenant("beta", BETA, "") + fairness;
    let router = with(&engine, &tenants).await;
    let live = engine.next_live();
    let in_the_way = router.chat("in the way").header("x-api-key", ACME).streamed();
    tokio::spawn(async move { in_the_way.send().await.bytes().await });
    engine.received_at_least(1).await;
    router.is_full().await;
    let mut asks = Vec::new();
    for n in 0..24 {
        let (key, name) = if n < 20 { (BETA, "beta") } else { (ACME, "acme") };
        let flow = format!("flow-{}", if n < 20 { n % 10 } else { 0 });
        let chat = router.chat(name).header("x-api-key", key).header("x-llm-d-inference-fairness-id", &flow);
        asks.push(tokio::spawn(chat.send()));
        wait::until("it waits", async || {
            router.metric("sluicegate_queue_requests", &[]).await == asks.len() as f64
        })
        .await;
    }
    drop(live);
    for ask in asks {
        ask.await.unwrap().expect(200).await.bytes().await;
    }
    let asked = engine.received();
    let of_acme =
        |received: &&sluicegate_tests::Received| String::from_utf8_lossy(&received.body).contains("acme");
    // Every flow has its first turn; then acme's second weighs less than the others'. By flows alone two of acme's
    // would be among the first 22.
    assert_eq!(asked.iter().skip(1).take(16).filter(of_acme).count(), 4);
}

#[tokio::test]
async fn requests_a_minute_are_bounded_and_the_answer_says_when_to_come_back() {
    let engine = Engine::start().await;
    let tenants = tenant("acme", ACME, "requests_per_minute = 2") + &tenant("beta", BETA, "");
    let router = with(&engine, &tenants).await;
    for _ in 0..2 {
        router.chat("hello").header("x-api-key", ACME).send().await.expect(200).await.bytes().await;
    }
    let answer = router.chat("hello").header("x-api-key", ACME).send().await.expect(429).await;
    let after: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&after), "{after}");
    assert_eq!(answer.header("x-llm-d-request-dropped-reason"), Some("rejected-quota-exceeded"));
    let id = answer.request_id().to_owned();
    let error = answer.json().await;
    assert_eq!(error["error"]["type"], "rate_limit_error", "{error}");
    assert!(error["error"]["message"].as_str().unwrap().contains("2 requests a minute"), "{error}");
    assert_eq!(router.decision(&id).await["tenant"], "acme");
    router.chat("hello").header("x-api-key", BETA).send().await.expect(200).await;
    let labels = [("tenant", "acme"), ("limit", "requests_per_minute")];
    assert_eq!(router.metric("sluicegate_tenant_refused_total", &labels).await, 1.0);
    assert_eq!(router.metric("sluicegate_tenant_requests_total", &[("tenant", "acme")]).await, 2.0);
    let reason = [("reason", "rejected-quota-exceeded")];
    assert_eq!(router.metric("sluicegate_requests_refused_total", &reason).await, 1.0);
}

#[tokio::test]
async fn tokens_are_reserved_and_corrected_by_what_the_engine_reports() {
    let engine = Engine::start().await;
    let router = with(&engine, &tenant("acme", ACME, "tokens_per_minute = 100000")).await;
    let usage = json!({"usage": {"prompt_tokens": 30000, "completion_tokens": 20000, "total_tokens": 50000},
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "so"}, "finish_reason": "stop"}]});
    engine.always(Reply::plain(200, usage.to_string()));
    let chat = || router.chat("hello").header("x-api-key", ACME).send();
    chat().await.expect(200).await.bytes().await;
    let left = |of: Value| of["tenants"][0]["tokens_left"].as_f64().unwrap();
    wait::until("half of the tokens are used", async || {
        (45_000.0..56_000.0).contains(&left(router.admin_json("/tenants").await))
    })
    .await;
    chat().await.expect(200).await.bytes().await;
    wait::until("nearly all are used", async || left(router.admin_json("/tenants").await) < 10_000.0).await;
    let long = "many words ".repeat(10_000);
    let answer = router.chat(&long).header("x-api-key", ACME).send().await.expect(429).await;
    assert!(answer.text().await.contains("100000 tokens a minute"));
    let labels = [("tenant", "acme"), ("kind", "output")];
    assert_eq!(router.metric("sluicegate_tenant_tokens_total", &labels).await, 40_000.0);
}

#[tokio::test]
async fn requests_at_a_time_are_bounded_and_given_back_on_every_path() {
    let engine = Engine::start().await;
    let router = with(&engine, &tenant("acme", ACME, "max_requests = 1")).await;
    let chat = || router.chat("hello").header("x-api-key", ACME);
    let running = async |count: f64| {
        wait::until(&format!("{count} run"), async || {
            router.metric("sluicegate_tenant_running_requests", &[("tenant", "acme")]).await == count
        })
        .await;
    };
    // One that ends, one whose client goes away, one whose engine breaks off, one that is refused for its body.
    let live = engine.next_live();
    let first = tokio::spawn(chat().streamed().send());
    running(1.0).await;
    chat().send().await.expect(429).await;
    drop(live);
    first.await.unwrap().bytes().await;
    running(0.0).await;
    let live = engine.next_live();
    let gone = tokio::spawn(chat().streamed().send());
    running(1.0).await;
    gone.abort();
    let _ = gone.await;
    running(0.0).await;
    drop(live);
    router.post("/v1/chat/completions", "{").header("x-api-key", ACME).send().await.expect(400).await;
    chat().with("model", "nobody-knows").send().await.expect(404).await;
    running(0.0).await;
    chat().send().await.expect(200).await;
}

#[tokio::test]
async fn models_and_paths_that_a_tenant_may_not_use_are_not_there_for_it() {
    let [one, two] = [Engine::serving("one").await, Engine::serving("two").await];
    let tenants =
        tenant("acme", ACME, "models = [\"one\"]\npaths = [\"/tokenize\"]") + &tenant("beta", BETA, "");
    let config = format!(
        "{tenants}\n[[pool]]\nname = \"a\"\nendpoints = [\"{}\"]\n[[pool]]\nname = \"b\"\nendpoints = [\"{}\"]\n",
        one.url(),
        two.url()
    );
    let router = Router::with(config).start().await;
    let chat =
        |key: &str, model: &str| router.chat("hello").with("model", model).header("x-api-key", key).send();
    chat(ACME, "one").await.expect(200).await;
    let error = chat(ACME, "two").await.expect(404).await.json().await;
    assert!(error["error"]["message"].as_str().unwrap().ends_with("served are: one"), "{error}");
    chat(BETA, "two").await.expect(200).await;
    let listed =
        router.get("/v1/models").header("x-api-key", ACME).send().await.expect(200).await.json().await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 1, "{listed}");
    router.post("/tokenize", "{}").header("x-api-key", ACME).send().await.expect(200).await;
    for path in ["/reset_prefix_cache", "/tokenize/..%2fsleep"] {
        let error =
            router.post(path, "{}").header("x-api-key", ACME).send().await.expect(403).await.json().await;
        assert_eq!(error["error"]["code"], "path_not_allowed", "{error}");
    }
    assert_eq!(one.received().len(), 2);
}

#[tokio::test]
async fn isolated_tenants_have_a_salt_of_their_own_and_share_no_prefix() {
    let engine = Engine::start().await;
    let tenants = tenant("acme", ACME, "isolation = true") + &tenant("beta", BETA, "isolation = true");
    let router = with(&engine, &tenants).await;
    let long = "the same words ".repeat(200);
    let ask = async |key: &str, salt: Option<&str>| {
        let mut chat = router.chat(&long).header("x-api-key", key).header("x-sluicegate-explain", "1");
        if let Some(salt) = salt {
            chat = chat.with("cache_salt", salt);
        }
        let answer = chat.send().await.expect(200).await;
        let decision = router.decision(answer.request_id()).await;
        answer.bytes().await;
        let salt = body(&engine)["cache_salt"].as_str().unwrap().to_owned();
        (salt, decision["columns"]["prefix.tokens"][0].clone())
    };
    let first = [
        ask(ACME, None).await,
        ask(BETA, None).await,
        ask(ACME, Some("mine")).await,
        ask(BETA, Some("mine")).await,
    ];
    for (n, (salt, cached)) in first.iter().enumerate() {
        assert!(
            !salt.contains("mine") && first.iter().skip(n + 1).all(|(other, _)| other != salt),
            "{first:?}"
        );
        assert_eq!(cached, &json!(0.0), "{first:?}");
    }
    let again = ask(ACME, None).await;
    assert_eq!(again.0, first[0].0);
    assert!(again.1.as_f64().unwrap() > 100.0, "{again:?}");
}

#[tokio::test]
async fn a_trusted_peer_may_name_the_tenant() {
    let engine = Engine::start().await;
    let tenants = tenant("acme", ACME, "") + "[[tenant]]\nname = \"beta\"\n";
    for (trusted, status) in [("127.0.0.0/8", 200), ("10.0.0.0/8", 401)] {
        let callers = format!("[callers]\nheader = \"x-tenant\"\ntrusted = [\"{trusted}\"]\n");
        let router = with(&engine, &format!("{callers}{tenants}")).await;
        router.chat("hello").header("x-tenant", "beta").send().await.expect(status).await;
        assert!(engine.received().iter().all(|received| received.header("x-tenant").is_none()));
        router.chat("hello").header("x-tenant", "nobody").send().await.expect(401).await;
        let both = router.chat("hello").header("x-tenant", "beta").header("x-api-key", ACME);
        let answer = both.send().await.expect(200).await;
        let who = if status == 200 { "beta" } else { "acme" };
        assert_eq!(router.decision(answer.request_id()).await["tenant"], who);
    }
}

#[tokio::test]
async fn a_key_is_made_with_its_hash_and_one_that_is_there_is_hashed() {
    let tenant_key = |stdin: Option<&str>| {
        let mut command = Command::new(places::router());
        command.args(["tenant", "key"]).args(stdin.map(|_| "--stdin"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(stdin.unwrap_or_default().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let (good, made) = tenant_key(None);
    let (key, line) = made.trim_end().split_once('\n').unwrap();
    assert!(good && key.len() > 40);
    assert_eq!(line, hash(key));
    assert_eq!(tenant_key(Some(ACME)), (true, format!("{}\n", hash(ACME))));
    assert!(!tenant_key(Some("short")).0);

    let engine = Engine::start().await;
    let router = with(&engine, &format!("[[tenant]]\nname = \"t\"\nkey_hashes = [\"{line}\"]\n")).await;
    router.chat("hello").header("x-api-key", key).send().await.expect(200).await;
}
