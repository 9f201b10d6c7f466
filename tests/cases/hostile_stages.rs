//! Each stage, misbehaving in each way: in its trial calls, where it is refused, and in service, where requests go
//! on and the other plugins with them.

use sluicegate_tests::{Engine, PluginDir, Router, digest, guest, wait};

/// When the guest begins.
#[derive(Debug, Clone, Copy, PartialEq)]
enum When {
    AtOnce,
    InService,
}

/// One way to misbehave, and the reasons of which one is counted.
struct Case {
    stage: &'static str,
    how: &'static str,
    when: When,
    reasons: &'static [&'static str],
}

const fn at_once(stage: &'static str, how: &'static str, reasons: &'static [&'static str]) -> Case {
    Case { stage, how, when: When::AtOnce, reasons }
}

const fn in_service(stage: &'static str, how: &'static str, reasons: &'static [&'static str]) -> Case {
    Case { stage, how, when: When::InService, reasons }
}

/// A router before three engines into which one guest after another is dropped.
struct Scene {
    router: Router,
    plugins: PluginDir,
    asked: u32,
    resident: u64,
    _engines: [Engine; 3],
}

impl Scene {
    async fn set() -> Self {
        let engines = [Engine::start().await, Engine::start().await, Engine::start().await];
        // A split is asked for only where roles differ.
        let config = format!(
            "[[pool]]\nname = \"p\"\nendpoints = [\"{}\", \"{}\", {{ url = \"{}\", role = \"prefill\" }}]\n",
            engines[0].url(),
            engines[1].url(),
            engines[2].url()
        );
        let plugins = PluginDir::new();
        let router = Router::with(config).plugins(&plugins).start().await;
        let mut scene = Self { router, plugins, asked: 0, resident: 0, _engines: engines };
        scene.ask().await;
        scene.resident = scene.router.resident();
        scene
    }

    async fn ask(&mut self) {
        self.router.chat(&format!("request {}", self.asked)).send().await.expect(200).await.bytes().await;
        self.asked += 1;
    }

    async fn counted(&self, name: &str, reasons: &[&str]) -> f64 {
        let mut counted = 0.0;
        for reason in reasons {
            let labels = [("plugin", name), ("reason", *reason)];
            counted += self.router.metric("sluicegate_plugin_failures_total", &labels).await;
        }
        counted
    }

    async fn calls_of_others(&self) -> f64 {
        self.router.metric("sluicegate_plugin_calls_total", &[("plugin", "prefix-affinity")]).await
    }

    /// Drops a guest in, and asks until it is known as what it is.
    async fn plays(&mut self, case: &Case) {
        let Case { stage, how, when, reasons } = case;
        let live = *when == When::InService;
        // Of stages that only one plugin can answer, the last in the order of names does.
        let name = format!("z-{stage}-{how}-{}", if live { "late" } else { "soon" });
        let others = self.calls_of_others().await;
        let bytes = guest("hostile");
        self.plugins.put_file(
            &format!("{name}.toml"),
            format!("[config]\nstage = \"{stage}\"\nhow = \"{how}\"\nlive = {live}\n").as_bytes(),
        );
        self.plugins.put(&name, &bytes);
        if *when == When::AtOnce {
            self.router.plugin_refused(&name, &digest(&bytes)).await;
            self.ask().await;
        }
        wait::until_some(
            &format!("{name} is set aside or refused, and {reasons:?} is counted"),
            async || {
                self.ask().await;
                let plugin = self.router.plugin(&name).await?;
                let known = plugin["state"] == "set_aside" || plugin["refused"]["digest"] == digest(&bytes);
                (known && self.counted(&name, reasons).await >= 1.0).then_some(())
            },
        )
        .await;
        for _ in 0..5 {
            self.ask().await;
        }
        assert!(self.calls_of_others().await > others, "{name}: the other plugins stopped");
        self.plugins.remove(&name);
    }

    /// All of it was served, by a process that did not grow without bound.
    async fn ends(mut self) {
        assert!(self.router.running());
        let served = self.router.metric("sluicegate_requests_total", &[("code", "200")]).await;
        assert_eq!(served, f64::from(self.asked));
        assert_eq!(self.router.metric("sluicegate_requests_total", &[]).await, served);
        let resident = self.router.resident();
        assert!(
            resident < self.resident + (256 << 20),
            "resident bytes grew from {} to {resident}",
            self.resident
        );
    }
}

async fn play(cases: &[Case]) {
    let mut scene = Scene::set().await;
    for case in cases {
        scene.plays(case).await;
    }
    scene.ends().await;
}

/// An instance whose set-up fails is one that there is none of.
const SET_UP: &[&str] = &["no_instance"];

#[tokio::test]
async fn loops_at_once() {
    play(&[
        at_once("configure", "loop", SET_UP),
        at_once("admission", "loop", &["deadline"]),
        at_once("filter", "loop", &["deadline"]),
        at_once("scorer", "loop", &["deadline"]),
        at_once("picker", "loop", &["deadline"]),
        at_once("disaggregation", "loop", &["deadline"]),
        at_once("place", "loop", &["deadline"]),
        at_once("select", "loop", &["deadline"]),
        at_once("saturation", "loop", &["deadline"]),
        at_once("observe", "loop", &["deadline"]),
        at_once("save", "loop", &["deadline"]),
        at_once("restore", "loop", &["deadline"]),
    ])
    .await;
}

#[tokio::test]
async fn loops_in_service() {
    play(&[
        in_service("admission", "loop", &["deadline"]),
        in_service("filter", "loop", &["deadline"]),
        in_service("scorer", "loop", &["deadline"]),
        in_service("picker", "loop", &["deadline"]),
        in_service("disaggregation", "loop", &["deadline"]),
        in_service("place", "loop", &["deadline"]),
    ])
    .await;
}

#[tokio::test]
async fn loops_off_the_path_of_requests() {
    play(&[
        in_service("select", "loop", &["deadline"]),
        in_service("saturation", "loop", &["deadline"]),
        in_service("observe", "loop", &["deadline"]),
        in_service("save", "loop", &["deadline"]),
    ])
    .await;
}

#[tokio::test]
async fn traps_in_service() {
    play(&[
        in_service("admission", "trap", &["trap"]),
        in_service("filter", "trap", &["trap"]),
        in_service("picker", "trap", &["trap"]),
        in_service("disaggregation", "trap", &["trap"]),
        in_service("select", "trap", &["trap"]),
        in_service("observe", "trap", &["trap"]),
    ])
    .await;
}

#[tokio::test]
async fn memory_stack_and_lists_without_end() {
    play(&[
        in_service("scorer", "grow", &["memory"]),
        at_once("scorer", "grow", &["memory"]),
        at_once("configure", "grow", SET_UP),
        in_service("scorer", "recurse", &["trap", "deadline"]),
        at_once("scorer", "recurse", &["trap"]),
        in_service("scorer", "huge", &["trap", "deadline"]),
        in_service("filter", "huge", &["trap", "deadline"]),
        in_service("select", "huge", &["trap", "deadline"]),
    ])
    .await;
}

#[tokio::test]
async fn answers_that_cannot_be_used() {
    play(&[
        in_service("scorer", "nan", &["not_finite"]),
        in_service("scorer", "infinite", &["not_finite"]),
        in_service("scorer", "too-long", &["wrong_length"]),
        in_service("scorer", "too-short", &["wrong_length"]),
        in_service("filter", "out-of-range", &["out_of_range"]),
        in_service("filter", "repeated", &["repeated"]),
        in_service("picker", "out-of-range", &["out_of_range"]),
        in_service("picker", "repeated", &["repeated"]),
        in_service("disaggregation", "out-of-range", &["out_of_range"]),
        in_service("disaggregation", "many-legs", &["invalid"]),
        in_service("place", "nan", &["not_finite"]),
        in_service("place", "no-weight", &["invalid"]),
        in_service("select", "out-of-range", &["out_of_range"]),
        in_service("saturation", "nan", &["not_finite"]),
    ])
    .await;
}

#[tokio::test]
async fn floods_and_texts_without_end_into_the_host() {
    play(&[
        in_service("scorer", "log-flood", &["deadline"]),
        in_service("scorer", "metric-flood", &["deadline"]),
        in_service("scorer", "label-flood", &["deadline"]),
        in_service("scorer", "store-flood", &["deadline"]),
        in_service("scorer", "long-log", &["trap", "deadline"]),
        in_service("scorer", "long-name", &["trap", "deadline"]),
        in_service("scorer", "long-key", &["trap", "deadline"]),
        in_service("scorer", "many-labels", &["trap", "deadline"]),
        at_once("configure", "column-flood", SET_UP),
        at_once("configure", "text-flood", SET_UP),
        at_once("configure", "long-error", SET_UP),
    ])
    .await;
}

#[tokio::test]
async fn time_in_the_host_is_the_guests_own() {
    play(&[in_service("scorer", "column-flood", &["deadline"])]).await;

    let engine = Engine::start().await;
    let plugins = PluginDir::new();
    let config = format!(
        "[[plugin]]\nname = \"reads\"\ngrant = [\"body\"]\n\
         config = {{ stage = \"scorer\", how = \"body-flood\", live = true }}\n\
         [[pool]]\nname = \"p\"\nendpoints = [\"{}\"]\n",
        engine.url()
    );
    plugins.put("reads", &guest("hostile"));
    let router = Router::with(config).plugins(&plugins).start().await;
    let large = "words ".repeat(100_000);
    wait::until("the guest has met its deadline", async || {
        router.chat(&large).send().await.expect(200).await.bytes().await;
        let labels = [("plugin", "reads"), ("reason", "deadline")];
        router.metric("sluicegate_plugin_failures_total", &labels).await >= 1.0
    })
    .await;
}

/// Holds that a guest is refused for its trial calls, and what its author is told.
async fn refused_on_trial(how: &str, says: &[&str]) {
    let engine = Engine::start().await;
    let plugins = PluginDir::new();
    let bytes = guest("hostile");
    plugins.put_file("tried.toml", format!("[config]\nstage = \"scorer\"\nhow = \"{how}\"\n").as_bytes());
    plugins.put("tried", &bytes);
    let router = Router::to(&[&engine]).plugins(&plugins).start().await;
    let plugin = router.plugin_refused("tried", &digest(&bytes)).await;
    let reason = plugin["refused"]["reason"].as_str().unwrap();
    assert!(says.iter().all(|says| reason.contains(says)), "{reason}");
}

#[tokio::test]
async fn one_that_fails_among_many_candidates_only() {
    refused_on_trial("trap-among-many", &["its scorer", "1024 candidates and ordinary values", "inspect"])
        .await;
}

#[tokio::test]
async fn one_that_fails_at_the_edges_only() {
    refused_on_trial("overflow", &["its scorer", "8 candidates and the largest values", "bound them"]).await;
}

#[tokio::test]
async fn a_slow_set_up_fails_no_request() {
    let engine = Engine::start().await;
    let plugins = PluginDir::new();
    let bytes = guest("hostile");
    plugins.put_file("slow.toml", b"[config]\nstage = \"configure\"\nhow = \"slow\"\n");
    plugins.put("slow", &bytes);
    let router = Router::to(&[&engine]).plugins(&plugins).start().await;
    router.plugin_runs("slow", &digest(&bytes)).await;
    let asks: Vec<_> = (0..32)
        .map(|number| {
            let ask = router.chat(&format!("request {number}"));
            tokio::spawn(async move { ask.send().await.expect(200).await.bytes().await })
        })
        .collect();
    for ask in asks {
        ask.await.unwrap();
    }
    assert!(router.metric("sluicegate_plugin_calls_total", &[("plugin", "slow")]).await >= 32.0);
}

#[tokio::test]
async fn what_is_dropped_is_counted() {
    let engine = Engine::start().await;
    let plugins = PluginDir::new();
    let router = Router::to(&[&engine]).plugins(&plugins).start().await;
    for (stage, how, what) in [
        ("scorer", "log-flood", "log_line"),
        ("scorer", "metric-flood", "series"),
        ("scorer", "label-flood", "series"),
        ("scorer", "store-fill", "store_write"),
        ("configure", "long-column", "column"),
        ("configure", "column-flood", "column"),
        ("configure", "text-flood", "text"),
    ] {
        let name = format!("{stage}-{how}");
        let config = format!("[config]\nstage = \"{stage}\"\nhow = \"{how}\"\n");
        plugins.put_file(&format!("{name}.toml"), config.as_bytes());
        plugins.put(&name, &guest("hostile"));
        wait::until(&format!("{what} is counted for {name}"), async || {
            router.chat("hello").send().await.expect(200).await.bytes().await;
            let labels = [("plugin", &*name), ("what", what)];
            router.metric("sluicegate_plugin_dropped_total", &labels).await >= 1.0
        })
        .await;
    }
    // A plugin has one allowance however many instances write.
    let lines = router.log().lines().filter(|line| line.contains("again")).count();
    assert!(lines <= 100, "{lines} lines of one plugin in the log");
}

#[tokio::test]
async fn a_long_flow_name_is_cut_and_no_failure() {
    let engine = Engine::start().await;
    let plugins = PluginDir::new();
    let bytes = guest("hostile");
    plugins.put_file("long.toml", b"[config]\nstage = \"place\"\nhow = \"long-flow\"\n");
    plugins.put("long", &bytes);
    let router = Router::to(&[&engine]).plugins(&plugins).start().await;
    router.plugin_runs("long", &digest(&bytes)).await;
    for _ in 0..10 {
        router.chat("hello").send().await.expect(200).await.bytes().await;
    }
    let labels = [("plugin", "long"), ("reason", "invalid")];
    assert_eq!(router.metric("sluicegate_plugin_failures_total", &labels).await, 0.0);
}

#[tokio::test]
async fn an_instance_that_trapped_is_replaced() {
    let engine = Engine::start().await;
    let plugins = PluginDir::new();
    let bytes = guest("hostile");
    plugins
        .put_file("seldom.toml", b"[config]\nstage = \"scorer\"\nhow = \"trap\"\nlive = true\nevery = 20\n");
    plugins.put("seldom", &bytes);
    let router = Router::to(&[&engine]).plugins(&plugins).start().await;
    router.plugin_runs("seldom", &digest(&bytes)).await;
    for request in 0..90 {
        router.chat(&format!("request {request}")).send().await.expect(200).await.bytes().await;
    }
    let failures = async |reason| {
        router.metric("sluicegate_plugin_failures_total", &[("plugin", "seldom"), ("reason", reason)]).await
    };
    assert_eq!(failures("trap").await, 4.0);
    assert_eq!(failures("no_instance").await, 0.0);
    assert_eq!(router.plugin("seldom").await.unwrap()["state"], "active");
}
