//! A look at one plugin's file, without taking it into service.

use std::sync::Arc;

use super::engine::{Runtime, RuntimeError};
use super::load::{Kept, LoadError, Loaded, Services};
use crate::clock::RealClock;
use crate::config::PluginConfig;
use crate::policy::{Registry, Source};

/// What a file turned out to be.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// SHA-256 of the file, hex.
    pub digest: Box<str>,
    /// Length of the file.
    pub bytes: usize,
    /// Whether it is a core module that had to be wrapped.
    pub wrapped: bool,
    /// Names of the stages that it exports.
    pub stages: Vec<&'static str>,
    /// The version that it gives itself.
    pub version: String,
    /// One line on what it does, by itself.
    pub summary: String,
    /// Factor of its scores where none is configured.
    pub default_weight: f32,
}

/// Why a file would not be taken into service.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// Nothing can be loaded here.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// This file cannot.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// Loads a plugin as the proxy would with this configuration: checks, compiles, configures and tries it out.
///
/// # Errors
/// With the words that its author would find in `GET /plugins`.
pub fn inspect(bytes: &[u8], config: &PluginConfig) -> Result<Inspection, InspectError> {
    let services = Services {
        runtime: Arc::new(Runtime::start()?),
        clock: RealClock::start(),
        registry: Arc::new(Registry::default()),
    };
    let loaded = Loaded::new(&services, bytes, Source::File, 0, config)?;
    let (_, manifest) = loaded.instances(&services, &Kept::default(), config)?;
    Ok(Inspection {
        digest: loaded.digest.clone(),
        bytes: bytes.len(),
        wrapped: !wasmparser::Parser::is_component(bytes),
        stages: loaded.stages().to_vec(),
        version: manifest.version,
        summary: manifest.summary,
        default_weight: manifest.default_weight,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_plugin_is_refused_in_words() {
        let error = inspect(b"#!/bin/sh", &PluginConfig::named("x")).unwrap_err();
        assert!(error.to_string().contains("not a WebAssembly file"), "{error}");
    }
}
