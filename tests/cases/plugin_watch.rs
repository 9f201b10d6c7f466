//! The directory itself: mounted, moved, closed, crowded; and systems that send no events of it.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use sluicegate_tests::{Engine, PluginDir, Router, RouterBuilder, builtin, digest, guest, wait};

const NAME: &str = "prefix-affinity";
/// Far above what any test waits: where it is set, what is noticed was noticed by events.
const NO_POLL: &str = "[plugins]\npoll_ms = 3600000\n";
/// Where no event tells of a change, it is seen at the next look.
const POLL: &str = "[plugins]\npoll_ms = 100\n";

/// The two versions, and their digests.
fn versions() -> ([Vec<u8>; 2], [String; 2]) {
    let versions = [guest("prefers-a"), guest("prefers-b")];
    let digests = [digest(&versions[0]), digest(&versions[1])];
    (versions, digests)
}

fn router(engine: &Engine, settings: &str) -> RouterBuilder {
    Router::with(format!("{settings}[[pool]]\nname = \"p\"\nendpoints = [\"{}\"]\n", engine.url()))
}

async fn directory_of(router: &Router) -> sluicegate_tests::Value {
    router.admin_json("/plugins").await["directory"].clone()
}

async fn problem_is_shown(router: &Router) {
    wait::until("the problem is shown", async || directory_of(router).await["problem"].is_string()).await;
    assert_eq!(router.metric("sluicegate_plugin_directory_listed", &[]).await, 0.0);
    assert_eq!(
        router.log().matches("cannot be listed; what is in force stays").count(),
        1,
        "{}",
        router.log()
    );
}

async fn problem_is_over(router: &Router) {
    wait::until("the problem is over", async || directory_of(router).await["problem"].is_null()).await;
    assert_eq!(router.metric("sluicegate_plugin_directory_listed", &[]).await, 1.0);
}

/// Takes the rights away by which the superuser reads whatever it likes.
fn as_anybody(router: RouterBuilder) -> RouterBuilder {
    let root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    if root {
        router.through(&["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--"])
    } else {
        router
    }
}

/// Fills a folder as the kubelet fills a mounted configuration: the files in a folder of its own, `..data`
/// leading there, and a link for each file that goes through it. Replaced by one rename of `..data`.
fn mount(directory: &Path, revision: &str, files: &[(&str, &[u8])]) {
    let folder = directory.join(revision);
    fs::create_dir(&folder).unwrap();
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).unwrap();
    }
    symlink(revision, directory.join("..data_tmp")).unwrap();
    fs::rename(directory.join("..data_tmp"), directory.join("..data")).unwrap();
    for (name, _) in files {
        let _there_already = symlink(format!("..data/{name}"), directory.join(name));
    }
}

#[tokio::test]
async fn mounted_configuration_is_taken_whole() {
    let engine = Engine::start().await;
    let ([a, b], digests) = versions();
    let plugins = PluginDir::new();
    mount(plugins.path(), "..1", &[("mine.wasm", &a), ("mine.toml", b"weight = 1.0\n")]);
    let router = router(&engine, NO_POLL).plugins(&plugins).start().await;
    router.plugin_runs("mine", &digests[0]).await;

    mount(plugins.path(), "..2", &[("mine.wasm", &b), ("mine.toml", b"weight = 2.0\n")]);
    fs::remove_dir_all(plugins.path().join("..1")).unwrap();
    let mut seen = BTreeSet::new();
    wait::until("the second revision is in force", async || {
        let plugin = router.plugin("mine").await.unwrap();
        seen.insert((plugin["digest"].as_str().unwrap().to_owned(), plugin["weight"].to_string()));
        plugin["digest"] == digests[1]
    })
    .await;
    let revisions = [(digests[0].clone(), "1.0".to_owned()), (digests[1].clone(), "2.0".to_owned())];
    assert!(seen.iter().all(|one| revisions.contains(one)), "{seen:?}");
}

#[tokio::test]
async fn a_plugin_and_its_settings_are_taken_together() {
    let engine = Engine::start().await;
    let ([a, b], digests) = versions();
    let plugins = PluginDir::new();
    plugins.put_file("mine.toml", b"weight = 1.0\n");
    plugins.put("mine", &a);
    let router = router(&engine, NO_POLL).plugins(&plugins).start().await;
    plugins.put("mine", &b);
    plugins.put_file("mine.toml", b"weight = 2.0\n");
    assert_eq!(router.plugin_runs("mine", &digests[1]).await["weight"], 2.0);
    plugins.put_file("mine.toml", b"weight = 1.0\n");
    plugins.put("mine", &a);
    assert_eq!(router.plugin_runs("mine", &digests[0]).await["weight"], 1.0);
}

#[tokio::test]
async fn a_file_that_is_touched_is_the_same_version() {
    let engine = Engine::start().await;
    let ([a, _], digests) = versions();
    let plugins = PluginDir::new();
    plugins.put(NAME, &a);
    let router = router(&engine, NO_POLL).plugins(&plugins).start().await;
    let before = router.plugin_runs(NAME, &digests[0]).await;
    let set = router.metric("sluicegate_policy_set_generation", &[]).await;
    let path = plugins.path().join(format!("{NAME}.wasm"));
    fs::File::options().write(true).open(&path).unwrap().set_modified(std::time::SystemTime::now()).unwrap();
    plugins.put(NAME, &a);
    // By then it has settled: what changed later did.
    plugins.put("other", &a);
    router.plugin_runs("other", &digests[0]).await;
    assert_eq!(router.plugin(NAME).await.unwrap()["generation"], before["generation"]);
    assert_eq!(router.metric("sluicegate_policy_set_generation", &[]).await, set + 1.0);
}

#[tokio::test]
async fn a_directory_that_is_gone_changes_nothing_until_it_is_back() {
    let engine = Engine::start().await;
    let ([a, b], digests) = versions();
    let folder = PluginDir::new();
    let (parent, away) = (folder.path().join("parent"), folder.path().join("away"));
    let directory = parent.join("plugins");
    let file = directory.join(format!("{NAME}.wasm"));

    // It is not there at the start, nor is what it is in.
    let router = router(&engine, POLL).plugins_at(&directory).start().await;
    problem_is_shown(&router).await;
    router.plugin_runs(NAME, &digest(&builtin(NAME))).await;
    fs::create_dir_all(&directory).unwrap();
    fs::write(&file, &a).unwrap();
    router.plugin_runs(NAME, &digests[0]).await;
    problem_is_over(&router).await;

    fs::rename(&parent, &away).unwrap();
    wait::until("it is missed", async || directory_of(&router).await["problem"].is_string()).await;
    wait::never("it is not in force", async || router.plugin(NAME).await.unwrap()["digest"] != digests[0])
        .await;
    // Another directory is at its place, with another file.
    fs::create_dir_all(&directory).unwrap();
    fs::write(&file, &b).unwrap();
    router.plugin_runs(NAME, &digests[1]).await;
    problem_is_over(&router).await;

    // A file that is missing in a directory was removed.
    fs::remove_dir_all(&directory).unwrap();
    fs::create_dir(&directory).unwrap();
    router.plugin_runs(NAME, &digest(&builtin(NAME))).await;
}

#[tokio::test]
async fn events_come_from_a_directory_that_was_made_again() {
    let engine = Engine::start().await;
    let ([a, b], digests) = versions();
    let folder = PluginDir::new();
    let directory = folder.path().join("plugins");
    let put = |bytes: &[u8]| fs::write(directory.join(format!("{NAME}.wasm")), bytes).unwrap();
    fs::create_dir(&directory).unwrap();
    let router = router(&engine, POLL).plugins_at(&directory).start().await;
    for _ in 0..3 {
        put(&a);
        router.plugin_runs(NAME, &digests[0]).await;
        fs::remove_dir_all(&directory).unwrap();
        fs::create_dir(&directory).unwrap();
        put(&b);
        router.plugin_runs(NAME, &digests[1]).await;
    }
    wait::until("it is watched", async || directory_of(&router).await["noticed_by"] == "events").await;
}

#[tokio::test]
async fn a_link_to_a_directory_is_followed_where_it_leads() {
    let engine = Engine::start().await;
    let (versions, digests) = versions();
    let folder = PluginDir::new();
    let link = folder.path().join("plugins");
    for (number, bytes) in versions.iter().enumerate() {
        let directory = folder.path().join(format!("v{number}"));
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join(format!("{NAME}.wasm")), bytes).unwrap();
    }
    let lead_to = |target: &str| {
        let next = folder.path().join("next");
        symlink(target, &next).unwrap();
        fs::rename(next, &link).unwrap();
    };
    lead_to("v0");
    let router = router(&engine, POLL).plugins_at(&link).start().await;
    router.plugin_runs(NAME, &digests[0]).await;
    lead_to("v1");
    router.plugin_runs(NAME, &digests[1]).await;
    // Now it leads nowhere.
    lead_to("v2");
    problem_is_shown(&router).await;
    assert_eq!(router.plugin(NAME).await.unwrap()["digest"], digests[1]);
}

#[tokio::test]
async fn a_closed_directory_and_a_closed_file_change_nothing() {
    let engine = Engine::start().await;
    let ([a, b], digests) = versions();
    let plugins = PluginDir::new();
    plugins.put(NAME, &a);
    let file = plugins.path().join(format!("{NAME}.wasm"));
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let router = as_anybody(router(&engine, NO_POLL)).plugins(&plugins).start().await;
    router.plugin_runs(NAME, &digests[0]).await;

    mode(plugins.path(), 0o000);
    problem_is_shown(&router).await;
    assert_eq!(router.plugin(NAME).await.unwrap()["digest"], digests[0]);
    mode(plugins.path(), 0o700);
    problem_is_over(&router).await;

    let refused = |why: &'static str| {
        let router = &router;
        async move {
            let reason = async || router.plugin(NAME).await.unwrap()["refused"]["reason"].to_string();
            wait::until(why, async || reason().await.contains("cannot be read")).await;
            router.plugin(NAME).await.unwrap()
        }
    };
    // It can be listed, and nothing in it can be looked at.
    mode(plugins.path(), 0o400);
    assert_eq!(refused("the directory is closed").await["digest"], digests[0]);
    mode(plugins.path(), 0o700);
    wait::until("it is open", async || router.plugin(NAME).await.unwrap()["refused"].is_null()).await;

    let closed = plugins.path().join(".next");
    fs::write(&closed, &b).unwrap();
    mode(&closed, 0o000);
    fs::rename(&closed, &file).unwrap();
    assert_eq!(refused("the file is closed").await["digest"], digests[0]);
    mode(&file, 0o600);
    router.plugin_runs(NAME, &digests[1]).await;
}

#[tokio::test]
async fn thousands_of_other_files_cost_little_and_mistaken_names_are_told_once() {
    let engine = Engine::start().await;
    let (versions, digests) = versions();
    let plugins = PluginDir::new();
    for number in 0..10_000 {
        fs::write(plugins.path().join(format!("junk-{number}.txt")), "").unwrap();
    }
    for name in ["a b.wasm", "UPPER.WASM", "c.next.next.wasm"] {
        plugins.put_file(name, b"");
    }
    let router = router(&engine, POLL).plugins(&plugins).start().await;
    for swap in 0..4 {
        plugins.put(NAME, &versions[swap % 2]);
        router.plugin_runs(NAME, &digests[swap % 2]).await;
    }
    let log = router.log();
    assert_eq!(log.matches("is left alone").count(), 3, "{log}");
    assert!(!log.contains("junk"), "{log}");
}

#[tokio::test]
async fn a_directory_in_which_nothing_happens_is_left_in_peace() {
    let engine = Engine::start().await;
    let plugins = PluginDir::new();
    let router = router(&engine, "").plugins(&plugins).start().await;
    wait::until("it is watched", async || directory_of(&router).await["noticed_by"] == "events").await;
    let before = router.sleeps_of("plugin-watch");
    // Looking is an event too; it must not lead to another look.
    let look = fs::read_dir(plugins.path()).unwrap().count();
    assert_eq!(look, 0);
    let begin = std::time::Instant::now();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let looks = router.sleeps_of("plugin-watch") - before;
    let most = 4 + 2 * begin.elapsed().as_secs();
    assert!(looks <= most, "{looks} times in {:?}", begin.elapsed());
}

#[tokio::test]
async fn it_can_be_polled() {
    let engine = Engine::start().await;
    let (versions, digests) = versions();
    let plugins = PluginDir::new();
    let settings = "[plugins]\nwatch = \"poll\"\npoll_ms = 100\n";
    let router = router(&engine, settings).plugins(&plugins).start().await;
    for (bytes, digest) in versions.iter().zip(&digests) {
        plugins.put(NAME, bytes);
        router.plugin_runs(NAME, digest).await;
    }
    plugins.remove(NAME);
    router.plugin_runs(NAME, &digest(&builtin(NAME))).await;
    let directory = directory_of(&router).await;
    assert_eq!((&directory["noticed_by"], &directory["poll_ms"]), (&"polling".into(), &100.into()));
}

#[tokio::test]
async fn a_system_without_events_is_polled_and_told_of_once() {
    // In a namespace of its own that grants none.
    let none = "echo 0 > /proc/sys/user/max_inotify_instances && exec \"$@\"";
    let through = ["unshare", "--user", "--map-root-user", "sh", "-c", none, "sh"];
    if !Command::new(through[0]).args(&through[1..]).arg("true").status().is_ok_and(|status| status.success())
    {
        eprintln!("SKIPPED: this system makes no user namespaces (`unshare --user`)");
        return;
    }
    let engine = Engine::start().await;
    let (versions, digests) = versions();
    let plugins = PluginDir::new();
    let router = router(&engine, POLL).plugins(&plugins).through(&through).start().await;
    for (bytes, digest) in versions.iter().zip(&digests) {
        plugins.put(NAME, bytes);
        router.plugin_runs(NAME, digest).await;
    }
    assert_eq!(directory_of(&router).await["noticed_by"], "polling");
    let log = router.log();
    assert_eq!(log.matches("the system gives no events").count(), 1, "{log}");
}
