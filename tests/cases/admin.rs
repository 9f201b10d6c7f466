//! The admin API.

use sluicegate_tests::{Engine, Metrics, Router, json, post, wait};

#[tokio::test]
async fn ready_means_an_endpoint_is_up_and_its_models_are_known() {
    let engine = Engine::start().await;
    let addr = engine.crash().await;
    let router = Router::to_urls(&[format!("http://{addr}")]).unready().start().await;
    router.admin("/healthz").await.expect(200).await;
    let said = router.admin("/readyz").await.expect(503).await.text().await;
    assert!(!said.trim().is_empty());

    let _engine = Engine::at(&addr, "tiny").await;
    wait::until("it is ready", async || router.admin("/readyz").await.status() == 200).await;
}

#[tokio::test]
async fn endpoints_show_what_is_known_of_them() {
    let engine = Engine::start().await;
    engine.report(Metrics { running: 3, waiting: 2, kv_usage: 0.5 });
    let config = format!(
        "[[pool]]\nname = \"p\"\nendpoints = [{{ url = \"{}\", labels = {{ zone = \"a\" }} }}]\n",
        engine.url()
    );
    let router = Router::with(config).start().await;
    let endpoint = router.endpoint(&engine.id()).await;
    assert_eq!(
        (&endpoint["pool"], &endpoint["status"], &endpoint["engine"]),
        (&"p".into(), &"up".into(), &"vllm".into())
    );
    assert_eq!(endpoint["labels"], json!({"zone": "a"}));
    assert_eq!(endpoint["models"], json!(["tiny"]));
    let load = &endpoint["load"];
    assert_eq!(
        (&load["requests"], &load["prefill_tokens"], &load["decode_tokens"]),
        (&0.into(), &0.into(), &0.into())
    );
    assert!(load["limit"].as_f64() > Some(0.0), "{load}");
}

#[tokio::test]
async fn live_load_counts_what_runs() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;
    let live = engine.next_live();
    let ask = tokio::spawn(router.chat("hello").streamed().send());
    wait::until("one request runs", async || router.endpoint(&engine.id()).await["load"]["requests"] == 1)
        .await;
    drop(live);
    ask.await.unwrap().bytes().await;
    wait::until("none runs", async || router.endpoint(&engine.id()).await["load"]["requests"] == 0).await;
}

#[tokio::test]
async fn a_drained_endpoint_gets_nothing_new() {
    let [one, two] = [Engine::start().await, Engine::start().await];
    let router = Router::to(&[&one, &two]).start().await;
    router.admin_post(&format!("/endpoints/{}/drain", one.id())).await.expect(200).await;
    assert_eq!(router.endpoint(&one.id()).await["draining"], true);
    for turn in 0..10 {
        let answer = router.chat(&format!("turn {turn}")).send().await.expect(200).await;
        assert_eq!(answer.endpoint(), two.id());
    }
    router.admin_post(&format!("/endpoints/{}/undrain", one.id())).await.expect(200).await;
    assert_eq!(router.endpoint(&one.id()).await["draining"], false);
    router.admin_post("/endpoints/10.1.2.3:4/drain").await.expect(404).await;
}

#[tokio::test]
async fn pages_of_other_origins_may_not_change_anything() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;
    let drain = router.admin_url(&format!("/endpoints/{}/drain", engine.id()));
    post(&drain, "").header("origin", "https://elsewhere.example").send().await.expect(403).await;
    post(&drain, "").header("host", "elsewhere.example").send().await.expect(403).await;
    assert_eq!(router.endpoint(&engine.id()).await["draining"], false);
}

#[tokio::test]
async fn metrics_count_requests() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;
    for _ in 0..3 {
        router.chat("hello").send().await.expect(200).await.bytes().await;
    }
    router.post("/v1/chat/completions", "{").send().await.expect(400).await;
    assert_eq!(router.metric("sluicegate_requests_total", &[("api", "chat"), ("code", "200")]).await, 3.0);
    assert_eq!(router.metric("sluicegate_requests_total", &[("code", "400")]).await, 1.0);
    assert_eq!(router.metric("sluicegate_endpoint_up", &[("endpoint", &engine.id())]).await, 1.0);
    assert!(router.metric("sluicegate_plugin_info", &[("plugin", "prefix-affinity")]).await >= 1.0);
    let page = router.admin("/metrics").await.text().await;
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        assert!(line.starts_with("sluicegate_"), "{line}");
    }
}

#[tokio::test]
async fn the_built_in_plugins_run_without_any_configuration() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;
    for (name, stage) in
        [("prefix-affinity", "scorer"), ("fairness", "flow-control"), ("pd-split", "disaggregation")]
    {
        let plugin = router.plugin(name).await.unwrap();
        assert_eq!((&plugin["source"], &plugin["state"]), (&"builtin".into(), &"active".into()), "{plugin}");
        assert!(plugin["stages"].as_array().unwrap().contains(&stage.into()), "{plugin}");
    }
}

#[tokio::test]
async fn the_configuration_in_force_and_a_page_are_shown() {
    let engine = Engine::start().await;
    let config = format!("[[pool]]\nname = \"llama\"\nendpoints = [\"{}\"]\n", engine.url());
    let router = Router::with(config).start().await;
    let shown = router.admin_json("/config").await;
    assert_eq!(shown["pool"][0]["name"], "llama", "{shown}");
    let page = router.admin("/").await.expect(200).await;
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
}
