//! When what changes has come to rest.
//!
//! Something is read once nothing has happened to it for [`QUIET`], or [`CAP`] after the first change when
//! the changes do not end: a stream of events must not put the reading off for ever. Pure: time is
//! passed in.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use crate::clock::{MILLI, Nanos, SECOND};

/// No change for this long: at rest.
pub(crate) const QUIET: Nanos = 200 * MILLI;
/// Read at the latest this long after the first change.
pub(crate) const CAP: Nanos = SECOND;

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

/// What has changed and is not read yet.
#[derive(Debug)]
pub(crate) struct Settle<K>(BTreeMap<K, Changing>);

impl<K> Default for Settle<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Settle<K> {
    /// Something has changed.
    pub(crate) fn changed(&mut self, key: K, now: Nanos) {
        self.0
            .entry(key)
            .and_modify(|changing| changing.last = now)
            .or_insert(Changing { first: now, last: now });
    }

    /// Everything that is changing counts as changed just now for the first time: nobody looked meanwhile.
    pub(crate) fn restart(&mut self, now: Nanos) {
        self.0.values_mut().for_each(|changing| *changing = Changing { first: now, last: now });
    }

    /// When the next of them will be due, if any is changing.
    #[must_use]
    pub(crate) fn next_due(&self) -> Option<Nanos> {
        self.0.values().map(|changing| changing.due()).min()
    }

    /// Whether this has changed and is not due yet.
    pub(crate) fn is_changing<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.contains_key(key)
    }

    /// Takes what is due.
    pub(crate) fn due(&mut self, now: Nanos) -> BTreeSet<K> {
        self.0.extract_if(.., |_, changing| changing.due() <= now).map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(settle: &mut Settle<&'static str>, now: Nanos) -> Vec<&'static str> {
        settle.due(now).into_iter().collect()
    }

    #[test]
    fn a_path_is_due_when_it_has_been_quiet() {
        let mut settle = Settle::default();
        settle.changed("a", 0);
        settle.changed("a", 150 * MILLI);
        assert!(due(&mut settle, 300 * MILLI).is_empty());
        assert_eq!(settle.next_due(), Some(350 * MILLI));
        assert_eq!(due(&mut settle, 350 * MILLI), ["a"]);
        assert_eq!(settle.next_due(), None);
    }

    #[test]
    fn a_path_that_never_rests_is_due_at_the_cap() {
        let mut settle = Settle::default();
        for step in 0..10 {
            settle.changed("a", step * 100 * MILLI);
            assert!(due(&mut settle, step * 100 * MILLI).is_empty());
        }
        assert_eq!(due(&mut settle, SECOND), ["a"]);
    }

    #[test]
    fn paths_settle_apart() {
        let mut settle = Settle::default();
        settle.changed("noisy", 0);
        settle.changed("calm", 0);
        settle.changed("noisy", 190 * MILLI);
        assert_eq!(due(&mut settle, 200 * MILLI), ["calm"]);
        assert!(settle.is_changing("noisy") && !settle.is_changing("calm"));
    }

    #[test]
    fn what_was_not_looked_at_rests_anew() {
        let mut settle = Settle::default();
        settle.changed("a", 0);
        settle.restart(5 * SECOND);
        assert!(due(&mut settle, 5 * SECOND).is_empty());
        assert_eq!(due(&mut settle, 5 * SECOND + QUIET), ["a"]);
    }
}
