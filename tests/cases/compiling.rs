//! Compiling in a process of its own: what it costs at most, what is kept, and that nobody waits for it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sluicegate_tests::{Engine, PluginDir, Router, Value, digest, guest, places, wait};
use tempfile::TempDir;

/// A router whose `[plugins]` has these lines, and which keeps its state here.
async fn router(plugins: &PluginDir, state: &Path, lines: &str) -> (Engine, Router) {
    let engine = Engine::start().await;
    let config = format!(
        "state_dir = {:?}\n[plugins]\n{lines}\n[[pool]]\nname = \"p\"\nendpoints = [\"{}\"]\n",
        state.display().to_string(),
        engine.url()
    );
    let router = Router::with(config).plugins(plugins).start().await;
    (engine, router)
}

async fn compiled(router: &Router, how: &str) -> f64 {
    router.metric("sluicegate_plugin_compile_seconds_count", &[("how", how)]).await
}

fn reason(entry: &Value) -> &str {
    entry["refused"]["reason"].as_str().unwrap_or_default()
}

/// The component around a core module.
fn component(module: &[u8], instantiated: bool) -> Vec<u8> {
    let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
    section(&mut bytes, 1, module);
    if instantiated {
        section(&mut bytes, 2, &[1, 0, 0, 0]);
    }
    bytes
}

fn section(to: &mut Vec<u8>, id: u8, body: &[u8]) {
    to.push(id);
    length(to, body.len());
    to.extend(body);
}

fn length(to: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        to.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    to.push(length as u8);
}

/// A component of `functions` functions of 3,000 operations that depend on each other: some 10 kB and 10 ms
/// of compiling each.
fn bomb(functions: usize) -> Vec<u8> {
    // No locals; local.get 0.
    let mut body = vec![0, 0x20, 0];
    for i in 0..3_000_u32 {
        // i64.const, then one of add, sub, mul, and, or, xor, rotl.
        body.extend([0x42, (i % 59) as u8 + 1, [0x7c, 0x7d, 0x7e, 0x85, 0x89][i as usize % 5]]);
    }
    body.push(0x0b);
    let mut types = Vec::new();
    length(&mut types, functions);
    types.extend(std::iter::repeat_n(0, functions));
    let mut code = Vec::new();
    length(&mut code, functions);
    for _ in 0..functions {
        length(&mut code, body.len());
        code.extend(&body);
    }
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    section(&mut module, 1, &[1, 0x60, 1, 0x7e, 1, 0x7e]);
    section(&mut module, 3, &types);
    section(&mut module, 10, &code);
    component(&module, false)
}

/// The child processes of one.
fn children(parent: u32) -> Vec<u32> {
    let parent_of = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

fn kept(state: &Path) -> Vec<PathBuf> {
    let folder = fs::read_dir(state.join("cache")).unwrap();
    folder.flatten().map(|entry| entry.path()).collect()
}

#[tokio::test]
async fn a_restart_takes_what_was_compiled_from_the_cache_and_damage_is_made_good() {
    let (plugins, state) = (PluginDir::new(), TempDir::new().unwrap());
    let wasm = guest("prefers-a");
    plugins.put("mine", &wasm);
    let start = async || {
        let (_engine, router) = router(&plugins, state.path(), "").await;
        router.plugin_runs("mine", &digest(&wasm)).await;
        let counts = (compiled(&router, "child").await, compiled(&router, "cache").await);
        (counts, router.log())
    };
    assert_eq!(start().await.0, (1.0, 0.0));
    assert_eq!(start().await.0, (0.0, 1.0));

    let [file] = kept(state.path()).try_into().expect("one file is kept");
    let good = fs::read(&file).unwrap();
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() ^= 1;
    for (what, bytes) in
        [("damaged", damaged), ("cut off", good[..good.len() / 2].to_vec()), ("empty", Vec::new())]
    {
        fs::write(&file, bytes).unwrap();
        let (counts, log) = start().await;
        assert_eq!(counts, (1.0, 0.0), "{what}");
        assert!(log.contains("made anew"), "{what}: {log}");
        assert_eq!(fs::read(&file).unwrap(), good, "{what}");
    }

    // A folder that others may write to is not trusted, and not used.
    fs::set_permissions(state.path().join("cache"), std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .unwrap();
    let (counts, log) = start().await;
    assert_eq!(counts, (1.0, 0.0));
    assert!(log.contains("mode 0700"), "{log}");
}

#[tokio::test]
async fn a_compiler_that_is_killed_is_a_refusal_and_nobody_waits_for_it() {
    let (plugins, state) = (PluginDir::new(), TempDir::new().unwrap());
    let good = guest("prefers-a");
    plugins.put("mine", &good);
    let (_engine, router) = router(&plugins, state.path(), "").await;
    router.plugin_runs("mine", &digest(&good)).await;

    let bomb = bomb(2_000);
    plugins.put("mine", &bomb);
    let child =
        wait::until_some("it is being compiled", async || children(router.pid()).first().copied()).await;
    // Meanwhile requests are served, by the version in force.
    router.chat("hello").send().await.expect(200).await;
    assert_eq!(router.plugin("mine").await.unwrap()["digest"], digest(&good));
    let environment = fs::read(format!("/proc/{child}/environ")).unwrap_or_default();
    assert!(
        !String::from_utf8_lossy(&environment).contains("PATH="),
        "it is given nothing of the environment"
    );
    assert!(Command::new("kill").args(["-KILL", &child.to_string()]).status().unwrap().success());
    let entry = router.plugin_refused("mine", &digest(&bomb)).await;
    assert!(reason(&entry).contains("ended before it was done"), "{entry}");
    assert_eq!((&entry["state"], &entry["digest"]), (&"active".into(), &digest(&good).into()));

    let other = guest("prefers-b");
    plugins.put("mine", &other);
    router.plugin_runs("mine", &digest(&other)).await;
}

#[tokio::test]
async fn a_component_that_takes_too_long_to_compile_is_refused_in_words() {
    let (plugins, state) = (PluginDir::new(), TempDir::new().unwrap());
    let (_engine, router) = router(&plugins, state.path(), "compile_s = 1").await;
    let bomb = bomb(3_000);
    plugins.put("mine", &bomb);
    let entry = router.plugin_refused("mine", &digest(&bomb)).await;
    assert!(reason(&entry).contains("plugins.compile_s"), "{entry}");
    let label = [("plugin", "mine"), ("reason", "compile_time")];
    assert_eq!(router.metric("sluicegate_plugin_refusals_total", &label).await, 1.0);
    let good = guest("prefers-a");
    plugins.put("mine", &good);
    router.plugin_runs("mine", &digest(&good)).await;
    wait::until("no process is left behind", async || children(router.pid()).is_empty()).await;
}

#[tokio::test]
async fn a_component_that_takes_too_much_memory_to_compile_is_refused_in_words() {
    let (plugins, state) = (PluginDir::new(), TempDir::new().unwrap());
    let (_engine, router) = router(&plugins, state.path(), "compile_mib = 64").await;
    let bomb = bomb(2_000);
    plugins.put("mine", &bomb);
    let entry = router.plugin_refused("mine", &digest(&bomb)).await;
    assert!(reason(&entry).contains("plugins.compile_mib"), "{entry}");
}

#[tokio::test]
async fn what_needs_more_memory_than_it_may_have_is_told_both_numbers() {
    let (plugins, state) = (PluginDir::new(), TempDir::new().unwrap());
    let (_engine, router) = router(&plugins, state.path(), "").await;
    // A module with one memory of 2,000 pages.
    let large = component(b"\0asm\x01\0\0\0\x05\x04\x01\x00\xd0\x0f", true);
    plugins.put("mine", &large);
    let entry = router.plugin_refused("mine", &digest(&large)).await;
    let (initial, cap) = ((2_000 << 16).to_string(), (64 << 20).to_string());
    assert!(reason(&entry).contains(&initial) && reason(&entry).contains(&cap), "{entry}");
}

#[tokio::test]
async fn machine_code_is_refused_whatever_it_is_called() {
    let (plugins, state) = (PluginDir::new(), TempDir::new().unwrap());
    let (_engine, router) = router(&plugins, state.path(), "").await;
    let sealed = compile(&guest("prefers-a"));
    let elf = sealed.windows(4).position(|bytes| bytes == b"\x7fELF").expect("compiled code is an ELF file");
    for (what, bytes, words) in [
        ("as wasmtime makes it", &sealed[elf..], "machine code"),
        ("as the cache holds it", &sealed[..], "not a WebAssembly file"),
    ] {
        plugins.put("mine", bytes);
        let entry = router.plugin_refused("mine", &digest(bytes)).await;
        assert!(reason(&entry).contains(words), "{what}: {entry}");
    }
    assert_eq!((compiled(&router, "child").await, compiled(&router, "cache").await), (0.0, 0.0));
}

/// What the hidden command makes of a component.
fn compile(component: &[u8]) -> Vec<u8> {
    let mut child = Command::new(places::router())
        .args(["plugin", "compile", "--cpu-s", "60", "--memory-mib", "4096"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It reads to the end before it writes.
    child.stdin.take().unwrap().write_all(component).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}
