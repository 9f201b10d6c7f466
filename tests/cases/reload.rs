//! The configuration changes while requests run.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sluicegate_tests::{Engine, Reply, Router, SimEngine, wait};

const CLIENTS: usize = 16;

fn pool(name: &str, rest: &str, engines: &[String]) -> String {
    let urls: Vec<String> = engines.iter().map(|url| format!("\"{url}\"")).collect();
    format!("[[pool]]\nname = \"{name}\"\n{rest}\nendpoints = [{}]\n", urls.join(", "))
}

#[tokio::test]
async fn a_changed_file_is_applied_without_a_restart() {
    let (old, new) = (Engine::start().await, Engine::start().await);
    let router = Router::with(pool("p", "", &[old.url()])).start().await;
    assert_eq!(router.chat("hello").send().await.expect(200).await.endpoint(), old.id());
    router.write_config(&pool("p", "aliases = { other = \"tiny\" }", &[new.url()]));
    router.config_applied(1).await;
    let answer = router.chat("hello").with("model", "other").send().await.expect(200).await;
    assert_eq!(answer.endpoint(), new.id());
    let endpoints = router.admin_json("/endpoints").await;
    assert_eq!(endpoints["endpoints"].as_array().unwrap().len(), 1, "{endpoints}");
    assert!(router.admin_json("/config").await["pool"][0]["aliases"]["other"] == "tiny");
    // What lay behind the old pool's name is gone with a pool that goes.
    router.write_config(&pool("q", "", &[old.url()]));
    router.config_applied(2).await;
    wait::until("the new pool knows its models", async || router.admin("/readyz").await.status() == 200)
        .await;
    assert_eq!(router.chat("hello").send().await.expect(200).await.endpoint(), old.id());
    assert_eq!(router.metric("sluicegate_config_reloads_total", &[("outcome", "applied")]).await, 2.0);
}

#[tokio::test]
async fn a_file_that_is_wrong_changes_nothing_and_says_why() {
    let (engine, other) = (Engine::start().await, Engine::start().await);
    let good = pool("p", "", &[engine.url()]);
    let router = Router::with(good.clone()).start().await;
    // The first half would be fine.
    router.write_config(&format!("{}[[pool]]\nname = \"r\"\nendpoint = []\n", pool("p", "", &[other.url()])));
    let why = router.config_refused().await;
    assert!(why.contains("sluicegate.toml:") && why.contains("did you mean `endpoints`?"), "{why}");
    assert_eq!(router.metric("sluicegate_config_in_force", &[]).await, 0.0);
    assert_eq!(router.chat("hello").send().await.expect(200).await.endpoint(), engine.id());
    let answer = router.admin_post("/config/reload").await;
    assert_eq!(answer.status(), 409);

    router.write_config(&format!("state_dir = \"elsewhere\"\n{good}"));
    wait::until("what needs another process is refused", async || {
        router.config_refused().await.starts_with("state_dir: ")
    })
    .await;
    router.write_config(&good);
    wait::until("the file is in force again", async || {
        router.metric("sluicegate_config_in_force", &[]).await == 1.0
    })
    .await;
    router.admin_post("/config/reload").await.expect(200).await;
}

#[tokio::test]
async fn a_configuration_that_a_plugin_refuses_is_refused_whole() {
    let (engine, other) = (Engine::start().await, Engine::start().await);
    let plugin = |config: &str| format!("[[plugin]]\nname = \"prefix-affinity\"\nconfig = {config}\n");
    let router = Router::with(format!("{}{}", plugin("{ near_ms = 20 }"), pool("p", "", &[engine.url()])))
        .start()
        .await;
    let generation = router.admin_json("/plugins").await["generation"].clone();
    router.write_config(&format!("{}{}", plugin("{ near_ms = \"x\" }"), pool("p", "", &[other.url()])));
    let why = router.config_refused().await;
    assert!(why.contains("prefix-affinity"), "{why}");
    assert_eq!(router.chat("hello").send().await.expect(200).await.endpoint(), engine.id());
    assert_eq!(router.admin_json("/plugins").await["generation"], generation);

    router.write_config(&format!("{}{}", plugin("{ near_ms = 30 }"), pool("p", "", &[other.url()])));
    router.config_applied(1).await;
    assert_eq!(router.chat("hello").send().await.expect(200).await.endpoint(), other.id());
    assert_ne!(router.admin_json("/plugins").await["generation"], generation);
}

#[tokio::test]
async fn what_runs_and_what_was_learned_stays() {
    let engine = Engine::start().await;
    let router = Router::with(pool("p", "", &[engine.url()])).start().await;
    let first = router.chat(&"a long prompt ".repeat(40)).streamed().send().await.expect(200).await;
    first.events().await;
    let live = engine.next_live();
    let ask = tokio::spawn(router.chat("hello").streamed().send());
    engine.received_at_least(2).await;
    live.event("one").await;
    let mut answer = ask.await.unwrap();
    let blocks = router.metric("sluicegate_prefix_index_blocks", &[]).await;
    assert!(blocks > 0.0);

    let (url, id) = (engine.url(), engine.id());
    router.write_config(&format!(
        "[[pool]]\nname = \"p\"\nretry_percent = 30\nqueue = {{ max_requests = 5 }}\n\
         endpoints = [{{ url = \"{url}\", weight = 2.0, labels = {{ zone = \"a\" }} }}]\n"
    ));
    router.config_applied(1).await;
    let endpoint = router.endpoint(&id).await;
    assert_eq!((&endpoint["load"]["requests"], &endpoint["weight"]), (&1.into(), &2.0.into()), "{endpoint}");
    assert_eq!(router.metric("sluicegate_prefix_index_blocks", &[]).await, blocks);
    assert!(!endpoint["latency"]["ttft_ms"].is_null(), "{endpoint}");

    // Its pool goes, and what runs there ends as it began.
    let other = Engine::start().await;
    router.write_config(&pool("q", "", &[other.url()]));
    router.config_applied(2).await;
    live.event("two").await;
    drop(live);
    assert_eq!(answer.event().await.unwrap(), "one");
    assert_eq!(answer.event().await.unwrap(), "two");
    assert_eq!(answer.event().await, None);
}

#[tokio::test]
async fn who_waits_is_served_by_what_comes() {
    let router = Router::with("[[pool]]\nname = \"p\"\nmodels = [\"tiny\"]\n").unready().start().await;
    let waiting = tokio::spawn(router.chat("hello").send());
    wait::until("the request waits", async || router.metric("sluicegate_queue_requests", &[]).await == 1.0)
        .await;
    let engine = Engine::start().await;
    router.write_config(&pool("p", "models = [\"tiny\"]", &[engine.url()]));
    assert_eq!(waiting.await.unwrap().expect(200).await.endpoint(), engine.id());
}

#[tokio::test]
async fn mounted_configuration_and_signals_are_noticed() {
    let (one, two) = (Engine::start().await, Engine::start().await);
    let mount = tempfile::tempdir().unwrap();
    let version = |name: &str, engine: &Engine| {
        let folder = mount.path().join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("c.toml"), pool("p", "", &[engine.url()])).unwrap();
    };
    version("..v1", &one);
    symlink("..v1", mount.path().join("..data")).unwrap();
    symlink("..data/c.toml", mount.path().join("c.toml")).unwrap();
    let file = mount.path().join("c.toml");
    let router = Router::to_urls(&[]).flag("--config").flag(file.to_str().unwrap()).start().await;
    version("..v2", &two);
    symlink("..v2", mount.path().join("..tmp")).unwrap();
    fs::rename(mount.path().join("..tmp"), mount.path().join("..data")).unwrap();
    router.config_applied(1).await;
    assert_eq!(router.chat("hello").send().await.expect(200).await.endpoint(), two.id());
    router.signal("HUP");
    wait::until("it is read again", async || {
        router.admin_json("/config").await["reload"]["outcome"] == "unchanged"
    })
    .await;
}

async fn client(router: Arc<Router>, number: usize, stop: Arc<AtomicBool>) -> usize {
    let mut asked = 0;
    while !stop.load(Ordering::Relaxed) {
        let answer = router.chat(&format!("client {number} asks")).streamed().send().await.expect(200).await;
        let events = answer.events().await;
        assert_eq!(events.last().map(String::as_str), Some("[DONE]"), "{events:?}");
        asked += 1;
    }
    asked
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_under_load_fail_nobody() {
    let engines = [Engine::start().await, Engine::start().await, Engine::start().await];
    for engine in &engines {
        engine.always(Reply::says("one two three four").every(Duration::from_millis(10)));
    }
    let urls: Vec<String> = engines.iter().map(Engine::url).collect();
    // Endpoints come and go, the plugin's settings, its place, the queue and the chain change.
    let configs: Vec<String> = (0..6)
        .map(|n| {
            let kept: Vec<String> = urls
                .iter()
                .enumerate()
                .filter(|(at, _)| at % 3 != n % 3)
                .map(|(_, url)| url.clone())
                .collect();
            format!(
                "[[plugin]]\nname = \"prefix-affinity\"\nweight = {}.0\nconfig = {{ near_ms = {} }}\n\
                 [[chain]]\nname = \"c{}\"\nplugins = [\"fairness\", \"prefix-affinity\"]\n{}",
                n + 1,
                20 + n,
                n % 2,
                pool(
                    "p",
                    &format!("chain = \"c{}\"\nqueue = {{ max_requests = {} }}", n % 2, 500 + n),
                    &kept
                )
            )
        })
        .collect();
    let router = Arc::new(Router::with(configs[0].clone()).start().await);
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(client(Arc::clone(&router), number, Arc::clone(&stop))))
        .collect();
    for round in 1..=12 {
        router.write_config(&configs[round % configs.len()]);
        router.config_applied(round as u64).await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut asked = 0;
    for client in clients {
        asked += client.await.unwrap();
    }
    assert!(asked >= CLIENTS, "{asked}");
    wait::until("nothing runs any more", async || {
        router.metric("sluicegate_endpoint_requests", &[]).await == 0.0
            && router.metric("sluicegate_running_requests", &[]).await == 0.0
    })
    .await;
    assert_eq!(router.metric("sluicegate_requests_total", &[("code", "200")]).await as usize, asked);
}

#[tokio::test]
async fn a_drained_endpoint_stays_drained() {
    let (one, two) = (SimEngine::start().await, SimEngine::start().await);
    let router = Router::with(pool("p", "", &[one.url(), two.url()])).start().await;
    router.admin_post(&format!("/endpoints/{}/drain", one.id())).await.expect(200).await;
    router.write_config(&pool("p", "retry_percent = 7", &[one.url(), two.url()]));
    router.config_applied(1).await;
    assert_eq!(router.endpoint(&one.id()).await["draining"], true);
    assert_eq!(router.chat("hello").send().await.expect(200).await.endpoint(), two.id());
}
