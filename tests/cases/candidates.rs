//! A new version is tried before it counts: in shadow, for some sessions, on some endpoints; promoted, rolled back, and
//! remembered over a restart.

use std::collections::{BTreeMap, BTreeSet};

use sluicegate_tests::{Engine, PluginDir, Router, Value, builtin, digest, guest, wait};
use tempfile::TempDir;

const NAME: &str = "prefix-affinity";

/// A router's surroundings, which outlive it.
struct Place {
    engines: Vec<Engine>,
    plugins: PluginDir,
    state: TempDir,
    settings: String,
}

impl Place {
    /// Engines with the labels `arm = "a"` and `arm = "b"` in turn.
    async fn of(engines: usize) -> Self {
        let mut started = Vec::new();
        for _ in 0..engines {
            started.push(Engine::start().await);
        }
        let (plugins, state) = (PluginDir::new(), TempDir::new().unwrap());
        Self { engines: started, plugins, state, settings: String::new() }
    }

    async fn router(&self) -> Router {
        let arm = |n: usize| if n.is_multiple_of(2) { "a" } else { "b" };
        let endpoints: Vec<_> = self
            .engines
            .iter()
            .enumerate()
            .map(|(n, engine)| {
                format!("{{ url = \"{}\", labels = {{ arm = \"{}\" }} }}", engine.url(), arm(n))
            })
            .collect();
        let config = format!(
            "state_dir = \"{}\"\n{}\n[[pool]]\nname = \"p\"\nendpoints = [{}]\n",
            self.state.path().display(),
            self.settings,
            endpoints.join(", ")
        );
        Router::with(config).plugins(&self.plugins).start().await
    }

    fn endpoint(&self, n: usize) -> String {
        self.engines[n].id()
    }
}

async fn all_go_to(router: &Router, endpoint: &str) {
    for turn in 0..8 {
        let answer = router.chat(&format!("turn {turn}")).send().await.expect(200).await;
        assert_eq!(answer.endpoint(), endpoint);
        answer.bytes().await;
    }
}

/// Waits until the plugin's candidate is this file.
async fn tried(router: &Router, digest: &str) -> Value {
    wait::until_some("the candidate is there", async || {
        let candidate = router.plugin(NAME).await?["candidate"].clone();
        (candidate["digest"] == digest && candidate["mode"] != Value::Null).then_some(candidate)
    })
    .await
}

async fn post(router: &Router, action: &str) -> Value {
    router.admin_post(&format!("/plugins/{NAME}/{action}")).await.expect(200).await.json().await
}

#[tokio::test]
async fn a_candidate_counts_only_when_it_is_promoted_and_that_outlives_a_restart() {
    let place = Place::of(2).await;
    let [a, b] = [guest("prefers-a"), guest("prefers-b")];
    place.plugins.put(NAME, &a);
    let router = place.router().await;
    router.plugin_runs(NAME, &digest(&a)).await;
    place.plugins.put(&format!("{NAME}.next"), &b);
    let candidate = tried(&router, &digest(&b)).await;
    assert_eq!((&candidate["mode"], &candidate["name"]), (&"shadow".into(), &format!("{NAME}.next").into()));
    all_go_to(&router, &place.endpoint(0)).await;

    let shown = post(&router, "promote").await;
    assert_eq!((&shown["digest"], &shown["candidate"]), (&digest(&b).into(), &Value::Null));
    all_go_to(&router, &place.endpoint(1)).await;
    drop(router);

    let router = place.router().await;
    assert_eq!(router.plugin(NAME).await.unwrap()["digest"], digest(&b));
    all_go_to(&router, &place.endpoint(1)).await;
    let own = builtin(NAME);
    place.plugins.put(NAME, &own);
    let shown = router.plugin_runs(NAME, &digest(&own)).await;
    assert_eq!(shown["source"], "file", "another file ends what was promoted over the one before");
}

#[tokio::test]
async fn an_operator_takes_back_what_was_promoted() {
    let place = Place::of(2).await;
    let b = guest("prefers-b");
    place.plugins.put(&format!("{NAME}.next"), &b);
    let router = place.router().await;
    tried(&router, &digest(&b)).await;
    post(&router, "promote").await;
    all_go_to(&router, &place.endpoint(1)).await;
    let shown = post(&router, "rollback").await;
    assert_eq!((&shown["digest"], &shown["source"]), (&digest(&builtin(NAME)).into(), &"builtin".into()));
    assert_eq!(shown["rolled_back"]["digest"], digest(&b));
    assert!(shown["rolled_back"]["reason"].as_str().unwrap().contains("operator"), "{shown}");
    drop(router);

    let router = place.router().await;
    let shown = router.plugin(NAME).await.unwrap();
    assert_eq!((&shown["source"], &shown["candidate"]["mode"]), (&"builtin".into(), &Value::Null));
    assert_eq!(shown["candidate"]["refused"]["digest"], digest(&b), "it stays out");
    post(&router, "on").await;
    tried(&router, &digest(&b)).await;
}

#[tokio::test]
async fn a_canary_has_its_share_of_the_sessions_and_each_stays_where_it_is() {
    let place = Place::of(2).await;
    place.plugins.put(NAME, &guest("prefers-a"));
    place.plugins.put_file(&format!("{NAME}.next.toml"), b"mode = { canary = 30 }\n");
    let b = guest("prefers-b");
    place.plugins.put(&format!("{NAME}.next"), &b);
    let router = place.router().await;
    assert_eq!(tried(&router, &digest(&b)).await["mode"]["canary"], 30.0);
    let mut sessions: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    for turn in 0..3 {
        for session in 0..60 {
            let chat =
                router.chat(&format!("turn {turn}")).header("x-session-id", &format!("session {session}"));
            let answer = chat.send().await.expect(200).await;
            let (id, endpoint) = (answer.request_id().to_owned(), answer.endpoint().to_owned());
            answer.bytes().await;
            let arm = if endpoint == place.endpoint(0) { "base" } else { "candidate" };
            assert_eq!(router.decision(&id).await["arm"], arm);
            sessions.entry(session).or_default().insert(endpoint);
        }
    }
    assert!(sessions.values().all(|endpoints| endpoints.len() == 1), "{sessions:?}");
    let in_canary = sessions.values().filter(|endpoints| endpoints.contains(&place.endpoint(1))).count();
    assert!((6..32).contains(&in_canary), "{in_canary} of 60");

    place.plugins.put_file(&format!("{NAME}.next.toml"), b"mode = { canary = 100 }\n");
    wait::until("the share has grown", async || {
        router.plugin(NAME).await.unwrap()["candidate"]["mode"]["canary"] == 100.0
    })
    .await;
    all_go_to(&router, &place.endpoint(1)).await;
}

#[tokio::test]
async fn a_candidate_of_some_endpoints_has_those_to_itself() {
    let mut place = Place::of(4).await;
    place.settings = format!("[[plugin]]\nname = \"{NAME}\"\nmode = {{ endpoints = 1 }}\n");
    let next = guest("prefers-b");
    place.plugins.put(&format!("{NAME}.next"), &next);
    let router = place.router().await;
    tried(&router, &digest(&next)).await;
    let (mut base, mut candidate) = (BTreeSet::new(), BTreeSet::new());
    for request in 0..80 {
        let answer = router.chat(&format!("request {request}")).send().await.expect(200).await;
        let (id, endpoint) = (answer.request_id().to_owned(), answer.endpoint().to_owned());
        answer.bytes().await;
        let of = if router.decision(&id).await["arm"] == "base" { &mut base } else { &mut candidate };
        of.insert(endpoint);
    }
    assert_eq!((base.len(), candidate.len()), (3, 1), "{base:?} {candidate:?}");
    assert!(base.is_disjoint(&candidate));
}

#[tokio::test]
async fn a_second_candidate_waits_until_the_first_is_done() {
    let place = Place::of(2).await;
    let b = guest("prefers-b");
    for name in [NAME, "pd-split"] {
        place.plugins.put_file(&format!("{name}.next.toml"), b"mode = { canary = 50 }\n");
        place.plugins.put(&format!("{name}.next"), &b);
    }
    let router = place.router().await;
    let states = async || {
        let mut states = BTreeMap::new();
        for name in [NAME, "pd-split"] {
            let candidate = router.plugin(name).await.unwrap()["candidate"].clone();
            states.insert(candidate["state"].as_str().unwrap_or_default().to_owned(), name);
        }
        states
    };
    wait::until("one is tried and one held", async || {
        let states = states().await;
        states.contains_key("on_trial") && states.contains_key("held")
    })
    .await;
    let states_now = states().await;
    let (tried, held) = (states_now["on_trial"], states_now["held"]);
    router.admin_post(&format!("/plugins/{tried}/rollback")).await.expect(200).await;
    wait::until("the second has its turn", async || {
        router.plugin(held).await.unwrap()["candidate"]["state"] == "on_trial"
    })
    .await;
}

/// Traffic until the candidate is rolled back; every request is answered. Says what `GET /plugins` says then.
async fn rolled_back(router: &Router, digest: &str, sessions: usize) -> Value {
    let asked = std::cell::Cell::new(0);
    wait::until_some("the candidate is rolled back", async || {
        let ask = async |n: usize| {
            let chat = router.chat(&format!("request {n}"));
            let chat = chat.header("x-session-id", &format!("session {}", n % sessions));
            chat.send().await.expect(200).await.bytes().await;
        };
        let n = asked.replace(asked.get() + 8);
        tokio::join!(
            ask(n),
            ask(n + 1),
            ask(n + 2),
            ask(n + 3),
            ask(n + 4),
            ask(n + 5),
            ask(n + 6),
            ask(n + 7)
        );
        router.plugin(NAME).await.filter(|plugin| plugin["rolled_back"]["digest"] == digest)
    })
    .await
}

#[tokio::test]
async fn a_canary_that_traps_half_of_the_time_is_rolled_back_and_does_not_return() {
    let place = Place::of(2).await;
    place.plugins.put_file(&format!("{NAME}.next.toml"), b"mode = { canary = 10 }\n");
    let bytes = guest("traps-half");
    place.plugins.put(&format!("{NAME}.next"), &bytes);
    let router = place.router().await;
    tried(&router, &digest(&bytes)).await;
    let shown = rolled_back(&router, &digest(&bytes), 1_000).await;
    assert!(shown["rolled_back"]["reason"].as_str().unwrap().contains("trap"), "{shown}");
    assert_eq!((&shown["source"], &shown["state"]), (&"builtin".into(), &"active".into()));
    assert_eq!(shown["candidate"]["state"], "refused");
    assert!(router.metric("sluicegate_plugin_rollbacks_total", &[("plugin", NAME)]).await >= 1.0);
    drop(router);
    let router = place.router().await;
    let shown = router.plugin(NAME).await.unwrap();
    assert_eq!(
        (&shown["candidate"]["state"], &shown["candidate"]["mode"]),
        (&"refused".into(), &Value::Null)
    );
}

#[tokio::test]
async fn a_canary_that_herds_everything_onto_one_endpoint_is_rolled_back() {
    let place = Place::of(4).await;
    place.plugins.put_file(&format!("{NAME}.next.toml"), b"mode = { canary = 10 }\n");
    let bytes = guest("herds");
    place.plugins.put(&format!("{NAME}.next"), &bytes);
    let router = place.router().await;
    tried(&router, &digest(&bytes)).await;
    let shown = rolled_back(&router, &digest(&bytes), 1_000_000).await;
    assert!(shown["rolled_back"]["reason"].as_str().unwrap().contains("herding"), "{shown}");
    drop(router);
    let router = place.router().await;
    assert_eq!(router.plugin(NAME).await.unwrap()["candidate"]["state"], "refused");
}

#[tokio::test]
async fn the_version_before_returns_when_a_new_file_keeps_failing() {
    let place = Place::of(2).await;
    let [good, bad] = [guest("prefers-b"), guest("traps")];
    place.plugins.put(NAME, &good);
    let router = place.router().await;
    router.plugin_runs(NAME, &digest(&good)).await;
    place.plugins.put(NAME, &bad);
    router.plugin_runs(NAME, &digest(&bad)).await;
    rolled_back(&router, &digest(&bad), 10).await;
    let shown = router.plugin_runs(NAME, &digest(&good)).await;
    assert_eq!((&shown["state"], &shown["refused"]["digest"]), (&"active".into(), &digest(&bad).into()));
    all_go_to(&router, &place.endpoint(1)).await;
    drop(router);

    let router = place.router().await;
    let shown = router.plugin(NAME).await.unwrap();
    assert_eq!(
        (&shown["digest"], &shown["refused"]["digest"]),
        (&digest(&good).into(), &digest(&bad).into())
    );
    place.plugins.put(NAME, &guest("prefers-a"));
    router.plugin_runs(NAME, &digest(&guest("prefers-a"))).await;
    all_go_to(&router, &place.endpoint(0)).await;
}

#[tokio::test]
async fn a_plugin_is_turned_off_and_on_and_stays_so() {
    let place = Place::of(2).await;
    let b = guest("prefers-b");
    place.plugins.put("mine", &b);
    let router = place.router().await;
    router.plugin_runs("mine", &digest(&b)).await;
    router.admin_post("/plugins/mine/off").await.expect(200).await;
    let answer = router.chat("off").send().await.expect(200).await;
    let id = answer.request_id().to_owned();
    answer.bytes().await;
    let asked = |decision: &Value| {
        decision["answers"].as_array().unwrap().iter().any(|answer| answer["plugin"] == "mine")
    };
    assert!(!asked(&router.decision(&id).await));
    drop(router);
    let router = place.router().await;
    assert_eq!(router.plugin("mine").await.unwrap()["state"], "off");
    router.admin_post("/plugins/mine/on").await.expect(200).await;
    router.plugin_runs("mine", &digest(&b)).await;
}

#[tokio::test]
async fn what_cannot_be_done_is_said() {
    let place = Place::of(1).await;
    let router = place.router().await;
    for (path, status, words) in [
        ("/plugins/prefix-afinity/promote", 404, "prefix-affinity"),
        ("/plugins/fairness/promote", 409, "fairness.next.wasm"),
        ("/plugins/fairness/rollback", 409, "no version before"),
    ] {
        let text = router.admin_post(path).await.expect(status).await.text().await;
        assert!(text.contains(words), "{text}");
    }
}

#[tokio::test]
async fn a_candidate_sees_what_the_plugin_stored_and_keeps_its_own_until_it_is_promoted() {
    let place = Place::of(1).await;
    let bytes = guest("stores-counts");
    place.plugins.put("remembers", &bytes);
    let router = place.router().await;
    router.plugin_runs("remembers", &digest(&bytes)).await;
    let ask = async |n: usize| {
        for turn in 0..n {
            router.chat(&format!("turn {turn}")).send().await.expect(200).await.bytes().await;
        }
    };
    let seen =
        async |plugin: &str| router.metric("sluicegate_plugin_calls_seen", &[("plugin", plugin)]).await;
    ask(5).await;
    assert_eq!(seen("remembers").await, 5.0);
    // The same code under other settings is another version.
    place.plugins.put_file("remembers.next.toml", b"mode = { canary = 100 }\nweight = 2.0\n");
    place.plugins.put("remembers.next", &bytes);
    wait::until("it is tried", async || {
        router.plugin("remembers").await.unwrap()["candidate"]["state"] == "on_trial"
    })
    .await;
    ask(3).await;
    assert_eq!((seen("remembers").await, seen("remembers.next").await), (5.0, 8.0));
    router.admin_post("/plugins/remembers/promote").await.expect(200).await;
    ask(2).await;
    assert_eq!(seen("remembers").await, 10.0);
}

#[tokio::test]
async fn a_file_that_does_harm_gives_way_where_files_are_held_to_the_guardrails() {
    let place = Place {
        settings: "[plugins.guardrails]\nfiles = true\nwindow_s = 240\nmin_samples = 10\n".into(),
        ..Place::of(1).await
    };
    let good = guest("rejects");
    // A custom section changes the digest and nothing else: id 0, its length, a name of one letter.
    let bad = [&good[..], &[0, 2, 1, b'x']].concat();
    place.plugins.put("gatekeeper", &good);
    let router = place.router().await;
    router.plugin_runs("gatekeeper", &digest(&good)).await;
    for n in 0..200 {
        router.chat(&format!("request {n}")).send().await.expect(200).await.bytes().await;
    }
    place.plugins.put_file("gatekeeper.toml", b"[config]\nmodels = [\"tiny\"]\n");
    place.plugins.put("gatekeeper", &bad);
    // Traffic goes on while it is compiled: what is compared is the time right before.
    wait::until("the other file is in force", async || {
        router.chat("meanwhile").send().await.bytes().await;
        router.plugin("gatekeeper").await.is_some_and(|plugin| plugin["digest"] == digest(&bad))
    })
    .await;
    let shown = wait::until_some("the version before is back", async || {
        router.chat("refused").send().await.bytes().await;
        router.plugin("gatekeeper").await.filter(|plugin| plugin["rolled_back"]["digest"] == digest(&bad))
    })
    .await;
    assert!(shown["rolled_back"]["reason"].as_str().unwrap().contains("guardrail errors"), "{shown}");
    router.plugin_runs("gatekeeper", &digest(&good)).await;
    router.chat("hello").send().await.expect(200).await.bytes().await;
}

#[tokio::test]
async fn flow_control_is_tried_on_whole_pools() {
    let place = Place::of(1).await;
    let other = [&builtin("fairness")[..], &[0, 2, 1, b'x']].concat();
    place.plugins.put_file("fairness.next.toml", b"mode = { pools = [\"p\"] }\n");
    place.plugins.put("fairness.next", &other);
    let router = place.router().await;
    wait::until("it is tried", async || {
        router.plugin("fairness").await.unwrap()["candidate"]["state"] == "on_trial"
    })
    .await;
    let answer = router.chat("hello").send().await.expect(200).await;
    let id = answer.request_id().to_owned();
    answer.bytes().await;
    let decision = router.decision(&id).await;
    let placed = decision["answers"].as_array().unwrap();
    let placed = placed.iter().find(|answer| answer["stage"] == "flow-control").expect("it was placed");
    assert_eq!((&decision["arm"], &placed["digest"]), (&"candidate".into(), &digest(&other).into()));
}
