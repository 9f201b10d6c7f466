//! When to ask the system for events of the directory. Pure: what the directory is, and time, are passed in.
//!
//! A watch holds on to the directory that it was set on. One that was removed and made again, or that a link
//! leads to now, is another one and needs a watch of its own. Where the system gives none, it is asked again
//! only now and then.

use crate::clock::{Nanos, SECOND};

/// How long after it gave no watch the system is asked again.
pub(super) const RETRY: Nanos = 60 * SECOND;

/// What is to be done about the watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing.
    Keep,
    /// Set one, in the place of any that there is.
    Set,
    /// Let go of it: there is no directory.
    Drop,
}

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// As the last time.
    AsBefore,
    /// Events come, after a time without.
    Regained,
    /// None come, for the first time.
    Lost,
}

/// Which directory is watched. `I` tells one directory from another at the same path.
#[derive(Debug)]
pub(super) struct Arming<I> {
    wanted: bool,
    armed: Option<I>,
    retry: Option<Nanos>,
}

impl<I: PartialEq> Arming<I> {
    /// Nothing is watched yet; if not `wanted` nothing ever is.
    pub(super) fn new(wanted: bool) -> Self {
        Self { wanted, armed: None, retry: None }
    }

    /// Whether events come.
    pub(super) fn is_armed(&self) -> bool {
        self.armed.is_some()
    }

    /// What to do when the path leads to `directory`, if to any; `ended` when the system ended the watch.
    pub(super) fn step(&mut self, directory: Option<&I>, ended: bool, now: Nanos) -> Step {
        if ended {
            self.armed = None;
        }
        let waits = self.retry.is_some_and(|at| now < at);
        match directory {
            None if self.armed.take().is_some() || ended => Step::Drop,
            Some(found) if self.wanted && self.armed.as_ref() != Some(found) && !waits => Step::Set,
            _ => Step::Keep,
        }
    }

    /// A watch was set on `directory`.
    pub(super) fn set(&mut self, directory: I) -> Outcome {
        self.armed = Some(directory);
        if self.retry.take().is_some() { Outcome::Regained } else { Outcome::AsBefore }
    }

    /// The system gave none.
    pub(super) fn refused(&mut self, now: Nanos) -> Outcome {
        self.armed = None;
        if self.retry.replace(now + RETRY).is_some() { Outcome::AsBefore } else { Outcome::Lost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_made_again_is_watched_again() {
        let mut arming = Arming::new(true);
        assert_eq!(arming.step(Some(&1), false, 0), Step::Set);
        assert_eq!(arming.set(1), Outcome::AsBefore);
        assert_eq!(arming.step(Some(&1), false, 0), Step::Keep);
        assert_eq!(arming.step(Some(&2), false, 0), Step::Set);
        arming.set(2);
        assert_eq!(arming.step(None, false, 0), Step::Drop);
        assert_eq!(arming.step(None, false, 0), Step::Keep);
        assert_eq!(arming.step(Some(&2), false, 0), Step::Set);
        arming.set(2);
        // Removed and made again between two looks, with the inode that had become free.
        assert_eq!(arming.step(Some(&2), true, 0), Step::Set);
    }

    #[test]
    fn a_system_without_watches_is_asked_now_and_then_and_told_of_once() {
        let mut arming = Arming::new(true);
        assert_eq!(arming.step(Some(&1), false, 0), Step::Set);
        assert_eq!(arming.refused(0), Outcome::Lost);
        assert!(!arming.is_armed());
        assert_eq!(arming.step(Some(&1), false, RETRY - 1), Step::Keep);
        assert_eq!(arming.step(Some(&1), false, RETRY), Step::Set);
        assert_eq!(arming.refused(RETRY), Outcome::AsBefore);
        assert_eq!(arming.step(Some(&1), false, 2 * RETRY), Step::Set);
        assert_eq!(arming.set(1), Outcome::Regained);
        assert!(arming.is_armed());
    }

    #[test]
    fn nothing_is_watched_that_is_to_be_polled() {
        let mut arming = Arming::new(false);
        assert_eq!(arming.step(Some(&1), false, 0), Step::Keep);
        assert_eq!(arming.step(None, false, 0), Step::Keep);
    }
}
