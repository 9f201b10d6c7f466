//! Flags, checks and exit codes.

use std::fs;
use std::process::{Command, Output};

use sluicegate_tests::{guest, places};
use tempfile::TempDir;

fn sluicegate(arguments: &[&str]) -> Output {
    Command::new(places::router()).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn check(config: &str) -> (Option<i32>, String) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("sluicegate.toml");
    fs::write(&file, config).unwrap();
    let output = sluicegate(&["check", "--config", file.to_str().unwrap()]);
    (output.status.code(), said(&output))
}

#[test]
fn a_good_configuration_passes_the_check() {
    let (code, said) = check("[[pool]]\nname = \"p\"\nendpoints = [\"http://127.0.0.1:1\"]\n");
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_bad_one_fails_it_with_every_error_its_line_and_the_nearest_key() {
    let (code, said) =
        check("listne = \"127.0.0.1:1\"\n[[pool]]\nname = \"p\"\nendpoint = [\"http://127.0.0.1:1\"]\n");
    assert_eq!(code, Some(1), "{said}");
    for part in ["sluicegate.toml:1", "`listen`", "sluicegate.toml:4", "`endpoints`"] {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
}

#[test]
fn usage_errors_are_told_from_bad_things() {
    assert_eq!(sluicegate(&["serve", "--no-such-flag"]).status.code(), Some(2));
    assert_eq!(sluicegate(&["no-such-command"]).status.code(), Some(2));
    assert_eq!(sluicegate(&["--version"]).status.code(), Some(0));
    assert_eq!(sluicegate(&["serve", "--config", "/nowhere/at/all.toml"]).status.code(), Some(1));
    for line in [
        &["serve"][..],
        &["check"],
        &["config", "print"],
        &["check", "--backend", "ftp://a:1"],
        &["serve", "--backend", "127.0.0.1:1", "--listen", "nonsense"],
    ] {
        let output = sluicegate(line);
        assert_eq!(output.status.code(), Some(2), "{line:?}: {}", said(&output));
    }
}

#[test]
fn a_plugin_can_be_looked_into() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("mine.wasm");
    fs::write(&file, guest("prefers-a")).unwrap();
    let output = sluicegate(&["plugin", "inspect", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("scorer"), "{}", said(&output));
    fs::write(&file, "no plugin").unwrap();
    let output = sluicegate(&["plugin", "inspect", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
}
