//! Rust with nothing but the bindings: without a system interface, which is the measure for the others, and with
//! that of `wasm32-wasip2`.

use std::fs;

use super::{Language, Places};
use crate::error::Error;
use crate::plugins;
use crate::run::{cargo, run};
use crate::workspace::Workspace;

const SOURCES: &[&str] = &["src/lib.rs", "Cargo.toml", "Cargo.lock", "../../../rust-toolchain.toml"];

pub(super) const BARE: Language = Language {
    name: "rust",
    folder: "rust",
    sources: SOURCES,
    install: "rustup target add wasm32-unknown-unknown",
    prepare: |workspace, _| target(workspace, "wasm32-unknown-unknown"),
    build: |workspace, places| {
        let module = build(workspace, places, "wasm32-unknown-unknown")?;
        plugins::pack(&module, &places.component)?;
        Ok(())
    },
};

pub(super) const WASIP2: Language = Language {
    name: "rust-wasip2",
    folder: "rust",
    sources: SOURCES,
    install: "rustup target add wasm32-wasip2",
    prepare: |workspace, _| target(workspace, "wasm32-wasip2"),
    // The linker of this target leaves a component.
    build: |workspace, places| {
        let component = build(workspace, places, "wasm32-wasip2")?;
        fs::copy(component, &places.component)
            .map(drop)
            .map_err(Error::io(format!("cannot write {}", places.component.display())))
    },
};

fn target(workspace: &Workspace, target: &'static str) -> Result<(), Error> {
    plugins::ensure_target(workspace.root(), target).map_err(|problem| Error::NoTarget { target, problem })
}

fn build(workspace: &Workspace, places: &Places, target: &str) -> Result<std::path::PathBuf, Error> {
    let made = workspace.made("languages").join("cargo");
    let mut build =
        cargo(workspace, &["build", "--quiet", "--locked", "--profile", "plugin", "--target", target]);
    plugins::without_foreign_settings(&mut build);
    build.arg("--manifest-path").arg(places.source.join("Cargo.toml")).arg("--target-dir").arg(&made);
    run(&mut build)?;
    Ok(made.join(target).join("plugin/least_requests.wasm"))
}
