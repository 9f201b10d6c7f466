//! A policy can never take the router down, nor fail a request.

use sluicegate_tests::{Engine, PluginDir, Router, digest, guest, wait};

/// Traffic while a guest is dropped in: every request is answered, and the guest's failures are counted.
async fn survives(name: &str, reasons: &[&str]) {
    survives_with("", name, reasons).await;
}

/// The same with settings of its own.
async fn survives_with(settings: &str, name: &str, reasons: &[&str]) {
    let engines = [Engine::start().await, Engine::start().await, Engine::start().await];
    let plugins = PluginDir::new();
    let urls: Vec<String> = engines.iter().map(|engine| format!("\"{}\"", engine.url())).collect();
    let config = format!("{settings}[[pool]]\nname = \"p\"\nendpoints = [{}]\n", urls.join(", "));
    // A plugin that the settings name is awaited, so the router is not ready without it.
    let mut router = Router::with(config).plugins(&plugins).unready().start().await;
    wait::until("the engines are up", async || {
        let all = router.admin_json("/endpoints").await;
        all["endpoints"].as_array().unwrap().iter().all(|endpoint| endpoint["status"] == "up")
    })
    .await;
    let bytes = guest(name);
    plugins.put(name, &bytes);

    let mut asked = 0;
    wait::until(&format!("failures of {name} are counted as {reasons:?}"), async || {
        for _ in 0..10 {
            router.chat(&format!("request {asked}")).send().await.expect(200).await.bytes().await;
            asked += 1;
        }
        let mut counted = 0.0;
        for reason in reasons {
            let labels = [("plugin", name), ("reason", reason)];
            counted += router.metric("sluicegate_plugin_failures_total", &labels).await;
        }
        counted >= 1.0
    })
    .await;

    // Either its trial calls gave it away, or it runs until it is set aside.
    wait::until(&format!("{name} is refused or set aside"), async || {
        router.chat(&format!("request {asked}")).send().await.expect(200).await.bytes().await;
        asked += 1;
        let plugin = router.plugin(name).await.unwrap();
        plugin["state"] == "set_aside" || plugin["refused"]["digest"] == digest(&bytes)
    })
    .await;
    for _ in 0..20 {
        router.chat(&format!("request {asked}")).send().await.expect(200).await.bytes().await;
        asked += 1;
    }
    assert!(router.running());
    assert_eq!(router.metric("sluicegate_requests_total", &[("code", "200")]).await, f64::from(asked));
    assert_eq!(router.metric("sluicegate_requests_total", &[]).await, f64::from(asked));
}

#[tokio::test]
async fn a_guest_that_loops() {
    survives("loops", &["deadline"]).await;
}

#[tokio::test]
async fn a_guest_that_traps() {
    survives("traps", &["trap"]).await;
}

#[tokio::test]
async fn a_guest_that_fails_its_trial_calls_never_serves() {
    survives("traps-at-once", &["trap"]).await;
}

#[tokio::test]
async fn a_guest_that_eats_memory() {
    // With time enough to reach the cap: filling memory is slow work on a busy machine.
    let settings =
        "[limits]\npolicy_ms = 5000\n[[plugin]]\nname = \"eats\"\ndeadline_ms = 5000\nmemory_mib = 16\n";
    survives_with(settings, "eats", &["memory"]).await;
}

#[tokio::test]
async fn a_guest_that_eats_memory_slowly_meets_its_deadline_or_its_cap() {
    let engine = Engine::start().await;
    let plugins = PluginDir::new();
    plugins.put("eats", &guest("eats"));
    let router = Router::to(&[&engine]).plugins(&plugins).start().await;
    for request in 0..20 {
        router.chat(&format!("request {request}")).send().await.expect(200).await;
    }
    assert!(router.metric("sluicegate_plugin_failures_total", &[("plugin", "eats")]).await >= 1.0);
}

#[tokio::test]
async fn a_guest_that_names_positions_twice() {
    // In a trial call without candidates there is not even a first one to name.
    survives("repeats", &["repeated", "out_of_range"]).await;
}

#[tokio::test]
async fn a_filter_that_keeps_nobody_is_heard_unless_told_otherwise() {
    let engine = Engine::start().await;
    let plugins = PluginDir::new();
    let pool = format!("[[pool]]\nname = \"p\"\nendpoints = [\"{}\"]\n", engine.url());
    plugins.put("keeps-none", &guest("keeps-none"));

    let router = Router::with(&pool).plugins(&plugins).start().await;
    let answer = router.chat("hello").send().await.expect(503).await;
    assert_eq!(answer.header("x-llm-d-request-dropped-reason"), Some("rejected-no-endpoints"));
    assert_eq!(answer.json().await["error"]["code"], "no_endpoint_available");

    let ignored = format!("[[plugin]]\nname = \"keeps-none\"\non_empty = \"ignore\"\n{pool}");
    let router = Router::with(ignored).plugins(&plugins).start().await;
    router.chat("hello").send().await.expect(200).await;
}

#[tokio::test]
async fn a_policy_that_refuses_is_quoted_to_the_client() {
    let engine = Engine::start().await;
    let plugins = PluginDir::new();
    plugins.put("rejects", &guest("rejects"));
    let config = format!(
        "[[plugin]]\nname = \"rejects\"\nconfig = {{ models = [\"tiny\"] }}\n\
         [[pool]]\nname = \"p\"\nendpoints = [\"{}\"]\n",
        engine.url()
    );
    let router = Router::with(config).plugins(&plugins).start().await;
    let answer = router.chat("hello").send().await.expect(429).await;
    assert_eq!(answer.header("x-llm-d-request-dropped-reason"), Some("rejected-by-policy"));
    assert_eq!(answer.header("retry-after"), Some("2"));
    let error = answer.json().await;
    assert!(error["error"]["message"].as_str().unwrap().contains("tiny is busy"), "{error}");
    assert!(engine.received().is_empty());
}

#[tokio::test]
async fn a_guest_that_answers_nan() {
    survives("nan", &["not_finite"]).await;
}

#[tokio::test]
async fn a_guest_that_answers_lists_of_wrong_length() {
    survives("wrong-length", &["wrong_length"]).await;
}

#[tokio::test]
async fn a_guest_that_answers_positions_out_of_range() {
    survives("out-of-range", &["out_of_range"]).await;
}

#[tokio::test]
async fn a_good_file_clears_what_a_bad_one_did() {
    let engine = Engine::start().await;
    let plugins = PluginDir::new();
    let router = Router::to(&[&engine]).plugins(&plugins).start().await;
    plugins.put("mine", &guest("traps"));
    wait::until("the bad one is known as bad", async || {
        router.chat("hello").send().await.expect(200).await.bytes().await;
        let plugin = router.plugin("mine").await.unwrap_or_default();
        plugin["state"] == "set_aside" || plugin["state"] == "refused"
    })
    .await;
    let good = guest("prefers-a");
    plugins.put("mine", &good);
    assert_eq!(router.plugin_runs("mine", &digest(&good)).await["state"], "active");
}
