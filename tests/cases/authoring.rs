//! What an author's tools say of a plugin.

use std::fs;
use std::process::Command;

use sluicegate_tests::{Value, builtin, digest, guest, places};
use tempfile::TempDir;

/// `sluicegate plugin COMMAND FILE.wasm FLAGS…`: its exit code and what it said on stdout.
fn plugin(command: &str, bytes: &[u8], flags: &[&str]) -> (Option<i32>, String) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("mine.wasm");
    fs::write(&file, bytes).unwrap();
    let output =
        Command::new(places::router()).args(["plugin", command]).arg(&file).args(flags).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (
        output.status.code(),
        if flags.contains(&"--json") { stdout.into_owned() } else { format!("{stdout}{stderr}") },
    )
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_plugin_can_be_inspected() {
    let bytes = builtin("prefix-affinity");
    let (code, said) = plugin("inspect", &bytes, &["--json"]);
    let found = json(&said);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(found["digest"], digest(&bytes));
    assert_eq!(found["bytes"], bytes.len());
    assert_eq!((&found["file"], &found["signature"]), (&"mine".into(), &"absent".into()));
    assert!(found["stages"].as_array().unwrap().contains(&"scorer".into()), "{said}");
    assert_eq!(found["contract"]["found"][0], found["contract"]["host"], "{said}");
    assert!(found["columns"].as_array().unwrap().contains(&"load.requests".into()), "{said}");
    assert!(found["config_schema"]["properties"].is_object(), "{said}");
    let imports = found["imports"].as_array().unwrap();
    let view = imports.iter().find(|one| one["name"].as_str().unwrap().contains("policy/view@")).unwrap();
    let functions = view["functions"].as_array().unwrap();
    assert!(functions.contains(&"[method]endpoints.columns".into()), "{said}");
    assert!(found["memories"][0]["initial_bytes"].as_u64().unwrap() >= 65_536, "{said}");
    assert!(
        found["instance_bytes"].as_u64().unwrap() >= found["memories"][0]["initial_bytes"].as_u64().unwrap()
    );

    let (code, said) = plugin("inspect", &bytes, &[]);
    assert_eq!(code, Some(0), "{said}");
    for line in ["name      mine", "stages    scorer", "signature absent", "memory    "] {
        assert!(said.contains(line), "{line} is not in: {said}");
    }
}

#[test]
fn what_is_refused_is_shown_as_far_as_it_can_be() {
    let (code, said) = plugin("inspect", &guest("wrong-version"), &["--json"]);
    let found = json(&said);
    assert_eq!(code, Some(1), "{said}");
    assert_ne!(found["contract"]["found"][0], found["contract"]["host"], "{said}");
    assert!(found["refused"].as_str().unwrap().contains("rebuild with sluicegate-sdk"), "{said}");

    let (code, said) = plugin("inspect", &guest("traps-at-once"), &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("version   1.0.0") && said.contains("refused: its scorer fails a trial call"),
        "{said}"
    );

    let (code, said) = plugin("inspect", b"no plugin", &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("size      9 bytes") && said.contains("not a WebAssembly file"), "{said}");
}

#[test]
fn the_default_plugins_stand_the_test() {
    for name in ["prefix-affinity", "fairness", "pd-split"] {
        // In a debug build on a busy machine nobody's time is what is tested.
        let flags = ["--json", "--calls", "2000", "--deadline-ms", "1000"];
        let (code, said) = plugin("test", &builtin(name), &flags);
        let report = json(&said);
        let failed: Vec<_> =
            report["checks"].as_array().unwrap().iter().filter(|check| check["ok"] != true).collect();
        assert!(failed.is_empty(), "{name}: {failed:#?}");
        assert_eq!((code, &report["ok"], &report["failures"]), (Some(0), &true.into(), &0.into()));
        assert_eq!(report["timing"][0]["endpoints"], 16, "{said}");
    }
}

/// The checks that fail for a guest.
fn failures(name: &str, flags: &[&str]) -> Vec<(String, String)> {
    let flags = [&["--json"], flags].concat();
    let (code, said) = plugin("test", &guest(name), &flags);
    assert_eq!(code, Some(1), "{said}");
    let report = json(&said);
    let failed = report["checks"].as_array().unwrap().iter().filter(|check| check["ok"] != true);
    failed
        .map(|check| {
            (check["check"].as_str().unwrap().to_owned(), check["detail"].as_str().unwrap().to_owned())
        })
        .collect()
}

#[test]
fn a_plugin_that_fails_in_service_fails_the_test() {
    for (name, reason) in [
        ("traps", "trap"),
        ("nan", "not_finite"),
        ("wrong-length", "wrong_length"),
        ("out-of-range", "out_of_range"),
    ] {
        let failed = failures(name, &["--calls", "100"]);
        let ordinary = failed.iter().find(|(check, _)| check == "ordinary");
        assert!(ordinary.is_some_and(|(_, why)| why.starts_with(reason)), "{name}: {failed:?}");
    }
}

#[test]
fn a_plugin_that_remembers_is_told_so() {
    let failed = failures("remembers", &["--calls", "20000", "--deadline-ms", "1000"]);
    let why = |check: &str| failed.iter().find(|(failed, _)| failed == check).map(|(_, why)| why.as_str());
    assert!(why("any instance answers the same").is_some_and(|why| why.contains("`store`")), "{failed:?}");
    assert!(why("memory over 20000 calls").is_some_and(|why| why.contains("bytes a call")), "{failed:?}");
    assert_eq!(failed.len(), 2, "{failed:?}");
}

#[test]
fn a_call_over_the_deadline_fails_the_test() {
    let failed = failures("loops", &["--calls", "1"]);
    let why = failed.iter().find(|(check, _)| check == "time at 16 candidates").map(|(_, why)| why.as_str());
    assert!(why.is_some_and(|why| why.contains("deadline") && why.contains("5000 \u{b5}s")), "{failed:?}");
}

#[test]
fn the_report_for_people_has_a_line_a_check() {
    let (code, said) = plugin("test", &guest("traps-at-once"), &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with("FAIL  plugin  loads  its scorer fails a trial call"), "{said}");
    assert!(said.ends_with("1 check, 1 failed\n"), "{said}");
    let (code, said) = plugin("test", &guest("bad-config"), &["--config", "{"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("--config: is no JSON"), "{said}");
}

#[test]
fn a_file_over_which_the_process_ends_is_told_in_words() {
    let bytes = include_bytes!("../../fuzz/regressions/wrap/packages-in-a-circle");
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("circle.wasm");
    fs::write(&file, bytes).unwrap();
    for command in ["inspect", "test"] {
        let output = Command::new(places::router()).args(["plugin", command]).arg(&file).output().unwrap();
        let problem = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{command}: {problem}");
        assert!(problem.contains("circle.wasm: the core module cannot be made a component"), "{problem}");
    }
}
