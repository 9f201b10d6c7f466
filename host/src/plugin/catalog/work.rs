//! What a worker thread does for one plugin name: read, check, compile, try out.
//!
//! Nothing here holds the catalog's lock. The worker takes a [`Brief`] of how things stand and comes back
//! with outcomes; as one name never has two workers, what the brief says still holds when they are applied.

use std::sync::Arc;

use super::super::artifact::digest;
use super::super::builtin;
use super::super::load::{Kept, LoadError, Loaded};
use super::super::supply::{self, OnDisk};
use super::Catalog;
use super::entry::{Candidate, Entry, Outcome, Previous, Task};
use super::files::{File, Place};
use super::ledger::Record;
use super::rules::{Fate, Rules, Settings};
use super::version::{Origin, Parts, Version};
use crate::config::{Beside, NextTo, PluginConfig, TrialMode, beside_text};
use crate::policy::Source;
use crate::types::Arm;

/// How things stand with one name.
pub(super) struct Brief {
    pub(super) rules: Arc<Rules>,
    in_force: Option<Arc<Version>>,
    candidate: Option<Candidate>,
    previous: Option<Previous>,
    record: Record,
    kept: Kept,
    kept_next: Kept,
}

impl Brief {
    pub(super) fn of(entry: &Entry, rules: Arc<Rules>) -> Self {
        Self {
            rules,
            in_force: entry.in_force.clone(),
            candidate: entry.candidate.clone(),
            previous: entry.previous.clone(),
            record: entry.record.clone(),
            kept: entry.kept.clone(),
            kept_next: entry.kept_next.clone(),
        }
    }

    /// Whether a version that was kept may still be loaded. Its signature was checked when it came.
    fn allowed(&self, digest: &str) -> Result<(), LoadError> {
        supply::allowed(&self.rules.supply, digest).map_err(LoadError::from)
    }

    /// The configuration has changed since the version in force came, and would not let it come now.
    fn no_longer_allowed(&self) -> bool {
        let by_file = self.in_force.as_ref().filter(|version| version.origin != Origin::Builtin);
        by_file.is_some_and(|version| self.allowed(version.digest()).is_err())
    }

    fn kept_out(&self, digest: &str) -> Option<String> {
        self.record.refused.get(digest).map(|kept| kept.why.clone())
    }
}

/// A file as it was read, once.
struct Read {
    bytes: Arc<[u8]>,
    digest: Box<str>,
    beside: Beside,
    signed: Option<u64>,
}

/// Reads the files once, and has them checked before anything parses them.
fn read(
    rules: &Rules,
    name: &str,
    place: Place,
    file: &File,
    newest: Option<u64>,
) -> Result<Read, (Box<str>, LoadError)> {
    let found = OnDisk::read(&file.wasm, &rules.supply).map_err(|error| ("".into(), error.into()))?;
    let digest = digest(&found.wasm);
    let fail = |error: LoadError| (digest.clone(), error);
    let checked =
        supply::check(&rules.supply, &found.files(name), newest).map_err(|error| fail(error.into()))?;
    let next_to = if place == Place::Main { NextTo::Plugin } else { NextTo::Candidate };
    let text = found.settings.as_deref().unwrap_or_default();
    let beside = beside_text(&file.settings, text, next_to)
        .map_err(|errors| fail(LoadError::Beside(errors.to_string())))?;
    Ok(Read { bytes: found.wasm.into(), digest, beside, signed: checked.signed })
}

impl Catalog {
    /// Does one task. The last outcome is the one that counts for who serves.
    pub(super) fn perform(&self, name: &str, task: &Task, brief: &Brief) -> Vec<Outcome> {
        match task {
            Task::Read(place, None) => self.gone(name, *place, brief),
            Task::Read(place, Some(file)) => self.changed(name, *place, file, brief),
            Task::Return(from) => self.back(name, from, brief),
            Task::Promote => self.promote(name, brief),
        }
    }

    fn gone(&self, name: &str, place: Place, brief: &Brief) -> Vec<Outcome> {
        let mut outcomes = vec![Outcome::Forgotten(place)];
        let tried_here = brief.candidate.as_ref().is_some_and(|candidate| candidate.place == place);
        if tried_here {
            outcomes.push(Outcome::Candidate(None));
        }
        if place == Place::Main {
            match self.promoted(name, "", brief) {
                Some(promoted) => outcomes.extend(promoted),
                None => outcomes.extend(self.builtin(name, brief)),
            }
        }
        outcomes
    }

    fn changed(&self, name: &str, place: Place, file: &File, brief: &Brief) -> Vec<Outcome> {
        let read = match read(&brief.rules, name, place, file, brief.record.signed) {
            Ok(read) => read,
            Err((digest, error)) => {
                let mut outcomes =
                    vec![Outcome::Holds(place, digest.clone()), Outcome::Refused(place, digest, error)];
                outcomes.extend(match place == Place::Main && brief.no_longer_allowed() {
                    true => self.builtin(name, brief),
                    false => self.instead(name, place, brief),
                });
                return outcomes;
            }
        };
        let mut outcomes = vec![Outcome::Holds(place, read.digest.clone())];
        outcomes.extend(read.signed.map(Outcome::Signed));
        match brief.rules.fate(name, place, &read.beside) {
            Fate::Serve => outcomes.extend(self.serve(name, read, brief)),
            Fate::Try(trial) => {
                if place == Place::Main {
                    outcomes.extend(self.builtin(name, brief));
                }
                outcomes.extend(self.try_out(name, place, read, trial, brief));
            }
            Fate::Ignore => outcomes.push(Outcome::Candidate(None)),
            Fate::Unlisted => {
                // As it was listed, or tried, before.
                if brief.candidate.as_ref().is_some_and(|tried| tried.version.digest() == &*read.digest) {
                    outcomes.push(Outcome::Candidate(None));
                }
                outcomes.push(Outcome::Refused(place, read.digest, LoadError::Unlisted));
                if place == Place::Main {
                    outcomes.extend(self.builtin(name, brief));
                }
            }
        }
        outcomes
    }

    /// The file is to be in force.
    fn serve(&self, name: &str, read: Read, brief: &Brief) -> Vec<Outcome> {
        let settings = Settings { beside: read.beside, tried: false };
        if let Some(promoted) = self.promoted(name, &read.digest, brief) {
            return promoted;
        }
        if let Some(why) = brief.kept_out(&read.digest) {
            let mut outcomes = vec![Outcome::KeptOut(Place::Main, read.digest, why)];
            outcomes.extend(self.instead(name, Place::Main, brief));
            return outcomes;
        }
        if brief
            .in_force
            .as_ref()
            .is_some_and(|version| version.origin != Origin::Builtin && version.is(&read.digest, &settings))
        {
            return vec![Outcome::Same(Place::Main)];
        }
        match self.version(name, &read.bytes, &read.digest, Origin::File, settings, brief) {
            Ok(version) => vec![Outcome::InForce(version, Some(read.bytes))],
            Err(error) => {
                let mut outcomes = vec![Outcome::Refused(Place::Main, read.digest, error)];
                outcomes.extend(self.instead(name, Place::Main, brief));
                outcomes
            }
        }
    }

    /// The file is to be tried.
    fn try_out(&self, name: &str, place: Place, read: Read, trial: TrialMode, brief: &Brief) -> Vec<Outcome> {
        if let Some(why) = brief.kept_out(&read.digest) {
            return vec![Outcome::Candidate(None), Outcome::KeptOut(place, read.digest, why)];
        }
        let beside = Beside { mode: None, ..brief.rules.candidate_settings(name, read.beside.clone()) };
        let settings = Settings { beside, tried: true };
        if brief.in_force.as_ref().is_some_and(|version| version.is(&read.digest, &settings)) {
            return vec![Outcome::Candidate(None), Outcome::Same(place)];
        }
        let same = brief.candidate.as_ref().map(|candidate| &candidate.version);
        let made = match same.filter(|version| version.is(&read.digest, &settings)) {
            Some(version) => Ok(Arc::clone(version)),
            None => self.candidate(name, &read, settings, brief),
        };
        match made {
            Ok(version) => {
                let (trial, held) = possible(trial, &version);
                let bytes = read.bytes;
                vec![Outcome::Candidate(Some(Candidate { version, place, trial, held, bytes }))]
            }
            Err(error) => vec![Outcome::Candidate(None), Outcome::Refused(place, read.digest, error)],
        }
    }

    /// What was promoted over the file with this digest, when something was.
    fn promoted(&self, name: &str, over: &str, brief: &Brief) -> Option<Vec<Outcome>> {
        let promoted = brief.record.promoted.as_ref().filter(|promoted| *promoted.over == *over)?;
        let settings = Settings { beside: promoted.beside(), tried: true };
        if brief.in_force.as_ref().is_some_and(|version| version.is(&promoted.digest, &settings)) {
            return Some(vec![Outcome::Same(Place::Main)]);
        }
        let Some(bytes) = self.ledger.bytes(&promoted.digest) else {
            tracing::error!(
                plugin = name,
                digest = &*promoted.digest,
                "the promoted version is gone from state_dir; the file serves"
            );
            return None;
        };
        let made = brief
            .allowed(&promoted.digest)
            .and_then(|()| self.version(name, &bytes, &promoted.digest, Origin::Promoted, settings, brief));
        match made {
            Ok(version) => Some(vec![Outcome::InForce(version, Some(bytes))]),
            Err(error) => {
                tracing::error!(plugin = name, digest = &*promoted.digest, %error, "the promoted version cannot be used; the file serves");
                None
            }
        }
    }

    /// What serves when a file cannot, if nothing does: the version that was in force last, else the built-in.
    fn instead(&self, name: &str, place: Place, brief: &Brief) -> Vec<Outcome> {
        let refused = |version: &Arc<Version>| brief.kept_out(version.digest()).is_some();
        if place == Place::Next || brief.in_force.as_ref().is_some_and(|version| !refused(version)) {
            return Vec::new();
        }
        let last = brief.record.in_force.as_ref().filter(|digest| brief.kept_out(digest).is_none());
        match last.and_then(|digest| self.restored(name, digest, Settings::default(), brief)) {
            Some(outcome) => vec![outcome],
            None => self.builtin(name, brief),
        }
    }

    fn builtin(&self, name: &str, brief: &Brief) -> Vec<Outcome> {
        if brief.in_force.as_ref().is_some_and(|version| version.origin == Origin::Builtin) {
            return Vec::new();
        }
        let Some(bytes) = builtin::bytes(name) else { return vec![Outcome::Gone] };
        let digest = digest(bytes);
        match self.version(name, bytes, &digest, Origin::Builtin, Settings::default(), brief) {
            Ok(version) => vec![Outcome::InForce(version, None)],
            Err(error) => vec![Outcome::Gone, Outcome::Refused(Place::Main, digest, error)],
        }
    }

    fn restored(&self, name: &str, digest: &str, settings: Settings, brief: &Brief) -> Option<Outcome> {
        let bytes = self.ledger.bytes(digest)?;
        let made = brief
            .allowed(digest)
            .and_then(|()| self.version(name, &bytes, digest, Origin::Restored, settings, brief));
        match made {
            Ok(version) => Some(Outcome::InForce(version, Some(bytes))),
            Err(error) => {
                tracing::error!(plugin = name, digest, %error, "the version before cannot be used any more");
                None
            }
        }
    }

    /// Back to the version before, unless another has come in the meantime.
    fn back(&self, name: &str, from: &str, brief: &Brief) -> Vec<Outcome> {
        if brief.in_force.as_ref().is_some_and(|version| version.digest() != from) {
            return Vec::new();
        }
        let version = match &brief.previous {
            Some(Previous::Bytes(digest, settings)) => self.restored(name, digest, settings.clone(), brief),
            _ => None,
        };
        version.map_or_else(|| self.builtin(name, brief), |outcome| vec![outcome])
    }

    fn promote(&self, name: &str, brief: &Brief) -> Vec<Outcome> {
        let Some(candidate) = &brief.candidate else { return Vec::new() };
        let version = &candidate.version;
        brief.kept.adopt(&brief.kept_next, self.services.clock.now());
        let parts = Parts {
            loaded: Arc::clone(&version.loaded),
            origin: Origin::Promoted,
            settings: version.settings.clone(),
            arm: Arm::BASE,
        };
        match Version::make(&self.services, &brief.rules, &brief.kept, name, parts) {
            Ok(version) => vec![Outcome::InForce(Arc::new(version), Some(Arc::clone(&candidate.bytes)))],
            Err(error) => vec![Outcome::Refused(candidate.place, version.digest().into(), error)],
        }
    }

    /// Compiles bytes, unless they are those of the version in force, and sets them up to be in force.
    fn version(
        &self,
        name: &str,
        bytes: &[u8],
        digest: &str,
        origin: Origin,
        settings: Settings,
        brief: &Brief,
    ) -> Result<Arc<Version>, LoadError> {
        let source = if origin == Origin::Builtin { Source::Builtin } else { Source::File };
        let config = brief.rules.config(name, &settings);
        let loaded = match brief.in_force.as_ref().map(|version| &version.loaded) {
            Some(loaded) if *loaded.digest == *digest && loaded.source == source => Arc::clone(loaded),
            _ => self.compile(bytes, source, &config)?,
        };
        let parts = Parts { loaded, origin, settings, arm: Arm::BASE };
        Version::make(&self.services, &brief.rules, &brief.kept, name, parts).map(Arc::new)
    }

    fn candidate(
        &self,
        name: &str,
        read: &Read,
        settings: Settings,
        brief: &Brief,
    ) -> Result<Arc<Version>, LoadError> {
        let config = brief.rules.config(name, &settings);
        let loaded = self.compile(&read.bytes, Source::File, &config)?;
        let arm = Arm(loaded.generation);
        let parts = Parts { loaded, origin: Origin::File, settings, arm };
        Version::make(&self.services, &brief.rules, &brief.kept_next, name, parts).map(Arc::new)
    }

    fn compile(&self, bytes: &[u8], source: Source, config: &PluginConfig) -> Result<Arc<Loaded>, LoadError> {
        Loaded::new(&self.services, bytes, source, self.next_generation(), config).map(Arc::new)
    }
}

/// How the version can be tried: flow control is one for all requests of a pool, so neither a share of the
/// sessions nor one of the endpoints can try it.
fn possible(trial: TrialMode, version: &Version) -> (TrialMode, Option<String>) {
    let judges = version
        .loaded
        .stages()
        .iter()
        .any(|stage| !matches!(*stage, "flow-control" | "observer" | "handoff"));
    match trial {
        TrialMode::Canary(_) | TrialMode::Endpoints(_) if !judges => {
            let held =
                "flow control is tried by whole pools, `mode = { pools = [\"NAME\"] }`: it stays in shadow";
            (TrialMode::Shadow, Some(held.into()))
        }
        trial => (trial, None),
    }
}
