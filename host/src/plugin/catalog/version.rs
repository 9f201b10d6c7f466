//! A version of a plugin that may serve: compiled, configured and tried out for every chain that uses it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::chains::Member;
use super::super::load::{Kept, LoadError, Loaded, Services};
use super::rules::{Rules, Settings};
use crate::clock::Nanos;
use crate::policy::Plugin;
use crate::types::Arm;

/// How a version came to be in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// It is inside the binary.
    Builtin,
    /// It is what the file holds.
    File,
    /// It was a candidate.
    Promoted,
    /// A later version was rolled back, or cannot be used.
    Restored,
}

/// A version of a plugin.
pub(super) struct Version {
    pub(super) loaded: Arc<Loaded>,
    pub(super) origin: Origin,
    pub(super) settings: Settings,
    /// When it was made.
    pub(super) since: Nanos,
    /// Its policies, by chain.
    pub(super) members: BTreeMap<Box<str>, Arc<Member>>,
}

/// What a version is made of.
pub(super) struct Parts {
    pub(super) loaded: Arc<Loaded>,
    pub(super) origin: Origin,
    pub(super) settings: Settings,
    pub(super) arm: Arm,
}

impl Version {
    /// Sets up and tries out the plugin for every chain that uses it; for none where none does, so that a
    /// file that cannot serve is found out all the same.
    pub(super) fn make(
        services: &Services,
        rules: &Rules,
        kept: &Kept,
        name: &str,
        parts: Parts,
    ) -> Result<Self, LoadError> {
        let Parts { loaded, origin, settings, arm } = parts;
        let uses = rules.uses(name, &settings);
        if uses.is_empty() {
            Member::new(services, kept, Arc::clone(&loaded), rules.config(name, &settings), arm)?;
        }
        let mut members = BTreeMap::new();
        for (chain, config) in uses {
            let member = Member::new(services, kept, Arc::clone(&loaded), config, arm)
                .map_err(|error| rules.in_chain(&chain, error))?;
            members.insert(chain, Arc::new(member));
        }
        Ok(Self { loaded, origin, settings, since: services.clock.now(), members })
    }

    pub(super) fn digest(&self) -> &str {
        &self.loaded.digest
    }

    /// Whether these bytes with these settings are this version.
    pub(super) fn is(&self, digest: &str, settings: &Settings) -> bool {
        self.digest() == digest && self.settings == *settings
    }

    /// It as each chain that uses it sees it, with its weight there.
    pub(super) fn serving(&self) -> Vec<(Arc<Plugin>, f32)> {
        self.members.values().map(|member| (Arc::clone(&member.plugin), member.weight)).collect()
    }
}
