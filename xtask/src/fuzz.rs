//! The fuzz targets of `fuzz/`, built with instrumentation and run for a while.
//!
//! They are libFuzzer programs in cargo-fuzz's layout, built by the pinned stable toolchain: what makes them
//! cover code is a pass of the compiler that `fuzz/rustc.sh` asks for. All that is compiled for other purposes
//! is used again.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::plugins::{self, What};
use crate::run::{cargo, run, say};
use crate::workspace::Workspace;

/// The targets.
const TARGETS: [&str; 8] =
    ["load", "kv_events", "prompt", "snapshot", "answer", "splice", "metrics", "config"];
/// Bytes of an input. The guests of the tests have some tens of thousands.
const MAX_LEN: usize = 300_000;
/// Seconds that one input may take. Loading is bounded to some five of CPU time, and machines are busy.
const TIMEOUT: u32 = 60;
/// Megabytes that the process may hold over all inputs: what leaks shows here.
const MEMORY: u32 = 2_048;

/// What is fuzzed, and for how long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// The target.
    pub(crate) target: String,
    /// For how long.
    pub(crate) minutes: u32,
}

impl Options {
    /// Reads `TARGET [--minutes N]`.
    ///
    /// # Errors
    /// [`Error::Usage`] when it makes no sense.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, Error> {
        let usage = |problem: &str| Err(Error::Usage(format!("`fuzz`: {problem}")));
        let (target, minutes) = match arguments {
            [target] => (target, "5"),
            [target, flag, minutes] if flag == "--minutes" => (target, &**minutes),
            _ => return usage("a target and maybe --minutes N"),
        };
        if !TARGETS.contains(&&**target) {
            return usage(&format!("no target is named `{target}`; there are {TARGETS:?}"));
        }
        match minutes.parse() {
            Ok(minutes) => Ok(Self { target: target.clone(), minutes }),
            Err(_) => usage(&format!("`{minutes}` is no number of minutes")),
        }
    }
}

/// Builds a target and runs it; what it finds is left in `fuzz/artifacts`.
///
/// # Errors
/// When a step fails, or something is found.
pub(crate) fn run_fuzz(workspace: &Workspace, options: &Options) -> Result<(), Error> {
    let Options { target, minutes } = options;
    // The build embeds them, whatever is fuzzed.
    plugins::build(workspace.root(), What::Defaults)?;
    let fuzz = workspace.root().join("fuzz");
    let mut folders = vec![fuzz.join("regressions").join(target)];
    if target == "load" {
        plugins::build(workspace.root(), What::Guests(Vec::new()))?;
        folders.push(seeds(workspace)?);
    }
    let build = ["build", "--bin", target, "--manifest-path", "fuzz/Cargo.toml", "--target-dir", "target"];
    run(cargo(workspace, &build).env("RUSTC_WRAPPER", fuzz.join("rustc.sh")))?;
    let corpus = fuzz.join("corpus").join(target);
    let artifacts = fuzz.join("artifacts").join(target);
    for folder in [&corpus, &artifacts] {
        fs::create_dir_all(folder).map_err(Error::io(format!("cannot create {}", folder.display())))?;
    }
    say(format!("what is found goes to {}", artifacts.display()));
    let mut fuzzer = std::process::Command::new(workspace.root().join("target").join("debug").join(target));
    fuzzer
        .arg(format!("-max_total_time={}", u64::from(*minutes) * 60))
        .arg(format!("-max_len={MAX_LEN}"))
        .arg(format!("-timeout={TIMEOUT}"))
        .arg(format!("-rss_limit_mb={MEMORY}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg("-print_final_stats=1")
        .arg(&corpus)
        .args(folders);
    run(&mut fuzzer)
}

/// A folder with every plugin of the project, as core modules and as components.
fn seeds(workspace: &Workspace) -> Result<PathBuf, Error> {
    let seeds = workspace.made("fuzz-seeds");
    fs::create_dir_all(&seeds).map_err(Error::io(format!("cannot create {}", seeds.display())))?;
    let modules = workspace.made("guests").join("wasm32-unknown-unknown").join("plugin");
    let folders = [
        ("component", workspace.made("plugins")),
        ("component", workspace.made("guests-wasm")),
        ("module", modules.clone()),
        ("module", modules.join("examples")),
    ];
    for (kind, folder) in folders {
        for file in plugins_in(&folder)? {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let seed = seeds.join(format!("{kind}-{name}"));
            fs::copy(&file, &seed).map_err(Error::io(format!("cannot write {}", seed.display())))?;
        }
    }
    Ok(seeds)
}

fn plugins_in(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(folder).map_err(Error::io(format!("cannot read {}", folder.display())))?;
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    // Cargo leaves every module of an example a second time, with a hash at the end of its name.
    let is_plugin = |file: &PathBuf| {
        let hashed = |stem: &str| stem.rsplit_once('-').is_some_and(|(_, hash)| hash.len() == 16);
        file.extension().is_some_and(|kind| kind == "wasm")
            && !file.file_stem().and_then(|stem| stem.to_str()).is_some_and(hashed)
    };
    Ok(files.filter(is_plugin).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, Error> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_target_that_exists_and_a_number_of_minutes() {
        assert_eq!(parsed("load --minutes 30").unwrap(), Options { target: "load".into(), minutes: 30 });
        assert_eq!(parsed("kv_events").unwrap(), Options { target: "kv_events".into(), minutes: 5 });
        for line in ["", "laod", "load 30", "load --minutes soon"] {
            assert_eq!(parsed(line).unwrap_err().exit_code(), 2, "{line}");
        }
    }
}
