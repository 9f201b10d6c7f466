//! A compiler for WebAssembly: whatever this machine has, or can get.

mod debian;

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use super::Error;
use debian::Debian;

/// The target: no system interface, so a module imports what it names and nothing else.
pub(super) const TARGET: &str = "wasm32-unknown-unknown";

/// A way to compile for [`TARGET`].
pub(super) enum Toolchain {
    /// The active toolchain has the target.
    Active,
    /// Debian's compiler, which brings no built standard library but its source.
    Debian(Debian),
}

/// Finds a way, and gets one where there is none.
///
/// # Errors
/// When there is none and none can be had.
pub(super) fn find(workspace: &Path) -> Result<Toolchain, Error> {
    let rustup = match ensure_target(workspace, TARGET) {
        Ok(()) => return Ok(Toolchain::Active),
        Err(problem) => problem,
    };
    match Debian::find_or_install() {
        Ok(debian) => Ok(Toolchain::Debian(debian)),
        Err(problem) => Err(Error::NoToolchain { rustup, debian: problem }),
    }
}

/// Has the active toolchain compile for a target, with the help of rustup where it is needed.
///
/// # Errors
/// What became of rustup.
pub(crate) fn ensure_target(workspace: &Path, target: &str) -> Result<(), String> {
    if has_target(workspace, target) {
        return Ok(());
    }
    add_target(workspace, target)?;
    if has_target(workspace, target) {
        Ok(())
    } else {
        Err("added, but the active compiler is not rustup's".to_owned())
    }
}

impl Toolchain {
    /// What it is, for people.
    pub(super) fn describe(&self) -> &'static str {
        match self {
            Self::Active => "the active toolchain",
            Self::Debian(_) => {
                "Debian's rustc-web and a standard library of our own (minutes the first time)"
            }
        }
    }

    /// Makes a call of cargo use it.
    pub(super) fn apply(&self, cargo: &mut Command) {
        match self {
            Self::Active => {}
            Self::Debian(debian) => debian.apply(cargo),
        }
    }
}

/// Whether the active compiler has a standard library for the target, whoever installed it.
fn has_target(workspace: &Path, target: &str) -> bool {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let directory = output(Command::new(rustc).current_dir(workspace).args([
        "--print",
        "target-libdir",
        "--target",
        target,
    ]));
    let files = directory.and_then(|directory| std::fs::read_dir(directory.trim()).ok());
    files
        .into_iter()
        .flatten()
        .flatten()
        .any(|file| file.file_name().to_string_lossy().starts_with("libstd-"))
}

fn add_target(workspace: &Path, target: &str) -> Result<(), String> {
    let mut rustup = Command::new("rustup");
    // Offline this has to fail at once, not after some rounds of waiting.
    rustup.current_dir(workspace).args(["target", "add", target]).env("RUSTUP_MAX_RETRIES", "0");
    eprintln!("xtask: the active toolchain has no {target}; asking rustup for it");
    match rustup.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("it failed, which is what happens offline".into()),
        Err(error) => Err(format!("cannot run rustup: {error}")),
    }
}

/// What a program says, if it ends well.
fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8(output.stdout).ok())?
}

/// `PATH` with one more directory at its end.
fn path_with(directory: &Path) -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories = env::split_paths(&path).chain([directory.to_owned()]);
    env::join_paths(directories).unwrap_or(path)
}
