//! Builds policies into components: the default plugins, and the guests of the tests.
//!
//! Cargo makes a core module for `wasm32-unknown-unknown`, which imports nothing but what the contract offers;
//! wit-component wraps it. What cargo finds up to date stays as it is, and a `.wasm` whose bytes did not
//! change keeps its time, so that whatever embeds or watches it sees no change either.

mod cargo;
mod error;
mod pack;
mod toolchain;

use std::path::{Path, PathBuf};
use std::time::Instant;

pub(crate) use cargo::without_foreign_settings;
pub(crate) use error::Error;
pub(crate) use pack::pack;
pub(crate) use toolchain::ensure_target;

use cargo::Job;

/// What to build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// Every crate under `plugins/`, into `target/plugins/NAME.wasm`.
    Defaults,
    /// The guests of the tests with these names, or all of them, into `target/guests-wasm/NAME.wasm`.
    Guests(Vec<String>),
}

/// What was built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Built {
    /// The components, in order of their names.
    pub(crate) files: Vec<PathBuf>,
    /// How many of them are new or differ from what was there.
    pub(crate) changed: usize,
}

/// Builds components.
///
/// # Errors
/// When no toolchain for WebAssembly can be had, a crate does not compile, or a module cannot be wrapped.
pub(crate) fn build(workspace: &Path, what: What) -> Result<Built, Error> {
    let start = Instant::now();
    let job = Job::new(workspace, what)?;
    let toolchain = toolchain::find(workspace)?;
    eprintln!("xtask: building {} with {}", job.names.join(", "), toolchain.describe());
    cargo::run(&job, &toolchain)?;
    let mut built = Built { files: Vec::new(), changed: 0 };
    for name in &job.names {
        let file = job.output.join(format!("{name}.wasm"));
        built.changed += usize::from(pack(&job.module(name), &file)?);
        built.files.push(file);
    }
    eprintln!(
        "xtask: {} components in {}, {} changed, {:.1} s",
        built.files.len(),
        job.output.display(),
        built.changed,
        start.elapsed().as_secs_f32()
    );
    Ok(built)
}
