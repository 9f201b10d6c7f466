//! Another configuration for the plugins in force: made ready first, then taken whole.
//!
//! What the configuration says otherwise is set up and tried out while the old versions serve. Only when all of it can
//! serve are the rules replaced, and files read again that they may now mean something else for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::builtin;
use super::super::directory::list;
use super::super::load::{LoadError, Loaded};
use super::entry::Entry;
use super::rules::{Rules, Settings};
use super::version::{Origin, Parts, Version};
use super::{Catalog, State};
use crate::config::{CompileConfig, Config};
use crate::policy::Source;
use crate::types::Arm;

/// How long it waits for plugins that are being loaded.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it begins again because a plugin was swapped meanwhile.
const ATTEMPTS: usize = 5;

/// Why the plugins cannot serve under another configuration.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// A plugin in force cannot serve with it.
    #[error("plugin `{plugin}`: {error}")]
    Plugin {
        /// Which.
        plugin: Box<str>,
        /// Why not.
        error: Box<LoadError>,
    },
    /// The plugin directory is another one, and nothing is known of its files.
    #[error("plugins.dir: it cannot be listed: {0}")]
    Directory(std::io::Error),
    /// It is not known what will be in force.
    #[error("plugins are being loaded; it is tried again at the next change, or on SIGHUP")]
    Busy,
}

/// Versions that are ready to serve under another configuration. Nothing has changed yet.
pub struct Prepared {
    rules: Arc<Rules>,
    compile: CompileConfig,
    /// All versions as they were.
    seen: BTreeMap<Box<str>, Versions>,
    /// Those that take the places of some.
    made: BTreeMap<Box<str>, Versions>,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("plugins", &self.made.keys()).finish_non_exhaustive()
    }
}

/// The version in force of a plugin, and the one on trial.
struct Versions {
    in_force: Option<Arc<Version>>,
    candidate: Option<Arc<Version>>,
}

impl Catalog {
    /// Sets up and tries out what a configuration says otherwise than the one in force.
    ///
    /// # Errors
    /// When a plugin in force, or on trial, cannot serve with it.
    pub fn prepare(&self, config: &Config) -> Result<Prepared, ReloadError> {
        let (old, rules) = (self.rules(), Arc::new(Rules::new(config)));
        if let Some(directory) = rules.directory.as_deref().filter(|_| rules.directory != old.directory) {
            list(directory).map_err(ReloadError::Directory)?;
        }
        self.wait(idle, PATIENCE);
        let state = self.state.lock();
        if !idle(&state) {
            return Err(ReloadError::Busy);
        }
        let now: Vec<_> = state.entries.iter().map(|(name, entry)| (name.clone(), At::of(entry))).collect();
        drop(state);
        let (mut seen, mut made) = (BTreeMap::new(), BTreeMap::new());
        for (name, at) in now {
            let of = |error| ReloadError::Plugin { plugin: name.clone(), error: Box::new(error) };
            let in_force = self.again(&name, &at, at.in_force.as_ref(), (&old, &rules)).map_err(of)?;
            let candidate = self.again(&name, &at, at.candidate.as_ref(), (&old, &rules)).map_err(of)?;
            if in_force.is_some() || candidate.is_some() {
                made.insert(name.clone(), Versions { in_force, candidate });
            }
            seen.insert(name, Versions { in_force: at.in_force, candidate: at.candidate });
        }
        Ok(Prepared { rules, compile: config.compile, seen, made })
    }

    /// Takes a prepared configuration.
    ///
    /// # Errors
    /// When plugins keep being swapped meanwhile, or one that came meanwhile cannot serve with it; then nothing has
    /// changed.
    pub fn take(&self, mut prepared: Prepared, config: &Config) -> Result<(), ReloadError> {
        for _ in 0..ATTEMPTS {
            if self.commit(&prepared) {
                self.services.runtime.compiler().set_limits(prepared.compile);
                self.rescan(|_| false);
                self.wait(idle, PATIENCE);
                self.remember(&[]);
                return Ok(());
            }
            prepared = self.prepare(config)?;
        }
        Err(ReloadError::Busy)
    }

    fn commit(&self, prepared: &Prepared) -> bool {
        let mut state = self.state.lock();
        let known = |(name, entry): (_, &Entry)| prepared.seen.get(name).is_some_and(|seen| seen.are(entry));
        if !idle(&state) || !state.entries.iter().all(known) {
            return false;
        }
        for (name, made) in &prepared.made {
            let Some(entry) = state.entries.get_mut(name) else { continue };
            if let Some(new) = &made.in_force {
                entry.in_force = Some(Arc::clone(new));
            }
            if let (Some(new), Some(candidate)) = (&made.candidate, &mut entry.candidate) {
                candidate.version = Arc::clone(new);
            }
        }
        for entry in state.entries.values_mut() {
            // What it means may be another thing now.
            entry.seen.retain(|_, file| file.is_none());
        }
        self.rules.store(Arc::clone(&prepared.rules));
        self.publish(&mut state);
        true
    }

    /// A version under the new rules, when they say something else of it than the old ones.
    fn again(
        &self,
        name: &str,
        at: &At,
        version: Option<&Arc<Version>>,
        (old, new): (&Rules, &Rules),
    ) -> Result<Option<Arc<Version>>, LoadError> {
        let Some(version) = version else { return Ok(None) };
        let settings = &version.settings;
        let same = old.uses(name, settings) == new.uses(name, settings)
            && old.config(name, settings) == new.config(name, settings);
        if same {
            return Ok(None);
        }
        let (arm, kept) = match at.in_force.as_ref().is_some_and(|in_force| Arc::ptr_eq(in_force, version)) {
            true => (Arm::BASE, &at.kept),
            false => (Arm(version.loaded.generation), &at.kept_next),
        };
        let parts = Parts {
            loaded: self.linked_anew(name, at, version, (old, new), settings)?,
            origin: version.origin,
            settings: settings.clone(),
            arm,
        };
        let made = Version { since: version.since, ..Version::make(&self.services, new, kept, name, parts)? };
        Ok(Some(Arc::new(made)))
    }

    /// The code of a version, linked again where that depends on what has changed.
    fn linked_anew(
        &self,
        name: &str,
        at: &At,
        version: &Version,
        (old, new): (&Rules, &Rules),
        settings: &Settings,
    ) -> Result<Arc<Loaded>, LoadError> {
        let (old, config) = (old.config(name, settings), new.config(name, settings));
        if (old.memory_bytes, old.wasi) == (config.memory_bytes, config.wasi) {
            return Ok(Arc::clone(&version.loaded));
        }
        let candidate = at.bytes.as_ref().filter(|(digest, _)| **digest == *version.digest());
        let kept =
            candidate.map(|(_, bytes)| Arc::clone(bytes)).or_else(|| self.ledger.bytes(version.digest()));
        let (bytes, source): (&[u8], _) = match (version.origin, &kept) {
            (Origin::Builtin, _) => (builtin::bytes(name).unwrap_or_default(), Source::Builtin),
            (_, Some(bytes)) => (bytes, Source::File),
            // Its code is in memory still, and serves as it did.
            (_, None) => return Ok(Arc::clone(&version.loaded)),
        };
        let generation = version.loaded.generation;
        Loaded::new(&self.services, bytes, source, generation, &config).map(Arc::new)
    }
}

/// A plugin's versions at one moment.
struct At {
    in_force: Option<Arc<Version>>,
    candidate: Option<Arc<Version>>,
    /// Of the candidate, with its digest.
    bytes: Option<(Box<str>, Arc<[u8]>)>,
    kept: super::super::load::Kept,
    kept_next: super::super::load::Kept,
}

impl At {
    fn of(entry: &Entry) -> Self {
        let candidate = entry.candidate.as_ref();
        let bytes = |of: &super::entry::Candidate| (of.version.digest().into(), Arc::clone(&of.bytes));
        Self {
            in_force: entry.in_force.clone(),
            candidate: candidate.map(|candidate| Arc::clone(&candidate.version)),
            bytes: candidate.map(bytes),
            kept: entry.kept.clone(),
            kept_next: entry.kept_next.clone(),
        }
    }
}

impl Versions {
    /// Whether a plugin still has these.
    fn are(&self, entry: &Entry) -> bool {
        let same = |then: &Option<Arc<Version>>, now: Option<&Arc<Version>>| match (then, now) {
            (Some(then), Some(now)) => Arc::ptr_eq(then, now),
            (then, now) => then.is_none() && now.is_none(),
        };
        let candidate = entry.candidate.as_ref().map(|candidate| &candidate.version);
        same(&self.in_force, entry.in_force.as_ref()) && same(&self.candidate, candidate)
    }
}

fn idle(state: &State) -> bool {
    state.entries.values().all(|entry| !entry.working)
}
