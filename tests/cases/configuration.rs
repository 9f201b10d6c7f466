//! The configuration file.

use sluicegate_tests::{Engine, PluginDir, Reply, Router, Value, digest, guest, wait};

fn pool(engines: &[&Engine]) -> String {
    let urls: Vec<String> = engines.iter().map(|engine| format!("\"{}\"", engine.url())).collect();
    format!("[[pool]]\nname = \"p\"\nendpoints = [{}]\n", urls.join(", "))
}

#[tokio::test]
async fn a_plugin_that_must_not_be_skipped_refuses_when_it_fails() {
    let engine = Engine::start().await;
    let plugins = PluginDir::new();
    let config = format!(
        "[[plugin]]\nname = \"strict\"\nrequired = true\non_error = \"reject\"\n{}",
        pool(&[&engine])
    );
    let router = Router::with(config).plugins(&plugins).unready().start().await;
    router.admin("/readyz").await.expect(503).await;
    let good = guest("prefers-a");
    plugins.put("strict", &good);
    router.plugin_runs("strict", &digest(&good)).await;
    wait::until("it is ready", async || router.admin("/readyz").await.status() == 200).await;
    router.chat("hello").send().await.expect(200).await;
}

#[tokio::test]
async fn a_plugin_that_is_off_is_not_asked() {
    let engine = Engine::start().await;
    let router =
        Router::with(format!("[[plugin]]\nname = \"prefix-affinity\"\nmode = \"off\"\n{}", pool(&[&engine])));
    let router = router.start().await;
    engine.always(Reply::says("fine"));
    let answer = router.chat("hello").header("x-request-id", "off").send().await.expect(200).await;
    answer.bytes().await;
    assert_eq!(router.plugin("prefix-affinity").await.unwrap()["state"], "off");
    let decision = router.decision("off").await;
    let answers = decision["answers"].as_array().unwrap();
    assert!(answers.iter().all(|answer: &Value| answer["plugin"] != "prefix-affinity"), "{decision}");
}
