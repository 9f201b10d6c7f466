//! `sluicegate plugin inspect`

use std::path::Path;
use std::process::ExitCode;

use super::output::{bad, good};
use crate::config::{self, PluginConfig, Wasi};
use crate::plugin::inspect::{Inspection, inspect as load};

/// Loads the file as the proxy would.
pub(super) fn inspect(file: &Path, wasi_stub: bool) -> ExitCode {
    let bytes = match std::fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) => return bad(&format!("{}: cannot be read: {error}", file.display())),
    };
    let name = file.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
    let mut settings = PluginConfig::named(&name);
    if wasi_stub {
        settings.wasi = Wasi::Stub;
    }
    match config::beside(file) {
        Ok(None) => {}
        Ok(Some(beside)) => {
            settings.weight = beside.weight;
            settings.config = beside.config.unwrap_or(settings.config);
        }
        Err(errors) => return bad(&errors),
    }
    match load(&bytes, &settings) {
        Ok(found) => good(&shown(&name, &found, settings.weight)),
        Err(error) => bad(&format!("{}: refused: {error}", file.display())),
    }
}

fn shown(name: &str, found: &Inspection, weight: Option<f32>) -> String {
    let Inspection { digest, bytes, wrapped, stages, version, summary, default_weight } = found;
    let kind = if *wrapped { "a core module, made a component when it is loaded" } else { "a component" };
    format!(
        "name     {name}\nversion  {version}\nsummary  {summary}\nstages   {}\nweight   {}\nsize     {bytes} bytes, {kind}\ndigest   {digest}\n",
        stages.join(", "),
        weight.unwrap_or(*default_weight),
    )
}
