//! The watched directory: what an operator drops there, whole or broken.

use std::time::Duration;

use sluicegate_tests::{Engine, PluginDir, Router, Value, builtin, digest, guest, wait};

/// Two engines, labelled `arm = "a"` and `arm = "b"`.
async fn arms() -> ([Engine; 2], String) {
    let engines = [Engine::start().await, Engine::start().await];
    let config = format!(
        "[[pool]]\nname = \"p\"\nendpoints = [{{ url = \"{}\", labels = {{ arm = \"a\" }} }}, \
         {{ url = \"{}\", labels = {{ arm = \"b\" }} }}]\n",
        engines[0].url(),
        engines[1].url()
    );
    (engines, config)
}

async fn all_go_to(router: &Router, endpoint: &str) {
    for turn in 0..8 {
        let answer = router.chat(&format!("turn {turn}")).send().await.expect(200).await;
        assert_eq!(answer.endpoint(), endpoint);
        answer.bytes().await;
    }
}

#[tokio::test]
async fn a_scorer_that_is_dropped_in_takes_effect_and_goes_with_its_file() {
    let (engines, config) = arms().await;
    let plugins = PluginDir::new();
    let router = Router::with(config).plugins(&plugins).start().await;
    let [a, b] = [guest("prefers-a"), guest("prefers-b")];

    plugins.put("prefix-affinity", &a);
    let entry = router.plugin_runs("prefix-affinity", &digest(&a)).await;
    assert_eq!(entry["source"], "file");
    all_go_to(&router, &engines[0].id()).await;

    plugins.put("prefix-affinity", &b);
    let next = router.plugin_runs("prefix-affinity", &digest(&b)).await;
    assert!(next["generation"].as_u64() > entry["generation"].as_u64());
    all_go_to(&router, &engines[1].id()).await;

    plugins.remove("prefix-affinity");
    let last = router.plugin_runs("prefix-affinity", &digest(&builtin("prefix-affinity"))).await;
    assert_eq!(last["source"], "builtin");
}

#[tokio::test]
async fn a_file_of_another_name_joins_its_stage() {
    let (engines, config) = arms().await;
    let plugins = PluginDir::new();
    let router = Router::with(config).plugins(&plugins).start().await;
    let b = guest("prefers-b");
    plugins.put("mine", &b);
    router.plugin_runs("mine", &digest(&b)).await;
    plugins.put_file("mine.toml", b"weight = 100.0\n");
    wait::until("its weight is taken from the file beside it", async || {
        router.plugin("mine").await.is_some_and(|plugin| plugin["weight"] == 100.0)
    })
    .await;
    all_go_to(&router, &engines[1].id()).await;
    plugins.remove("mine");
    wait::until("it is gone", async || router.plugin("mine").await.is_none()).await;
}

#[tokio::test]
async fn what_is_there_at_the_start_runs_from_the_start() {
    let (engines, config) = arms().await;
    let plugins = PluginDir::new();
    plugins.put("prefix-affinity", &guest("prefers-b"));
    let router = Router::with(config).plugins(&plugins).start().await;
    all_go_to(&router, &engines[1].id()).await;
}

#[tokio::test]
async fn a_file_that_is_no_plugin_is_refused_with_a_reason_and_the_old_one_stays() {
    let (engines, config) = arms().await;
    let plugins = PluginDir::new();
    let a = guest("prefers-a");
    plugins.put("prefix-affinity", &a);
    let router = Router::with(config).plugins(&plugins).start().await;
    router.plugin_runs("prefix-affinity", &digest(&a)).await;

    let b = guest("prefers-b");
    for (what, bytes) in [
        ("text", b"this is the README, I think".to_vec()),
        ("truncated", b[..b.len() / 2].to_vec()),
        ("an empty component", b"\0asm\x0d\0\x01\0".to_vec()),
        ("an empty module", b"\0asm\x01\0\0\0".to_vec()),
        ("another version of the contract", renamed(&b, b"sluicegate:policy", b"sluicegate:police")),
        ("a future version of the contract", renamed(&b, b"@0.1.0", b"@9.1.0")),
    ] {
        plugins.put("prefix-affinity", &bytes);
        let entry = router.plugin_refused("prefix-affinity", &digest(&bytes)).await;
        let reason = entry["refused"]["reason"].as_str().unwrap_or_default();
        assert!(reason.len() > 10, "{what}: {entry}");
        eprintln!("{what}: {reason}");
        assert_eq!(entry["digest"], digest(&a), "{what}");
        assert_eq!(entry["state"], "active", "{what}");
        all_go_to(&router, &engines[0].id()).await;
    }
    assert!(
        router
            .metric("sluicegate_plugin_loads_total", &[("plugin", "prefix-affinity"), ("outcome", "refused")])
            .await
            >= 6.0
    );

    plugins.put("prefix-affinity", &b);
    assert_eq!(router.plugin_runs("prefix-affinity", &digest(&b)).await["refused"], Value::Null);
    all_go_to(&router, &engines[1].id()).await;
}

/// The same bytes with every `from` replaced by `to` of the same length.
fn renamed(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(from.len()).position(|window| window == from) {
        at += found;
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    assert!(at > 0, "the component does not name {}", String::from_utf8_lossy(from));
    bytes
}

#[tokio::test]
async fn a_refused_file_of_a_new_name_is_listed() {
    let (_engines, config) = arms().await;
    let plugins = PluginDir::new();
    let router = Router::with(config).plugins(&plugins).start().await;
    let text = b"not a plugin at all".to_vec();
    plugins.put("mine", &text);
    let entry = router.plugin_refused("mine", &digest(&text)).await;
    assert_eq!((&entry["state"], &entry["digest"]), (&"refused".into(), &Value::Null), "{entry}");
    router.chat("hello").send().await.expect(200).await;
}

#[tokio::test]
async fn a_file_that_is_written_slowly_is_taken_when_it_is_whole() {
    let (engines, config) = arms().await;
    let plugins = PluginDir::new();
    let [a, b] = [guest("prefers-a"), guest("prefers-b")];
    plugins.put("prefix-affinity", &a);
    let router = Router::with(config).plugins(&plugins).start().await;
    for (pieces, pause) in [(10, Duration::from_millis(30)), (3, Duration::from_millis(700))] {
        plugins.write_slowly("prefix-affinity", &b, pieces, pause).await;
        router.plugin_runs("prefix-affinity", &digest(&b)).await;
        all_go_to(&router, &engines[1].id()).await;
        plugins.put("prefix-affinity", &a);
        router.plugin_runs("prefix-affinity", &digest(&a)).await;
    }
}

#[tokio::test]
async fn files_that_are_none_of_its_business_are_left_alone() {
    let (_engines, config) = arms().await;
    let plugins = PluginDir::new();
    let router = Router::with(config).plugins(&plugins).start().await;
    let before = router.admin_json("/plugins").await["plugins"].as_array().unwrap().len();
    for name in ["README.md", ".hidden.wasm", "notes.wasm.txt", "x.wasm~", ".x.wasm.swp"] {
        plugins.put_file(name, b"whatever");
    }
    wait::never("a file that is no plugin is listed as one", async || {
        router.admin_json("/plugins").await["plugins"].as_array().unwrap().len() != before
    })
    .await;
}
