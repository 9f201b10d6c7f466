//! A policy can never take the router down, nor fail a request.

use sluicegate_tests::{Engine, PluginDir, Router, digest, guest, wait};

/// Traffic while a guest is dropped in: every request is answered, and the guest's failures are counted.
async fn survives(name: &str, reasons: &[&str]) {
    let engines = [Engine::start().await, Engine::start().await, Engine::start().await];
    let plugins = PluginDir::new();
    let mut router = Router::to(&[&engines[0], &engines[1], &engines[2]]).plugins(&plugins).start().await;
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
            counted += router
                .metric("sluicegate_plugin_failures_total", &[("plugin", name), ("reason", reason)])
                .await;
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
async fn a_guest_that_eats_memory() {
    survives("eats", &["memory", "trap"]).await;
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
