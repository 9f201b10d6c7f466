//! Files that no compiler makes: what they ask for as they are set up, and bytes that are no plugin.

use sluicegate_tests::{Engine, Forged, PluginDir, Router, Value, digest, guest, wait};

async fn served(router: &Router, requests: usize) {
    for request in 0..requests {
        router.chat(&format!("request {request}")).send().await.expect(200).await.bytes().await;
    }
}

/// Holds that a file is refused, and says why.
async fn refused(name: &str, bytes: &[u8], says: &[&str]) {
    let engine = Engine::start().await;
    let plugins = PluginDir::new();
    let mut router = Router::to(&[&engine]).plugins(&plugins).start().await;
    let before = router.resident();
    plugins.put(name, bytes);
    let plugin = router.plugin_refused(name, &digest(bytes)).await;
    let reason = plugin["refused"]["reason"].as_str().unwrap();
    assert!(says.iter().any(|says| reason.contains(says)), "{name}: {reason}");
    assert!(reason.len() < 4_096, "{name}: {reason}");
    served(&router, 10).await;
    let others = [("plugin", "prefix-affinity")];
    assert!(router.metric("sluicegate_plugin_calls_total", &others).await >= 10.0);
    assert!(router.metric("sluicegate_plugin_refusals_total", &[("plugin", name)]).await >= 1.0);
    assert!(router.resident() < before + (256 << 20), "{name}: {} bytes resident", router.resident());
    assert!(router.running());
}

#[tokio::test]
async fn a_forged_scorer_is_a_scorer() {
    let engine = Engine::start().await;
    let plugins = PluginDir::new();
    let bytes = Forged::default().bytes();
    plugins.put("forged", &bytes);
    let router = Router::to(&[&engine]).plugins(&plugins).start().await;
    assert_eq!(router.plugin_runs("forged", &digest(&bytes)).await["state"], "active");
    served(&router, 10).await;
    assert_eq!(router.metric("sluicegate_plugin_failures_total", &[("plugin", "forged")]).await, 0.0);
}

#[tokio::test]
async fn a_start_function_without_end() {
    let more = "(func $start (loop $again (br $again))) (start $start)".into();
    refused("start-loop", &Forged { more, ..Forged::default() }.bytes(), &["deadline"]).await;
}

#[tokio::test]
async fn a_start_function_that_traps() {
    let more = "(func $start unreachable) (start $start)".into();
    refused("start-trap", &Forged { more, ..Forged::default() }.bytes(), &["unreachable"]).await;
}

#[tokio::test]
async fn a_description_without_end() {
    let describe = "(loop $again (br $again)) (i32.const 1024)".into();
    refused("describe-loop", &Forged { describe, ..Forged::default() }.bytes(), &["deadline"]).await;
}

#[tokio::test]
async fn a_configuration_without_end() {
    let configure = "(loop $again (br $again)) (i32.const 1024)".into();
    refused("configure-loop", &Forged { configure, ..Forged::default() }.bytes(), &["deadline"]).await;
}

#[tokio::test]
async fn a_memory_of_four_gigabytes() {
    let memory = "(memory (export \"memory\") 65536)".into();
    let says = ["4294967296 bytes of memory, more than its cap"];
    refused("huge-memory", &Forged { memory, ..Forged::default() }.bytes(), &says).await;
}

#[tokio::test]
async fn a_data_segment_at_four_gigabytes() {
    let more = "(data (i32.const -16) \"0123456789abcdef\")".into();
    refused("far-data", &Forged { more, ..Forged::default() }.bytes(), &["out of bounds", "trap"]).await;
}

#[tokio::test]
async fn a_table_of_nine_million_functions() {
    let more = "(table 9000000 funcref)".into();
    let says = ["tables of 9000000 elements"];
    refused("huge-table", &Forged { more, ..Forged::default() }.bytes(), &says).await;
}

#[tokio::test]
async fn a_table_that_grows_without_end() {
    let configure =
        "(loop $again (drop (table.grow $t (ref.null func) (i32.const 10000))) (br $again)) (i32.const 1024)"
            .into();
    let more = "(table $t 1 funcref)".into();
    refused("table-bomb", &Forged { configure, more, ..Forged::default() }.bytes(), &["deadline", "memory"])
        .await;
}

#[tokio::test]
async fn a_length_that_lies() {
    // 0x3fffffff scores, in a memory of two pages.
    let answer = "(i32.store (i32.const 1044) (i32.const 1073741823))".into();
    refused("length-lies", &Forged { answer, ..Forged::default() }.bytes(), &["trap"]).await;
}

#[tokio::test]
async fn a_pointer_that_lies() {
    let answer = "(i32.store (i32.const 1040) (i32.const -4))".into();
    refused("pointer-lies", &Forged { answer, ..Forged::default() }.bytes(), &["trap"]).await;
}

#[tokio::test]
async fn a_long_description() {
    // A version of 60,000 bytes.
    let describe = "(i32.store (i32.const 1032) (i32.const 1088)) (i32.store (i32.const 1036) (i32.const 60000)) (i32.const 1024)".into();
    refused("describe-long", &Forged { describe, ..Forged::default() }.bytes(), &["version of 60000 bytes"])
        .await;
}

#[tokio::test]
async fn a_trap_in_post_return() {
    let more = "(func (export \"cabi_post_sluicegate:policy/scorer@0.1.0#score\") (param i32) unreachable)";
    refused("post-return", &Forged { more: more.into(), ..Forged::default() }.bytes(), &["trap"]).await;
}

#[tokio::test]
async fn a_trap_in_post_return_in_service() {
    // Each instance lasts for 40 calls: more than are tried.
    let more = "(global $calls (mut i32) (i32.const 0))
        (func (export \"cabi_post_sluicegate:policy/scorer@0.1.0#score\") (param i32)
          (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
          (if (i32.gt_u (global.get $calls) (i32.const 40)) (then unreachable)))";
    let bytes = Forged { more: more.into(), ..Forged::default() }.bytes();
    let engine = Engine::start().await;
    let plugins = PluginDir::new();
    plugins.put("post-return", &bytes);
    let router = Router::to(&[&engine]).plugins(&plugins).start().await;
    router.plugin_runs("post-return", &digest(&bytes)).await;
    served(&router, 200).await;
    let labels = [("plugin", "post-return"), ("reason", "trap")];
    let traps = router.metric("sluicegate_plugin_failures_total", &labels).await;
    assert!((1.0..=5.0).contains(&traps), "{traps} traps in 200 calls");
    assert_eq!(router.metric("sluicegate_plugin_failures_total", &[("plugin", "post-return")]).await, traps);
}

#[tokio::test]
async fn memories_that_are_small_each() {
    // Six of 16 MiB: each below the cap of 64 MiB, and together above it.
    let bytes = Forged::default().with_memories(6, 256);
    refused("memories", &bytes, &["no_instance"]).await;
}

#[tokio::test]
async fn many_memories() {
    let bytes = Forged::default().with_memories(100, 1);
    refused("many-memories", &bytes, &["it has 101 memories"]).await;
}

/// Waits until it is known what a file is: in force or refused.
async fn judged(router: &Router, name: &str, bytes: &[u8]) -> Value {
    let digest = digest(bytes);
    wait::until_some(&format!("{name} is judged"), async || {
        let plugin = router.plugin(name).await?;
        (plugin["digest"] == *digest || plugin["refused"]["digest"] == *digest).then_some(plugin)
    })
    .await
}

#[tokio::test]
async fn files_that_are_cut_off_or_changed() {
    let engine = Engine::start().await;
    let plugins = PluginDir::new();
    let mut router = Router::to(&[&engine]).plugins(&plugins).start().await;
    let whole = guest("prefers-a");
    let mut files = Vec::new();
    for tenth in 0..10 {
        files.push((format!("cut-{tenth}"), whole[..whole.len() * tenth / 10].to_vec()));
    }
    // The constants of a linear congruential generator: what is changed is the same in every run.
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for number in 0..20 {
        let mut changed = whole.clone();
        for _ in 0..=number % 4 {
            let at = random(changed.len());
            changed[at] = random(256) as u8;
        }
        files.push((format!("changed-{number}"), changed));
    }
    for (name, bytes) in &files {
        plugins.put(name, bytes);
    }
    for (name, bytes) in &files {
        let plugin = judged(&router, name, bytes).await;
        assert!(!name.starts_with("cut-") || plugin["state"] == "refused", "{plugin}");
    }
    served(&router, 20).await;
    assert!(router.running());
}

/// Requests are served and other plugins asked while a file keeps the compiler busy, and it has an end.
async fn keeps_nobody_waiting(name: &str, bytes: &[u8]) {
    let engine = Engine::start().await;
    let plugins = PluginDir::new();
    let mut router = Router::to(&[&engine]).plugins(&plugins).start().await;
    plugins.put(name, bytes);
    let digest = digest(bytes);
    wait::until(&format!("{name} is in force or refused"), async || {
        served(&router, 5).await;
        let plugin = router.plugin(name).await.unwrap_or_default();
        plugin["digest"] == *digest || plugin["refused"]["digest"] == *digest
    })
    .await;
    served(&router, 5).await;
    let others = [("plugin", "prefix-affinity")];
    assert!(router.metric("sluicegate_plugin_calls_total", &others).await >= 10.0);
    assert!(router.running());
}

#[tokio::test]
async fn tens_of_thousands_of_functions() {
    let more = "(func (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))\n".repeat(30_000);
    keeps_nobody_waiting("many-functions", &Forged { more, ..Forged::default() }.bytes()).await;
}

#[tokio::test]
async fn one_enormous_function() {
    let step = "(local.set 0 (i32.mul (i32.add (local.get 0) (local.get 1)) (i32.load (local.get 0))))\n";
    let more = format!("(func (param i32 i32) (result i32) {} (local.get 0))", step.repeat(50_000));
    keeps_nobody_waiting("one-function", &Forged { more, ..Forged::default() }.bytes()).await;
}

/// Found by fuzzing: what makes components of core modules recursed without end, and the router with it.
#[tokio::test]
async fn packages_that_need_each_other_in_a_circle() {
    let bytes = include_bytes!("../../fuzz/regressions/wrap/packages-in-a-circle");
    refused("circle", bytes, &["ended before it was done"]).await;
}
