//! The configuration file, and its change while the router runs.

use sluicegate_tests::{Engine, PluginDir, Reply, Router, Value, digest, guest, wait};

fn pool(engines: &[&Engine]) -> String {
    let urls: Vec<String> = engines.iter().map(|engine| format!("\"{}\"", engine.url())).collect();
    format!("[[pool]]\nname = \"p\"\nendpoints = [{}]\n", urls.join(", "))
}

#[tokio::test]
#[ignore = "the configuration file is read once, at the start; this is what a change of it has to do"]
async fn a_changed_file_is_applied_without_a_restart_and_without_a_failed_request() {
    let [one, two] = [Engine::start().await, Engine::start().await];
    let router = Router::with(pool(&[&one])).start().await;
    let live = one.next_live();
    let running = tokio::spawn(router.chat("hello").streamed().send());
    one.received_at_least(1).await;
    live.event("{}").await;
    let mut running = running.await.unwrap();

    router.reconfigure(&pool(&[&two]));
    wait::until("the new endpoint is used", async || {
        let answer = router.chat("hello").send().await.expect(200).await;
        answer.endpoint() == two.id()
    })
    .await;
    live.event("[DONE]").await;
    drop(live);
    assert_eq!(running.event().await.unwrap(), "{}");
    assert_eq!(running.event().await.unwrap(), "[DONE]");
    assert_eq!(running.event().await, None);
}

#[tokio::test]
#[ignore = "the configuration file is read once, at the start; this is what a change of it has to do"]
async fn a_bad_change_is_refused_whole_with_the_reason() {
    let [one, two] = [Engine::start().await, Engine::start().await];
    let router = Router::with(pool(&[&one])).start().await;
    router.reconfigure(&format!("{}frobnicate = 1\n", pool(&[&two])));
    wait::until("the log tells why", async || router.log().contains("frobnicate")).await;
    for _ in 0..5 {
        assert_eq!(router.chat("hello").send().await.expect(200).await.endpoint(), one.id());
    }
    router.reconfigure(&pool(&[&two]));
    wait::until("a good change is taken again", async || {
        router.chat("hello").send().await.expect(200).await.endpoint() == two.id()
    })
    .await;
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
