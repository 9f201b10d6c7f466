//! C by clang and the C library for WASI, of which a policy uses nothing that would import WASI.

use std::process::Command;

use super::{Language, Places, bindings};
use crate::error::Error;
use crate::machine;
use crate::plugins;
use crate::run::run;

pub(super) const C: Language = Language {
    name: "c",
    folder: "c",
    sources: &["least_requests.c"],
    install: "apt-get install clang lld wasi-libc libclang-rt-dev-wasm32",
    prepare: |_, _| machine::CLANG_WASM.ensure().map(drop),
    build: |_, places| build(places),
};

fn build(places: &Places) -> Result<(), Error> {
    bindings::generate(places, wit_bindgen_c::Opts::default().build())?;
    let module = places.work.join("least_requests.core.wasm");
    run(Command::new("clang")
        .args(machine::WASM_FLAGS)
        .args(["-O2", "-Wall", "-Wl,--strip-all", "-I"])
        .arg(&places.work)
        .arg(places.source.join("least_requests.c"))
        .args(["scorer.c", "scorer_component_type.o"].map(|name| places.work.join(name)))
        .arg("-o")
        .arg(&module))?;
    plugins::pack(&module, &places.component)?;
    Ok(())
}
