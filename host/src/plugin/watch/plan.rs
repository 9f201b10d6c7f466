//! When to look at the directory, and what of it to read then. Pure: time, listings and events are passed in.
//!
//! Changes are found by comparing listings; an event only says when to make one. What settles is a
//! *version*, the plugin with its settings and its signature ([`version`]): they are read together, once all
//! of them are at rest.
//!
//! After a look the directory is left alone for a while however many events come, twenty times as long as
//! the look took: looking never costs more than a twentieth of a core.

use std::collections::BTreeSet;
use std::path::Path;

use crate::clock::{MILLI, Nanos, SECOND};
use crate::plugin::directory::{Files, Stamp, version};
use crate::plugin::settle::Settle;

/// How often the directory is listed while something settles, and the least time between two looks.
pub(super) const STEP: Nanos = 50 * MILLI;
/// The most that looking may be put off because it takes long.
pub(super) const LONGEST_REST: Nanos = SECOND;
/// How much longer than a look the rest after it is.
const REST_FACTOR: Nanos = 20;

/// What was seen, and when to look again.
#[derive(Debug)]
pub(super) struct Plan {
    poll: Nanos,
    seen: Files,
    settle: Settle<Box<str>>,
    /// Versions that the last look found at rest.
    due: BTreeSet<Box<str>>,
    /// The end of the last look, and how long nothing is looked at after it; none before the first.
    looked: Option<(Nanos, Nanos)>,
    /// The last look saw nothing: the directory could not be listed.
    blind: bool,
}

impl Plan {
    /// `seen` is what was read already; `poll` is the time between two looks without an event.
    pub(super) fn new(seen: Files, poll: Nanos) -> Self {
        Self { poll, seen, settle: Settle::default(), due: BTreeSet::new(), looked: None, blind: false }
    }

    /// When to look next, `hinted` saying whether an event came since the last look.
    pub(super) fn next_look(&self, hinted: bool) -> Nanos {
        let Some((looked, rest)) = self.looked else { return 0 };
        let earliest = looked + rest;
        if hinted {
            return earliest;
        }
        let poll = looked + self.poll;
        let settling = self.settle.next_due().filter(|_| !self.blind);
        settling.map_or(poll, |due| poll.min(due).min(looked + STEP)).max(earliest)
    }

    /// Takes in a listing that was made from `began` to `ended`. Says whether there is something to read.
    pub(super) fn looked(&mut self, listed: Files, began: Nanos, ended: Nanos) -> bool {
        // Whatever is seen has happened by the end, and was at rest at the latest from the last look to the
        // begin of this one.
        if std::mem::take(&mut self.blind) {
            self.settle.restart(ended);
        }
        for path in self.seen.keys().chain(listed.keys()) {
            if self.seen.get(path) != listed.get(path)
                && let Some(version) = version(path)
            {
                self.settle.changed(version.into(), ended);
            }
        }
        self.seen = listed;
        self.rest(began, ended);
        self.due = self.settle.due(began);
        !self.due.is_empty()
    }

    /// The directory could not be listed, from `began` to `ended`. Nothing is known of its files, so nothing
    /// has changed; what was settling begins anew when they are seen again.
    pub(super) fn unlisted(&mut self, began: Nanos, ended: Nanos) {
        self.blind = true;
        self.due.clear();
        self.rest(began, ended);
    }

    /// Takes in what was `listed` for reading, after the look. Of what was due, this is what was read, and what
    /// the next look is to be compared with: something may have come in between and be gone by then.
    pub(super) fn read(&mut self, listed: &Files) {
        let due = &self.due;
        let is_due = |path: &Path| version(path).is_some_and(|version| due.contains(version));
        self.seen.retain(|path, _| !is_due(path));
        let read = listed.iter().filter(|(path, _)| is_due(path));
        self.seen.extend(read.map(|(path, stamp)| (path.clone(), stamp.clone())));
    }

    fn rest(&mut self, began: Nanos, ended: Nanos) {
        let rest = ended.saturating_sub(began).saturating_mul(REST_FACTOR);
        self.looked = Some((ended, rest.clamp(STEP, LONGEST_REST)));
    }

    /// Whether a file is not to be read now: it changes, or `now` shows that it began to after the last look.
    /// What is due is read in any case, or a file that never rests would never be.
    pub(super) fn is_changing(&self, path: &Path, now: impl FnOnce() -> Option<Stamp>) -> bool {
        let Some(version) = version(path) else { return false };
        self.settle.is_changing(version)
            || (!self.due.contains(version) && now().as_ref() != self.seen.get(path))
    }
}
