//! Plugins in other languages than the SDK's: built from source, dropped in, configured, and heard.

use std::collections::BTreeMap;
use std::time::Duration;

use sluicegate_tests::{Engine, Metrics, PluginDir, Router, Value, digest, places, wait};

/// How long a large guest may compile on a busy machine.
const COMPILED: Duration = Duration::from_secs(400);

/// Those whose runtime drags WASI in.
const STUBBED: [&str; 2] = ["go", "rust-wasip2"];

/// The components by language. Those whose toolchain is not to be had here are named on the way.
fn built() -> BTreeMap<&'static str, Vec<u8>> {
    let mut built = BTreeMap::new();
    for name in ["c", "go", "javascript", "python", "rust", "rust-wasip2"] {
        let component = places::languages().join(format!("{name}.wasm"));
        if let Ok(why) = std::fs::read_to_string(component.with_extension("skipped")) {
            eprintln!("SKIPPED: no plugin in {name}: {why}");
            continue;
        }
        let bytes = std::fs::read(&component);
        built.insert(name, bytes.unwrap_or_else(|error| panic!("{}: {error}", component.display())));
    }
    built
}

fn numbers(values: &Value) -> Vec<f64> {
    values.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

/// The scores that a plugin gave in a decision.
fn scores(decision: &Value, plugin: &str) -> Vec<f64> {
    let answers = decision["answers"].as_array().unwrap();
    let answer = answers.iter().find(|answer| answer["plugin"] == plugin && answer["stage"] == "scorer");
    let answer = answer.unwrap_or_else(|| panic!("no scores of {plugin} in {decision}"));
    assert_eq!(answer["error"], Value::Null, "{plugin}: {decision}");
    numbers(&answer["values"])
}

/// Holds that a plugin's scores are those of the column that it was given, with the floor that it was given.
fn hold(decision: &Value, plugin: &str, floor: f64) {
    let waiting = numbers(&decision["columns"]["engine.waiting"]);
    let wanted: Vec<f64> = waiting.iter().map(|value| f64::max(floor, 1.0 / (1.0 + value))).collect();
    let given = scores(decision, plugin);
    let close = given.iter().zip(&wanted).all(|(given, wanted)| (given - wanted).abs() < 1e-6);
    assert!(close && given.len() == wanted.len(), "{plugin} says {given:?} instead of {wanted:?}");
}

/// A decision that every language was asked for.
async fn decided(router: &Router, languages: &BTreeMap<&str, Vec<u8>>) -> Value {
    for (name, bytes) in languages {
        let what = format!("the plugin in {name} is in force");
        let digest = digest(bytes);
        wait::within(COMPILED, &what, async || {
            let plugin = router.plugin(name).await?;
            assert_eq!(plugin["refused"], Value::Null, "{name}");
            (plugin["digest"] == *digest).then_some(())
        })
        .await;
    }
    let answer = router.chat("where to?").send().await.expect(200).await;
    let id = answer.request_id().to_owned();
    answer.bytes().await;
    router.decision(&id).await
}

#[tokio::test]
async fn the_same_scorer_gives_the_same_scores_in_every_language() {
    let languages = built();
    let engines = [Engine::start().await, Engine::start().await];
    for (engine, waiting) in engines.iter().zip([3, 19]) {
        engine.report(Metrics { waiting, ..Metrics::default() });
    }
    let settings = "{ column = \"engine.waiting\", floor = 0.125 }";
    let mut config = format!(
        "[limits]\npolicy_ms = 500\n[[pool]]\nname = \"p\"\nendpoints = [\"{}\", \"{}\"]\n",
        engines[0].url(),
        engines[1].url()
    );
    // Whether a plugin gets a WASI is for the operator to say; the others are configured beside their files.
    for name in STUBBED {
        config += &format!("[[plugin]]\nname = \"{name}\"\nwasi = \"stub\"\nconfig = {settings}\n");
    }
    let plugins = PluginDir::new();
    let router = Router::with(config).plugins(&plugins).unready().start().await;
    wait::until("the engines have reported", async || {
        let mut waiting = 0.0;
        for engine in &engines {
            let labels = [("endpoint", &*engine.id())];
            waiting += router.metric("sluicegate_endpoint_engine_waiting", &labels).await;
        }
        waiting == 22.0
    })
    .await;
    for (name, bytes) in &languages {
        plugins.put_file(&format!("{name}.toml"), format!("config = {settings}\n").as_bytes());
        plugins.put(name, bytes);
    }

    let decision = decided(&router, &languages).await;
    for name in languages.keys() {
        hold(&decision, name, 0.125);
        assert_eq!(router.metric("sluicegate_plugin_failures_total", &[("plugin", name)]).await, 0.0);
        assert_eq!(router.metric("sluicegate_plugin_generations", &[("plugin", name)]).await, 1.0);
        assert!(router.metric("sluicegate_plugin_instances", &[("plugin", name)]).await >= 1.0);
    }

    let beside = languages.keys().filter(|name| !STUBBED.contains(name));
    for name in beside.clone() {
        plugins.put_file(&format!("{name}.toml"), b"config = { column = \"engine.waiting\", floor = 0.5 }\n");
    }
    for name in beside {
        wait::within(COMPILED, &format!("{name} has its new configuration"), async || {
            let decision = decided(&router, &languages).await;
            (scores(&decision, name) == [0.5, 0.5]).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn wasi_is_refused_in_words_unless_it_is_stubbed() {
    let Some(component) = built().remove("rust-wasip2") else { return };
    let engine = Engine::start().await;
    let plugins = PluginDir::new();
    plugins.put("drags-it-in", &component);
    let router = Router::to(&[&engine]).plugins(&plugins).start().await;
    let plugin = router.plugin_refused("drags-it-in", &digest(&component)).await;
    let reason = plugin["refused"]["reason"].as_str().unwrap();
    assert!(reason.contains("it imports `wasi:") && reason.contains("wasi = \"stub\""), "{reason}");
    router.chat("hello").send().await.expect(200).await.bytes().await;
}
