//! A call of a plugin can be written down and made again.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use sluicegate_tests::{
    Engine, PluginDir, Router, Value, another, builtin, digest, guest, json, places, wait,
};
use tempfile::TempDir;

/// A folder with a plugin's file and a case of it.
struct Desk {
    _folder: TempDir,
    plugin: PathBuf,
    case: PathBuf,
}

impl Desk {
    fn new(plugin: &[u8], case: &Value) -> Self {
        let folder = TempDir::new().unwrap();
        let desk = Self {
            plugin: folder.path().join("it.wasm"),
            case: folder.path().join("it.json"),
            _folder: folder,
        };
        fs::write(&desk.plugin, plugin).unwrap();
        fs::write(&desk.case, case.to_string()).unwrap();
        desk
    }

    fn run(&self) -> (Option<i32>, String) {
        let mut command = Command::new(places::router());
        command.args(["plugin", "run"]).arg(&self.plugin).arg("--case").arg(&self.case);
        let Output { status, stdout, stderr } = command.output().unwrap();
        (status.code(), format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)))
    }
}

/// The newest case of a guest that fails in service, and the guest.
async fn failing(name: &str) -> (Vec<u8>, Value) {
    let engines = [Engine::start().await, Engine::start().await];
    let plugins = PluginDir::new();
    let bytes = guest(name);
    plugins.put(name, &bytes);
    let router = Router::to(&[&engines[0], &engines[1]]).plugins(&plugins).start().await;
    let cases = format!("/plugins/{name}/cases");
    let request =
        router.chat("a secret").header("x-request-id", "failing").header("authorization", "a secret");
    request.send().await.expect(200).await.bytes().await;
    let listed = router.admin_json(&cases).await;
    let newest = &listed["cases"][0];
    assert_eq!(
        (&newest["call"], &newest["request_id"]),
        (&"scorer.score".into(), &"failing".into()),
        "{listed}"
    );
    let case = router.admin_json(&format!("{cases}/{}", newest["id"])).await;
    assert_eq!((&case["case"], &case["digest"]), (&json!(1), &digest(&bytes).into()));
    assert!(!case.to_string().contains("secret"), "{case}");
    router.admin(&format!("{cases}/1000")).await.expect(404).await;
    (bytes, case)
}

#[tokio::test]
async fn a_call_that_trapped_in_service_is_made_again() {
    let (bytes, case) = failing("traps").await;
    assert_eq!(case["outcome"]["error"]["reason"], "trap");
    assert!(!case["outcome"]["error"]["backtrace"].as_array().unwrap().is_empty(), "{case}");
    let (code, said) = Desk::new(&bytes, &case).run();
    assert_eq!(code, Some(1), "{said}");
    for part in ["failed    trap", "recorded  the same", "          at "] {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
    // Another version of it that answers is no longer bad.
    let (code, said) = Desk::new(&guest("prefers-a"), &case).run();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("it failed then: trap"), "{said}");
}

#[tokio::test]
async fn an_answer_that_could_not_be_used_is_made_again() {
    let (bytes, case) = failing("wrong-length").await;
    assert_eq!(case["outcome"]["error"]["reason"], "wrong_length");
    let (code, said) = Desk::new(&bytes, &case).run();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("failed    wrong_length"), "{said}");
}

#[tokio::test]
async fn the_answers_of_a_decision_are_given_again() {
    let engines = [Engine::start().await, Engine::start().await, Engine::start().await];
    let router = Router::to(&[&engines[0], &engines[1], &engines[2]]).start().await;
    // What was served before is in the columns of what comes after.
    for turn in 0..3 {
        let request =
            router.chat(&"a long prompt ".repeat(100)).header("x-request-id", &format!("turn-{turn}"));
        request.send().await.expect(200).await.bytes().await;
    }
    let decision = router.decision("turn-2").await;
    let scored =
        decision["answers"].as_array().unwrap().iter().find(|answer| answer["stage"] == "scorer").unwrap();
    for (query, plugin) in [
        ("", "prefix-affinity"),
        ("&plugin=prefix-affinity&stage=scorer", "prefix-affinity"),
        ("&plugin=fairness&stage=flow-control", "fairness"),
    ] {
        let mut case = router.admin_json(&format!("/decisions/turn-2?as=case{query}")).await;
        assert_eq!(case["plugin"], plugin, "{case}");
        if plugin == "prefix-affinity" {
            assert_eq!(case["outcome"]["answer"]["scores"].as_array().unwrap().len(), 3);
            assert_eq!(scored["plugin"], plugin);
        }
        let (code, said) = Desk::new(&builtin(plugin), &case).run();
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("recorded  the same"), "{said}");

        // And another answer would be seen.
        case["outcome"]["answer"] = json!({"scores": [0.123, 0.5, 0.25]});
        let (code, said) = Desk::new(&builtin(plugin), &case).run();
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("recorded  differs"), "{said}");
    }
    router.admin("/decisions/turn-2?as=case&stage=picker").await.expect(404).await;
    router.admin("/decisions/turn-2?as=case&stage=nonsense").await.expect(400).await;
}

#[tokio::test]
async fn labels_mean_the_same_where_a_case_is_made_again() {
    let engines = [Engine::start().await, Engine::start().await];
    let plugins = PluginDir::new();
    plugins.put("prefers-a", &guest("prefers-a"));
    let config = format!(
        "[[pool]]\nname = \"p\"\nendpoints = [\n\
         {{ url = \"{}\", labels = {{ arm = \"b\" }} }},\n{{ url = \"{}\", labels = {{ arm = \"a\" }} }}]\n",
        engines[0].url(),
        engines[1].url()
    );
    let router = Router::with(config).plugins(&plugins).start().await;
    router.chat("hello").header("x-request-id", "labelled").send().await.expect(200).await.bytes().await;
    let case = router.admin_json("/decisions/labelled?as=case&plugin=prefers-a").await;
    let scores = &case["outcome"]["answer"]["scores"];
    assert!(*scores == json!([0.0, 1.0]) || *scores == json!([1.0, 0.0]), "{case}");
    let (code, said) = Desk::new(&guest("prefers-a"), &case).run();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("recorded  the same"), "{said}");
}

#[tokio::test]
async fn only_the_latest_failing_calls_are_kept() {
    let engine = Engine::start().await;
    let plugins = PluginDir::new();
    let router = Router::to(&[&engine]).plugins(&plugins).start().await;
    // Each version may fail three times before it is set aside, and is kept out from then on.
    for round in 0..4 {
        for name in ["traps", "nan"] {
            let bytes = another(&guest(name), round);
            plugins.put("mine", &bytes);
            router.plugin_runs("mine", &digest(&bytes)).await;
            wait::until("it is set aside or taken out", async || {
                router.chat("hello").send().await.expect(200).await.bytes().await;
                let plugin = router.plugin("mine").await.unwrap();
                plugin["state"] == "set_aside" || plugin["refused"]["digest"] == digest(&bytes)
            })
            .await;
        }
    }
    let listed = router.admin_json("/plugins/mine/cases").await;
    let ids: Vec<u64> =
        listed["cases"].as_array().unwrap().iter().map(|case| case["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), 8, "{listed}");
    assert!(ids.windows(2).all(|pair| pair[0] == pair[1] + 1) && ids[0] >= 24, "{ids:?}");
    assert_eq!(listed["cases"][0]["reason"], "not_finite", "{listed}");
}
