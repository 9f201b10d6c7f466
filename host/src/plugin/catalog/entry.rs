//! What is known of one plugin name, and how it changes.
//!
//! A worker thread reads and compiles without the lock and comes back with [`Outcome`]s; applying them is all
//! that happens under it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::super::load::{Kept, LoadError};
use super::super::status::Refused;
use super::files::{File, Place};
use super::ledger::{KeptOut, Promoted, Record};
use super::rules::Settings;
use super::version::{Origin, Version};
use crate::config::TrialMode;
use crate::policy::Reason;

/// What a worker is to do.
#[derive(Debug, Clone)]
pub(super) enum Task {
    /// The file is there, changed, or gone.
    Read(Place, Option<Arc<File>>),
    /// The version before the one with this digest shall be in force again.
    Return(Box<str>),
    /// The candidate shall be in force.
    Promote,
}

/// What came of it.
pub(super) enum Outcome {
    /// The file holds what is in force, or tried, already.
    Same(Place),
    /// A version is in force from now on; its bytes when they may be needed again.
    InForce(Arc<Version>, Option<Arc<[u8]>>),
    /// Nothing serves under this name.
    Gone,
    /// The file is no longer there, and nothing of it is to be shown.
    Forgotten(Place),
    /// A candidate is tried, or none.
    Candidate(Option<Candidate>),
    /// The digest of the file, as it was read.
    Holds(Place, Box<str>),
    /// The newest signed version.
    Signed(u64),
    /// A file cannot be used.
    Refused(Place, Box<str>, LoadError),
    /// A file is not used because its digest was rolled back.
    KeptOut(Place, Box<str>, String),
}

/// A version on trial.
#[derive(Clone)]
pub(super) struct Candidate {
    pub(super) version: Arc<Version>,
    /// Where its file lies.
    pub(super) place: Place,
    pub(super) trial: TrialMode,
    /// Why it is not given the traffic that its mode asks for.
    pub(super) held: Option<String>,
    pub(super) bytes: Arc<[u8]>,
}

/// A version that can come back.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Previous {
    Builtin,
    Bytes(Box<str>, Settings),
}

/// Counters that must not fall back to zero when a version goes.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) loads: u64,
    pub(super) refusals: BTreeMap<&'static str, u64>,
    pub(super) failed_before: BTreeMap<&'static str, u64>,
    pub(super) refused: Option<Refused>,
}

/// A version that was taken out of force or out of trial.
#[derive(Debug, Clone, serde::Serialize)]
pub struct RolledBack {
    /// SHA-256 of its file, hex.
    pub digest: Box<str>,
    /// What it did, or who asked.
    pub reason: String,
}

/// One plugin name.
pub(super) struct Entry {
    pub(super) in_force: Option<Arc<Version>>,
    pub(super) previous: Option<Previous>,
    pub(super) candidate: Option<Candidate>,
    pub(super) record: Record,
    /// What the last scan saw.
    pub(super) seen: BTreeMap<Place, Option<Arc<File>>>,
    /// Digests of the files, as they were read last.
    pub(super) holds: BTreeMap<Place, Box<str>>,
    pub(super) todo: VecDeque<Task>,
    pub(super) working: bool,
    pub(super) main: Tally,
    pub(super) next: Tally,
    pub(super) rolled_back: Option<RolledBack>,
    pub(super) rollbacks: u64,
    pub(super) promotions: u64,
    pub(super) kept: Kept,
    pub(super) kept_next: Kept,
}

impl Entry {
    /// A name of which this is remembered.
    pub(super) fn new(record: Record) -> Self {
        let kept = Kept::default();
        Self {
            in_force: None,
            previous: None,
            candidate: None,
            record,
            seen: BTreeMap::new(),
            holds: BTreeMap::new(),
            todo: VecDeque::new(),
            working: false,
            main: Tally::default(),
            next: Tally::default(),
            rolled_back: None,
            rollbacks: 0,
            promotions: 0,
            kept_next: kept.of_candidate(),
            kept,
        }
    }

    pub(super) fn tally(&mut self, place: Place) -> &mut Tally {
        match place {
            Place::Main => &mut self.main,
            Place::Next => &mut self.next,
        }
    }

    /// Whether anything is left to say of the name.
    pub(super) fn matters(&self) -> bool {
        self.in_force.is_some()
            || self.candidate.is_some()
            || self.main.refused.is_some()
            || self.next.refused.is_some()
            || self.working
            || self.record != Record::default()
    }

    pub(super) fn apply(&mut self, name: &str, outcome: Outcome) {
        match outcome {
            Outcome::Same(place) => self.tally(place).refused = None,
            Outcome::InForce(version, _) => self.take(version),
            Outcome::Gone => {
                self.in_force = None;
                self.record.in_force = None;
            }
            Outcome::Forgotten(place) => {
                self.tally(place).refused = None;
                self.holds.remove(&place);
                if place == Place::Main {
                    self.rolled_back = None;
                    self.previous = None;
                }
            }
            Outcome::Candidate(candidate) => {
                match &candidate {
                    Some(_) => {
                        self.next.loads += 1;
                        self.next.refused = None;
                    }
                    None => self.forget_trial(),
                }
                self.candidate = candidate;
            }
            Outcome::Holds(place, digest) => _ = self.holds.insert(place, digest),
            Outcome::Signed(version) => self.record.signed = self.record.signed.max(Some(version)),
            Outcome::Refused(place, digest, error) => self.refuse(name, place, digest, &error),
            Outcome::KeptOut(place, digest, why) => {
                tracing::warn!(
                    plugin = name,
                    digest = &*digest,
                    "a version that was rolled back is kept out: {why}"
                );
                self.tally(place).refused = Some(Refused { digest, reason: kept_out(&why) });
            }
        }
    }

    /// A version is in force from now on.
    fn take(&mut self, version: Arc<Version>) {
        let before = self.in_force.replace(Arc::clone(&version));
        if let Some(before) = before.filter(|before| before.digest() != version.digest()) {
            self.previous = match before.origin {
                // A version that was just taken out is none to go back to.
                _ if self.record.refused.contains_key(before.digest()) => None,
                Origin::Builtin => Some(Previous::Builtin),
                _ => Some(Previous::Bytes(before.digest().into(), before.settings.clone())),
            };
        }
        self.main.loads += 1;
        let file = version.origin != Origin::Builtin;
        self.record.in_force = file.then(|| version.digest().into());
        match version.origin {
            Origin::File => {
                self.record.promoted = None;
                self.main.refused = None;
                self.rolled_back = None;
            }
            Origin::Promoted => {
                self.main.refused = None;
                self.rolled_back = None;
            }
            Origin::Builtin | Origin::Restored => {}
        }
    }

    fn refuse(&mut self, name: &str, place: Place, digest: Box<str>, error: &LoadError) {
        let stays = match (&self.in_force, place) {
            (Some(version), _) => format!("version {:.12} stays in force", version.digest()),
            (None, _) => "nothing serves under this name".into(),
        };
        let file = format!("{}.wasm", place.stem(name));
        tracing::error!(plugin = name, file, digest = &*digest, %error, "plugin refused; {stays}");
        let tally = self.tally(place);
        *tally.refusals.entry(error.reason()).or_default() += 1;
        if let Some(reason) = error.failed_call() {
            *tally.failed_before.entry(Reason::as_str(reason)).or_default() += 1;
        }
        tally.refused = Some(Refused { digest, reason: error.to_string() });
        if place == Place::Next {
            self.forget_trial();
        }
    }

    /// What a candidate stored goes with it, unless it was promoted.
    fn forget_trial(&mut self) {
        self.candidate = None;
        self.kept_next.store = self.kept.of_candidate().store;
    }

    /// Keeps a digest out from now on, and shows why.
    pub(super) fn keep_out(&mut self, place: Place, digest: &str, why: &str) {
        self.record.refused.insert(digest.into(), KeptOut { why: why.into() });
        self.tally(place).refused = Some(Refused { digest: digest.into(), reason: kept_out(why) });
        if place == Place::Next {
            self.forget_trial();
        }
        self.rolled_back = Some(RolledBack { digest: digest.into(), reason: why.into() });
        self.rollbacks += 1;
        if self.record.promoted.as_ref().is_some_and(|promoted| *promoted.digest == *digest) {
            self.record.promoted = None;
        }
    }

    /// The candidate has become the version in force.
    pub(super) fn promoted(&mut self, version: &Version) {
        let over = self.holds.get(&Place::Main).cloned().unwrap_or_default();
        // A file that was promoted under its own name needs no note.
        let own = *over == *version.digest();
        let beside = &version.settings.beside;
        self.record.promoted = (!own).then(|| Promoted {
            digest: version.digest().into(),
            over,
            weight: beside.weight,
            config: beside.config.clone(),
        });
        self.candidate = None;
        self.promotions += 1;
    }

    /// Digests whose bytes may be needed again.
    pub(super) fn needed(&self) -> BTreeSet<Box<str>> {
        let previous = match &self.previous {
            Some(Previous::Bytes(digest, _)) => Some(digest.clone()),
            _ => None,
        };
        let promoted = self.record.promoted.as_ref().map(|promoted| promoted.digest.clone());
        self.record.in_force.iter().cloned().chain(previous).chain(promoted).collect()
    }
}

fn kept_out(why: &str) -> String {
    format!("it was rolled back and stays out until the file changes, or until it is turned on again: {why}")
}
