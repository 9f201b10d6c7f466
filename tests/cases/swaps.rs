//! A policy is replaced while requests run, and nobody notices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use sluicegate_tests::{Engine, PluginDir, Reply, Router, Value, digest, guest, wait};

const CLIENTS: usize = 32;
const SWAPS: usize = 100;
const NAME: &str = "prefix-affinity";

/// The two versions of the policy, and the endpoint that each of them chooses.
struct Arms {
    choices: [(String, String); 2],
}

impl Arms {
    /// Holds that a decision was made by one version alone, and that the endpoint which answered is its choice.
    fn hold(&self, decision: &Value, endpoint: &str) {
        let by: Vec<&Value> = decision["answers"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|answer| answer["plugin"] == NAME)
            .collect();
        assert_eq!(by.len(), 1, "{decision}");
        assert_eq!(by[0]["error"], Value::Null, "{decision}");
        let version = by[0]["digest"].as_str().unwrap();
        let (_, choice) =
            self.choices.iter().find(|(digest, _)| digest == version).expect("an unknown version");
        assert_eq!((choice.as_str(), &decision["picked"]), (endpoint, &endpoint.into()), "{decision}");
    }
}

/// Asks again and again until told to stop; says how often it was answered.
async fn client(router: Arc<Router>, arms: Arc<Arms>, number: usize, stop: Arc<AtomicBool>) -> usize {
    let mut asked = 0;
    while !stop.load(Ordering::Relaxed) {
        let request = router.chat(&format!("client {number} asks for the {asked}th time")).streamed();
        let answer = request.header("x-sluicegate-explain", "1").send().await.expect(200).await;
        arms.hold(&answer.decision(), answer.endpoint());
        let events = answer.events().await;
        assert_eq!(events.last().map(String::as_str), Some("[DONE]"), "{events:?}");
        asked += 1;
    }
    asked
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_swaps_under_load_fail_nobody_and_leak_nothing() {
    let engines = [Engine::start().await, Engine::start().await];
    for engine in &engines {
        engine.always(Reply::says("one two three four five six").every(Duration::from_millis(20)));
    }
    let config = format!(
        "[[pool]]\nname = \"p\"\nendpoints = [{{ url = \"{}\", labels = {{ arm = \"a\" }} }}, \
         {{ url = \"{}\", labels = {{ arm = \"b\" }} }}]\n",
        engines[0].url(),
        engines[1].url()
    );
    let versions = [guest("prefers-a"), guest("prefers-b")];
    let digests = [digest(&versions[0]), digest(&versions[1])];
    let plugins = PluginDir::new();
    plugins.put(NAME, &versions[0]);
    let router = Arc::new(Router::with(config).plugins(&plugins).start().await);
    router.plugin_runs(NAME, &digests[0]).await;

    let [a, b] = [0, 1].map(|arm| (digests[arm].clone(), engines[arm].id()));
    let arms = Arc::new(Arms { choices: [a, b] });
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(client(Arc::clone(&router), Arc::clone(&arms), number, Arc::clone(&stop))))
        .collect();

    let mut resident = Vec::new();
    for swap in 1..=SWAPS {
        let next = &versions[swap % 2];
        if swap % 10 == 0 {
            plugins.write_slowly(NAME, next, 5, Duration::from_millis(20)).await;
        } else {
            plugins.put(NAME, next);
        }
        router.plugin_runs(NAME, &digests[swap % 2]).await;
        if swap % 20 == 0 {
            resident.push(router.resident());
        }
    }
    stop.store(true, Ordering::Relaxed);
    let answered = AtomicUsize::new(0);
    for client in clients {
        answered.fetch_add(client.await.unwrap(), Ordering::Relaxed);
    }

    let answered = answered.into_inner();
    eprintln!("{answered} answers during {SWAPS} swaps; resident bytes every 20 swaps: {resident:?}");
    assert!(answered > 10 * CLIENTS, "{answered}");
    let failed = router.metric("sluicegate_requests_total", &[]).await
        - router.metric("sluicegate_requests_total", &[("code", "200")]).await;
    assert_eq!(failed, 0.0);
    assert_eq!(router.metric("sluicegate_plugin_failures_total", &[("plugin", NAME)]).await, 0.0);
    wait::until("nothing but the version in force is alive", async || {
        router.metric("sluicegate_plugin_generations", &[("plugin", NAME)]).await == 1.0
    })
    .await;
    let instances = router.metric("sluicegate_plugin_instances", &[("plugin", NAME)]).await;
    let at_once = std::thread::available_parallelism().unwrap().get() as f64;
    assert!((1.0..=2.0 * at_once + 2.0).contains(&instances), "{instances} instances");
    for engine in &engines {
        assert!(!engine.received().is_empty());
        assert!(engine.received().iter().all(|received| !received.gone()));
    }
    // The first versions warm every cache; after that a version that goes must leave nothing behind.
    let (early, late) = (resident[0], resident[SWAPS / 20 - 1]);
    assert!(
        late < early + early / 4 + (16 << 20),
        "resident bytes grew from {early} to {late}: {resident:?}"
    );
}
