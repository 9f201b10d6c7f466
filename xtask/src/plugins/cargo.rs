//! The call of cargo.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::toolchain::{TARGET, Toolchain};
use super::{Error, What};

/// Settings of the outer build that must not reach this one: flags for the machine's own architecture, wrappers
/// such as clippy's, and places.
const FOREIGN: &[&str] = &[
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_BUILD_TARGET_DIR",
    "CARGO_TARGET_DIR",
    "CARGO_INCREMENTAL",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_BUILD_RUSTC_WRAPPER",
    "CARGO_BUILD_RUSTC_WORKSPACE_WRAPPER",
];

/// Crates of one workspace that become components.
pub(super) struct Job {
    /// Names of the components, sorted.
    pub(super) names: Vec<String>,
    /// Where they go.
    pub(super) output: PathBuf,
    root: PathBuf,
    manifest: PathBuf,
    target_dir: PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Packages of the workspace.
    Packages,
    /// Examples of one package.
    Examples,
}

impl Job {
    pub(super) fn new(workspace: &Path, what: What) -> Result<Self, Error> {
        let target = workspace.join("target");
        let (names, output, manifest, kind) = match what {
            What::Defaults => {
                let names = entries(&workspace.join("plugins"), |path| {
                    path.join("Cargo.toml").is_file().then(|| path.file_name().map(OsString::from))?
                })?;
                (names, target.join("plugins"), workspace.join("Cargo.toml"), Kind::Packages)
            }
            What::Guests(names) => {
                let guests = workspace.join("tests").join("guests");
                let known = entries(&guests.join("examples"), |path| {
                    path.extension()
                        .is_some_and(|end| end == "rs")
                        .then(|| path.file_stem().map(OsString::from))?
                })?;
                let names = chosen(names, known)?;
                (names, target.join("guests-wasm"), guests.join("Cargo.toml"), Kind::Examples)
            }
        };
        Ok(Self { names, output, root: workspace.into(), manifest, target_dir: target.join("guests"), kind })
    }

    /// The module that cargo leaves of a component.
    pub(super) fn module(&self, name: &str) -> PathBuf {
        let directory = self.target_dir.join(TARGET).join("plugin");
        match self.kind {
            // A library's file has the name of its crate, an example's that of the example.
            Kind::Packages => directory.join(format!("{}.wasm", name.replace('-', "_"))),
            Kind::Examples => directory.join("examples").join(format!("{}.wasm", name.replace('-', "_"))),
        }
    }
}

fn entries(directory: &Path, name: impl Fn(&Path) -> Option<OsString>) -> Result<Vec<String>, Error> {
    let found = fs::read_dir(directory).map_err(Error::io(format!("cannot read {}", directory.display())))?;
    let names = found.filter_map(|entry| name(&entry.ok()?.path())?.into_string().ok());
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    Ok(names)
}

fn chosen(names: Vec<String>, known: Vec<String>) -> Result<Vec<String>, Error> {
    match names.iter().find(|name| !known.contains(name)) {
        Some(name) => Err(Error::UnknownGuest { name: name.clone(), known: known.join(", ") }),
        None if names.is_empty() => Ok(known),
        None => {
            let mut names = names;
            names.sort_unstable();
            names.dedup();
            Ok(names)
        }
    }
}

/// Keeps the settings of the outer build out of a call of cargo.
pub(crate) fn without_foreign_settings(cargo: &mut Command) {
    for name in FOREIGN {
        cargo.env_remove(name);
    }
}

/// Lets cargo build the modules of a job.
pub(super) fn run(job: &Job, toolchain: &Toolchain) -> Result<(), Error> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    without_foreign_settings(&mut cargo);
    cargo.current_dir(&job.root).env("CARGO_ENCODED_RUSTFLAGS", flags(job));
    cargo.args(["build", "--quiet", "--profile", "plugin", "--target", TARGET]);
    cargo.arg("--manifest-path").arg(&job.manifest).arg("--target-dir").arg(&job.target_dir);
    // Reads the configuration, once: small is all it has to be.
    for package in ["serde_json", "strsim"] {
        cargo.args(["--config", &format!("profile.plugin.package.{package}.opt-level=\"s\"")]);
    }
    let kind = match job.kind {
        Kind::Packages => "--package",
        Kind::Examples => "--example",
    };
    cargo.args(job.names.iter().flat_map(|name| [kind, name]));
    toolchain.apply(&mut cargo);
    let status = cargo.status().map_err(Error::io("cannot run cargo"))?;
    if status.success() { Ok(()) } else { Err(Error::Cargo(job.names.join(", "))) }
}

/// Panics name their files: without the directories of this machine, so that the same source makes the same
/// bytes everywhere.
fn flags(job: &Job) -> OsString {
    let mut flags = OsString::new();
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| env::home_dir().map(|home| home.join(".cargo")));
    let remapped = [(Some(job.root.clone()), "/sluicegate"), (home, "/cargo")];
    for (from, to) in remapped.into_iter().filter_map(|(from, to)| Some((from?, to))) {
        if !flags.is_empty() {
            flags.push("\u{1f}");
        }
        flags.push("--remap-path-prefix=");
        flags.push(from);
        flags.push("=");
        flags.push(to);
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_guest_is_answered_with_those_that_exist() {
        let error = chosen(vec!["lops".into()], vec!["loops".into(), "traps".into()]).unwrap_err();
        assert_eq!(error.to_string(), "no guest is named `lops`; there are loops, traps");
    }

    #[test]
    fn no_names_are_all_of_them() {
        assert_eq!(chosen(Vec::new(), vec!["loops".into()]).unwrap(), ["loops"]);
    }
}
