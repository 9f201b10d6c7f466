//! A candidate that is asked about live traffic and not heard.

use sluicegate_tests::{Engine, PluginDir, Router, Value, digest, guest, wait};

const NAME: &str = "prefix-affinity";

/// Two engines, labelled `arm = "a"` and `arm = "b"`, and a version in force that wants the first.
async fn in_force() -> ([Engine; 2], PluginDir, Router) {
    let engines = [Engine::start().await, Engine::start().await];
    let config = format!(
        "[[pool]]\nname = \"p\"\nendpoints = [{{ url = \"{}\", labels = {{ arm = \"a\" }} }}, \
         {{ url = \"{}\", labels = {{ arm = \"b\" }} }}]\n",
        engines[0].url(),
        engines[1].url()
    );
    let plugins = PluginDir::new();
    plugins.put(NAME, &guest("prefers-a"));
    let router = Router::with(config).plugins(&plugins).start().await;
    router.plugin_runs(NAME, &digest(&guest("prefers-a"))).await;
    (engines, plugins, router)
}

/// Puts a candidate there and waits until it is in shadow.
async fn tries(plugins: &PluginDir, router: &Router, bytes: &[u8]) {
    plugins.put(&format!("{NAME}.next"), bytes);
    let digest = digest(bytes);
    wait::until("the candidate is in shadow", async || {
        let candidate = candidate(router).await;
        candidate["digest"] == digest && candidate["mode"] == "shadow"
    })
    .await;
}

async fn candidate(router: &Router) -> Value {
    router.plugin(NAME).await.map(|plugin| plugin["candidate"].clone()).unwrap_or_default()
}

/// Asks `count` times; every request goes where the version in force wants it.
async fn ask(router: &Router, engines: &[Engine; 2], count: usize) {
    for turn in 0..count {
        let answer = router.chat(&format!("turn {turn}")).send().await.expect(200).await;
        assert_eq!(answer.endpoint(), engines[0].id());
        answer.bytes().await;
    }
}

/// Waits until the shadow was asked about so many requests, and says what came of it.
async fn judged(router: &Router, count: u64) -> Value {
    wait::until_some("the shadow was asked", async || {
        let shadow = candidate(router).await["shadow"].clone();
        (shadow["requests"].as_u64()? >= count).then_some(shadow)
    })
    .await
}

#[tokio::test]
async fn a_second_policy_reports_agreement_and_cost_and_moves_no_request() {
    let (engines, plugins, router) = in_force().await;
    tries(&plugins, &router, &guest("prefers-b")).await;
    ask(&router, &engines, 20).await;
    let shadow = judged(&router, 20).await;
    eprintln!("{shadow}");
    assert_eq!(shadow["requests"], 20);
    assert_eq!(shadow["dropped"], 0);
    assert_eq!(shadow["agreement"]["scorer"]["agree"], 0);
    assert_eq!(shadow["agreement"]["scorer"]["differ"], 20);
    assert_eq!(shadow["score_correlation"], -1.0);
    assert!(shadow["cpu_us_mean"].as_f64().unwrap() > 0.0);
    assert!(shadow["active_cpu_us_mean"].as_f64().unwrap() > 0.0);

    let plugin = ("plugin", NAME);
    assert_eq!(router.metric("sluicegate_shadow_requests_total", &[plugin]).await, 20.0);
    assert_eq!(router.metric("sluicegate_shadow_dropped_total", &[plugin]).await, 0.0);
    let differ = [plugin, ("stage", "scorer"), ("result", "differ")];
    assert_eq!(router.metric("sluicegate_shadow_agreement_total", &differ).await, 20.0);
    assert_eq!(router.metric("sluicegate_shadow_score_correlation", &[plugin]).await, -1.0);
    for which in ["shadow", "active"] {
        let cpu = router.metric("sluicegate_shadow_cpu_seconds_total", &[plugin, ("which", which)]).await;
        assert!(cpu > 0.0, "{which}");
    }
}

#[tokio::test]
async fn the_same_policy_under_other_bytes_agrees_throughout() {
    let (engines, plugins, router) = in_force().await;
    let mut bytes = guest("prefers-a");
    // A custom section changes the digest and nothing else: id 0, its length, a name of one letter.
    bytes.extend([0, 2, 1, b'x']);
    tries(&plugins, &router, &bytes).await;
    ask(&router, &engines, 20).await;
    let shadow = judged(&router, 20).await;
    assert_eq!(shadow["agreement"]["scorer"]["agree"], 20, "{shadow}");
    assert_eq!(shadow["score_correlation"], 1.0, "{shadow}");
}

#[tokio::test]
async fn a_shadow_that_fails_fails_no_request() {
    for name in ["traps", "loops", "nan"] {
        let (engines, plugins, router) = in_force().await;
        tries(&plugins, &router, &guest(name)).await;
        ask(&router, &engines, 10).await;
        wait::until(&format!("{name} is taken out"), async || {
            router.plugin(NAME).await.unwrap()["rolled_back"]["digest"] == digest(&guest(name))
        })
        .await;
        let failed = router.metric("sluicegate_requests_total", &[]).await
            - router.metric("sluicegate_requests_total", &[("code", "200")]).await;
        assert_eq!(failed, 0.0, "{name}");
        assert_eq!(router.plugin(NAME).await.unwrap()["digest"], digest(&guest("prefers-a")), "{name}");
    }
}

#[tokio::test]
async fn a_burst_waits_for_no_shadow() {
    let (engines, plugins, router) = in_force().await;
    // Each call uses up its whole deadline until it is set aside; what comes meanwhile waits, or is dropped.
    tries(&plugins, &router, &guest("loops")).await;
    let asks = (0..400).map(|turn| tokio::spawn(router.chat(&format!("turn {turn}")).send()));
    for ask in asks.collect::<Vec<_>>() {
        let answer = ask.await.unwrap().expect(200).await;
        assert_eq!(answer.endpoint(), engines[0].id());
        answer.bytes().await;
    }
}
