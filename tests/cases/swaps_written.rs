//! Policies are replaced in every way in which people write files while requests stream, and nobody notices.

use std::fs::{self, File};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sluicegate_tests::{Engine, PluginDir, Reply, Router, digest, guest, wait};

const CLIENTS: usize = 32;
/// One takes the place of a default plugin, one joins it.
const NAMES: [&str; 2] = ["prefix-affinity", "mine"];

/// Writes a file that is there already, in one of the ways.
fn write(plugins: &PluginDir, name: &str, bytes: &[u8], way: usize) {
    match way % 3 {
        0 => plugins.put(name, bytes),
        1 => fs::write(plugins.path().join(format!("{name}.wasm")), bytes).unwrap(),
        _ => {
            let mut file = File::create(plugins.path().join(format!("{name}.wasm"))).unwrap();
            for piece in bytes.chunks(4 << 10) {
                file.write_all(piece).unwrap();
                std::thread::yield_now();
            }
        }
    }
}

/// Asks again and again until told to stop; says how often it was answered.
async fn client(router: Arc<Router>, number: usize, stop: Arc<AtomicBool>) -> usize {
    let mut asked = 0;
    while !stop.load(Ordering::Relaxed) {
        let request = router.chat(&format!("client {number} asks for the {asked}th time")).streamed();
        let events = request.send().await.expect(200).await.events().await;
        assert_eq!(events.last().map(String::as_str), Some("[DONE]"), "{events:?}");
        asked += 1;
    }
    asked
}

/// How many versions of a plugin have instances, if the router says so.
async fn generations(router: &Router, name: &str) -> Option<f64> {
    const METRIC: &str = "sluicegate_plugin_generations";
    let page = router.admin("/metrics").await.expect(200).await.text().await;
    if !page.contains(&format!("{METRIC}{{")) {
        return None;
    }
    Some(router.metric(METRIC, &[("plugin", name)]).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_files_written_in_every_way_fail_nobody_and_leak_nothing() {
    replace(100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes half an hour: cargo test -p sluicegate-tests --test cases -- --ignored ten_thousand"]
async fn ten_thousand_files_written_in_every_way_fail_nobody_and_leak_nothing() {
    replace(5_000).await;
}

/// Replaces both files `rounds` times under load.
async fn replace(rounds: usize) {
    let engines = [Engine::start().await, Engine::start().await];
    for engine in &engines {
        engine.always(Reply::says("one two three four five six").every(Duration::from_millis(20)));
    }
    let versions = [guest("prefers-a"), guest("prefers-b")];
    let digests = [digest(&versions[0]), digest(&versions[1])];
    let plugins = PluginDir::new();
    for name in NAMES {
        plugins.put(name, &versions[0]);
    }
    let router = Arc::new(Router::to(&engines.each_ref()).plugins(&plugins).start().await);
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(client(Arc::clone(&router), number, Arc::clone(&stop))))
        .collect();

    let mut resident = Vec::new();
    for round in 1..=rounds {
        for (place, name) in NAMES.into_iter().enumerate() {
            write(&plugins, name, &versions[round % 2], round + place);
        }
        for name in NAMES {
            router.plugin_runs(name, &digests[round % 2]).await;
        }
        if round % (rounds / 10) == 0 {
            resident.push(router.resident());
        }
    }
    stop.store(true, Ordering::Relaxed);
    let mut answered = 0;
    for client in clients {
        answered += client.await.unwrap();
    }

    eprintln!("{answered} answers; resident bytes at each tenth of the swaps: {resident:?}");
    assert!(answered > 10 * CLIENTS, "{answered}");
    let failed = router.metric("sluicegate_requests_total", &[]).await
        - router.metric("sluicegate_requests_total", &[("code", "200")]).await;
    assert_eq!(failed, 0.0);
    for name in NAMES {
        assert_eq!(router.metric("sluicegate_plugin_failures_total", &[("plugin", name)]).await, 0.0);
        wait::until("only the version in force is left", async || {
            generations(&router, name).await.is_none_or(|live| live == 1.0)
        })
        .await;
        assert!(router.plugin(name).await.unwrap()["refused"].is_null());
    }
    // The first versions warm every cache; after that a version that goes must leave nothing behind.
    let (early, late) = (resident[1], resident[9]);
    assert!(
        late < early + early / 4 + (16 << 20),
        "resident bytes grew from {early} to {late}: {resident:?}"
    );
}
