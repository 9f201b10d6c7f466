//! When a path that changes has come to rest.
//!
//! A file is read once nothing has happened to it for [`QUIET`], or [`CAP`] after the first change when
//! the changes do not end: a stream of events must not put the reading off for ever. Pure: time is
//! passed in.

use std::collections::BTreeMap;
use std::hash::Hash;

use crate::clock::{MILLI, Nanos, SECOND};

/// No change for this long: at rest.
pub(super) const QUIET: Nanos = 200 * MILLI;
/// Read at the latest this long after the first change.
pub(super) const CAP: Nanos = SECOND;

#[derive(Debug, Clone, Copy)]
struct Changing {
    first: Nanos,
    last: Nanos,
}

impl Changing {
    fn due(self) -> Nanos {
        (self.last + QUIET).min(self.first + CAP)
    }
}

/// Paths that have changed and are not read yet.
#[derive(Debug)]
pub(super) struct Settle<P>(BTreeMap<P, Changing>);

impl<P> Default for Settle<P> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<P: Ord + Clone + Hash> Settle<P> {
    /// A path has changed.
    pub(super) fn changed(&mut self, path: P, now: Nanos) {
        self.0
            .entry(path)
            .and_modify(|changing| changing.last = now)
            .or_insert(Changing { first: now, last: now });
    }

    /// When the next path will be due, if any is changing.
    #[must_use]
    pub(super) fn next_due(&self) -> Option<Nanos> {
        self.0.values().map(|changing| changing.due()).min()
    }

    /// Whether a path has changed and is not due yet.
    pub(super) fn is_changing(&self, path: &P) -> bool {
        self.0.contains_key(path)
    }

    /// Takes the paths that are due.
    pub(super) fn due(&mut self, now: Nanos) -> Vec<P> {
        let due: Vec<P> = self
            .0
            .iter()
            .filter(|(_, changing)| changing.due() <= now)
            .map(|(path, _)| path.clone())
            .collect();
        for path in &due {
            self.0.remove(path);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_due_when_it_has_been_quiet() {
        let mut settle = Settle::default();
        settle.changed("a", 0);
        settle.changed("a", 150 * MILLI);
        assert!(settle.due(300 * MILLI).is_empty());
        assert_eq!(settle.next_due(), Some(350 * MILLI));
        assert_eq!(settle.due(350 * MILLI), ["a"]);
        assert_eq!(settle.next_due(), None);
    }

    #[test]
    fn a_path_that_never_rests_is_due_at_the_cap() {
        let mut settle = Settle::default();
        for step in 0..10 {
            settle.changed("a", step * 100 * MILLI);
            assert!(settle.due(step * 100 * MILLI).is_empty());
        }
        assert_eq!(settle.due(SECOND), ["a"]);
    }

    #[test]
    fn paths_settle_apart() {
        let mut settle = Settle::default();
        settle.changed("noisy", 0);
        settle.changed("calm", 0);
        settle.changed("noisy", 190 * MILLI);
        assert_eq!(settle.due(200 * MILLI), ["calm"]);
    }
}
