//! Which endpoints prefill for which: versions, places, endpoints that do both.

use sluicegate_tests::{Engine, Reply, Router, Value};

const HANDED_OVER: &str = r#"{"kv_transfer_params":{"do_remote_prefill":true}}"#;

/// A router in front of these endpoints, and the engines, which all prefill as asked.
async fn routed(plugin: &str, pool: &str, endpoints: &[&str]) -> (Vec<Engine>, Router) {
    let mut engines = Vec::new();
    let mut list = Vec::new();
    for rest in endpoints {
        let engine = Engine::start().await;
        engine.always(Reply::plain(200, HANDED_OVER));
        list.push(format!("{{ url = \"{}\", {rest} }}", engine.url()));
        engines.push(engine);
    }
    let config = format!(
        "[[plugin]]\nname = \"pd-split\"\nconfig = {plugin}\n[[pool]]\nname = \"p\"\nmodels = [\"tiny\"]\nengine = \"vllm\"\n\
         {pool}\nendpoints = [{}]\n",
        list.join(", ")
    );
    let router = Router::with(config).start().await;
    (engines, router)
}

async fn split(router: &Router) -> Value {
    router.chat("hello").header("x-request-id", "r").send().await.expect(200).await.bytes().await;
    router.decision("r").await["split"].clone()
}

#[tokio::test]
async fn a_rolling_upgrade_never_mixes_versions() {
    let endpoints = [
        "role = \"decode\", labels = { version = \"2\" }",
        "role = \"prefill\", labels = { version = \"1\" }",
        "role = \"prefill\", labels = { version = \"2\" }",
    ];
    let (engines, router) = routed("{ mode = \"always\" }", "", &endpoints).await;
    for _ in 0..4 {
        assert_eq!(split(&router).await["prefill"], engines[2].id());
    }
    let (engines, router) = routed("{ mode = \"always\" }", "", &endpoints[..2]).await;
    assert_eq!(split(&router).await["outcome"], "stayed");
    assert!(engines[1].received().is_empty());
}

#[tokio::test]
async fn the_nearer_endpoint_prefills() {
    let endpoints = [
        "role = \"decode\", labels = { zone = \"a\" }",
        "role = \"prefill\", labels = { zone = \"b\" }",
        "role = \"prefill\", labels = { zone = \"a\" }",
    ];
    let plugin = "{ mode = \"always\", near_labels = [\"zone\"] }";
    let (engines, router) = routed(plugin, "", &endpoints).await;
    for _ in 0..4 {
        assert_eq!(split(&router).await["prefill"], engines[2].id());
    }
}

#[tokio::test]
async fn endpoints_that_do_both_hand_over_where_the_pool_names_a_dialect() {
    let both = ["role = \"both\"", "role = \"both\""];
    let (_engines, router) = routed("{ mode = \"always\" }", "dialect = \"nixl\"", &both).await;
    let decision = split(&router).await;
    assert_eq!(decision["outcome"], "split");
    let (_engines, router) = routed("{ mode = \"always\" }", "", &both).await;
    assert_eq!(split(&router).await, Value::Null);
}

#[tokio::test]
async fn modes_never_and_threshold_do_as_they_say() {
    let roles = ["role = \"decode\"", "role = \"prefill\""];
    let (_engines, router) = routed("{ mode = \"never\" }", "", &roles).await;
    assert_eq!(split(&router).await["outcome"], "stayed");
    let (_engines, router) = routed("{ mode = \"threshold\", threshold_tokens = 2 }", "", &roles).await;
    assert_eq!(split(&router).await["outcome"], "split");
    let (_engines, router) = routed("{ mode = \"threshold\", threshold_tokens = 1000 }", "", &roles).await;
    assert_eq!(split(&router).await["outcome"], "stayed");
    let reasons = router.metric("sluicegate_plugin_pd_split_decisions_total", &[("reason", "short")]).await;
    // Calls on trial are counted too.
    assert!(reasons >= 1.0, "{reasons}");
}

#[tokio::test]
async fn an_engine_that_hands_nothing_over_is_not_split() {
    let roles = ["role = \"decode\"", "role = \"prefill\""];
    let (engines, router) = routed("{ mode = \"always\" }", "", &roles).await;
    drop(router);
    let config = format!(
        "[[plugin]]\nname = \"pd-split\"\nconfig = {{ mode = \"always\" }}\n[[pool]]\nname = \"p\"\nmodels = [\"tiny\"]\n\
         engine = \"llamacpp\"\nendpoints = [{{ url = \"{}\", role = \"decode\" }}, {{ url = \"{}\", role = \"prefill\" }}]\n",
        engines[0].url(),
        engines[1].url()
    );
    let router = Router::with(config).start().await;
    router.chat("hello").send().await.expect(200).await.bytes().await;
    assert!((router.metric("sluicegate_splits_total", &[("outcome", "no_dialect")]).await - 1.0).abs() < 0.1);
    assert!(engines[1].received().iter().all(|request| !request.path.contains("chat")));
}
