//! A look at one plugin's file, without taking it into service.

use std::sync::Arc;

use serde_json::{Value, json};

use super::anatomy::Anatomy;
use super::artifact::{Artifact, digest};
use super::component::{STAGES, VERSION};
use super::engine::{Runtime, RuntimeError};
use super::load::{Kept, LoadError, Loaded, Services};
use super::probe;
use crate::clock::RealClock;
use crate::config::PluginConfig;
use crate::policy::Source;

/// What a file turned out to be. Of one that is refused as much as could be found out.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// SHA-256 of the file, hex.
    pub digest: Box<str>,
    /// Length of the file.
    pub bytes: usize,
    /// Whether it is a core module that had to be wrapped.
    pub wrapped: bool,
    /// Imports, exports and memories.
    pub anatomy: Anatomy,
    /// What it says of itself and does with its configuration, once it has been set up.
    pub set_up: Option<SetUp>,
    /// Why it would not be taken into service, in its author's words.
    pub refused: Option<String>,
}

/// What is known of a plugin that took its configuration.
#[derive(Debug, Clone)]
pub struct SetUp {
    /// The name that it gives itself.
    pub name: String,
    /// The version that it gives itself.
    pub version: String,
    /// One line on what it does, by itself.
    pub summary: String,
    /// Factor of its scores where none is configured.
    pub default_weight: f32,
    /// JSON Schema of its configuration; null for none.
    pub schema: Value,
    /// Names of the columns that it resolved.
    pub columns: Vec<String>,
    /// Bytes of the memories of one instance, configured and not asked yet.
    pub instance_bytes: usize,
}

/// Loads a plugin as the proxy would with this configuration: checks, compiles, configures and tries it out.
///
/// # Errors
/// When nothing can be loaded here at all.
pub fn inspect(bytes: &[u8], config: &PluginConfig) -> Result<Inspection, RuntimeError> {
    let services = Services::alone(Arc::new(Runtime::start(None)?), RealClock::start());
    let mut inspection = Inspection {
        digest: digest(bytes),
        bytes: bytes.len(),
        wrapped: bytes.starts_with(b"\0asm") && !wasmparser::Parser::is_component(bytes),
        anatomy: Anatomy::default(),
        set_up: None,
        refused: None,
    };
    if let Err(error) = inspection.look(&services, bytes, config) {
        inspection.refused = Some(error.to_string());
    }
    Ok(inspection)
}

impl Inspection {
    fn look(&mut self, services: &Services, bytes: &[u8], config: &PluginConfig) -> Result<(), LoadError> {
        self.anatomy = Anatomy::of(&Artifact::read(bytes)?.component);
        let loaded = Loaded::new(services, bytes, Source::File, 0, config)?;
        let instances = loaded.untried(services, &Kept::default(), config);
        let manifest = probe::describe(&instances).map_err(LoadError::SetUp)?;
        let name = |id| services.registry.name(id).map(|name| name.to_string());
        self.set_up = Some(SetUp {
            name: manifest.name,
            version: manifest.version,
            summary: manifest.summary,
            default_weight: manifest.default_weight,
            // Shown as text when it is no JSON: its author should see what came out.
            schema: match manifest.config_schema {
                text if text.is_empty() => Value::Null,
                text => serde_json::from_str(&text).unwrap_or(Value::String(text)),
            },
            columns: instances.columns().into_iter().filter_map(name).collect(),
            instance_bytes: instances.memory_bytes().map_err(LoadError::SetUp)?,
        });
        loaded.instances(services, &Kept::default(), config).map(drop)
    }

    /// Names of the stages that it exports, whatever version of the contract they are of.
    #[must_use]
    pub fn stages(&self) -> Vec<&'static str> {
        let exports = |stage: &&str| {
            self.anatomy.exports.iter().any(|interface| {
                let name = interface.name.split('@').next().unwrap_or_default();
                name.strip_prefix(super::component::PACKAGE) == Some(*stage)
            })
        };
        STAGES.into_iter().filter(exports).collect()
    }

    /// For programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let set_up = self.set_up.as_ref();
        json!({
            "digest": self.digest, "bytes": self.bytes, "wrapped": self.wrapped,
            "stages": self.stages(),
            "contract": {"found": self.anatomy.contract(), "host": VERSION},
            "imports": self.anatomy.imports, "exports": self.anatomy.exports, "memories": self.anatomy.memories,
            "name": set_up.map(|found| &found.name),
            "version": set_up.map(|found| &found.version),
            "summary": set_up.map(|found| &found.summary),
            "default_weight": set_up.map(|found| short(found.default_weight)),
            "config_schema": set_up.map(|found| &found.schema),
            "columns": set_up.map(|found| &found.columns),
            "instance_bytes": set_up.map(|found| found.instance_bytes),
            "refused": self.refused,
        })
    }
}

/// As people write it: 0.1, not 0.10000000149.
#[must_use]
pub fn short(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_plugin_is_refused_in_words() {
        let found = inspect(b"#!/bin/sh", &PluginConfig::named("x")).unwrap();
        assert_eq!((found.bytes, found.wrapped), (9, false));
        assert!(found.refused.unwrap().contains("not a WebAssembly file"));
    }
}
