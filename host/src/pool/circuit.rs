//! Whether an endpoint is trusted with requests, by how the last ones fared there.
//!
//! A circuit opens (the endpoint is ejected) after failures in a row, or when most of its latest requests failed.
//! When its time is up one request at a time tries it; the first that succeeds closes it, the first that fails opens
//! it again for twice as long. An endpoint that said it is busy gets nothing for the time that it asked for, and one
//! that comes back or joins late gets a growing share of the requests. None of this is the last word: such
//! endpoints come last, and are tried before a request fails.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::clock::{Nanos, SECOND};

/// Requests after which a share of failures says something.
const ENOUGH: u32 = 20;
/// Share of successes below which an endpoint with enough requests is ejected.
const MOST: f32 = 0.5;
/// The first share of requests of an endpoint that comes back.
const FIRST_SHARE: f64 = 0.1;
/// Longest time for which an endpoint is left alone because it is busy.
const MAX_PAUSE: Nanos = 60 * SECOND;

/// When endpoints of a pool are ejected, and how they come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ejection {
    /// Failures in a row that eject an endpoint; 0 ejects none.
    pub after: u32,
    /// Time of the first ejection; each that follows without a success between takes twice as long.
    pub first: Nanos,
    /// Longest time of an ejection.
    pub longest: Nanos,
    /// Share of a pool's endpoints that may be ejected at a time, percent.
    pub percent: u32,
    /// Time in which an endpoint that comes back gets its whole share of the requests again.
    pub slow_start: Nanos,
}

impl Default for Ejection {
    fn default() -> Self {
        Self { after: 5, first: 5 * SECOND, longest: 300 * SECOND, percent: 50, slow_start: 5 * SECOND }
    }
}

/// What an endpoint's circuit lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// Every request.
    Closed,
    /// None, until then.
    Open(Nanos),
    /// One request at a time.
    HalfOpen,
}

/// The circuit of one endpoint.
#[derive(Debug, Default)]
pub struct Circuit {
    /// 0 while it is closed.
    until: AtomicU64,
    paused_until: AtomicU64,
    /// Since when it comes back; 0 when it has its whole share.
    back_since: AtomicU64,
    failures: AtomicU32,
    seen: AtomicU32,
    /// Ejections in a row.
    again: AtomicU32,
    ejections: AtomicU64,
    trying: AtomicBool,
    joins_late: AtomicBool,
}

impl Circuit {
    /// What it lets through.
    #[must_use]
    pub fn passage(&self, now: Nanos) -> Passage {
        match self.until.load(Relaxed) {
            0 => Passage::Closed,
            until if now < until => Passage::Open(until),
            _ => Passage::HalfOpen,
        }
    }

    /// Whether it has let everything through since the last success.
    #[must_use]
    pub fn closed(&self) -> bool {
        self.until.load(Relaxed) == 0
    }

    /// Whether a request may go there now.
    #[must_use]
    pub fn admits(&self, now: Nanos) -> bool {
        match self.passage(now) {
            Passage::Closed => !self.paused(now),
            Passage::Open(_) => false,
            Passage::HalfOpen => !self.trying.load(Relaxed) && !self.paused(now),
        }
    }

    /// Whether it asked to be left alone.
    #[must_use]
    pub fn paused(&self, now: Nanos) -> bool {
        now < self.paused_until.load(Relaxed)
    }

    /// For how long it still asked to be left alone.
    #[must_use]
    pub fn paused_for(&self, now: Nanos) -> Nanos {
        self.paused_until.load(Relaxed).saturating_sub(now)
    }

    /// The share of requests that it may get, 0..=1.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share of some seconds")]
    pub fn share(&self, now: Nanos, slow_start: Nanos) -> f64 {
        let since = self.back_since.load(Relaxed);
        let back_for = now.saturating_sub(since);
        if since == 0 || back_for >= slow_start {
            return 1.0;
        }
        (back_for as f64 / slow_start as f64).max(FIRST_SHARE)
    }

    /// Ejections so far.
    #[must_use]
    pub fn ejections(&self) -> u64 {
        self.ejections.load(Relaxed)
    }

    /// It is new in a pool that serves already.
    pub(super) fn join_late(&self) {
        self.joins_late.store(true, Relaxed);
    }

    /// It can be reached, and could not before.
    pub(super) fn came_up(&self, now: Nanos, was_down: bool) {
        if was_down || self.joins_late.swap(false, Relaxed) {
            self.back_since.store(now.max(1), Relaxed);
        }
    }

    /// Takes the one place of a half-open circuit. False when it is taken, or none is needed.
    pub(super) fn begin_trial(&self, now: Nanos) -> bool {
        self.passage(now) == Passage::HalfOpen && !self.trying.swap(true, Relaxed)
    }

    /// Gives the place back.
    pub(super) fn end_trial(&self) {
        self.trying.store(false, Relaxed);
    }

    /// It asked to be left alone for this time.
    pub(super) fn pause(&self, now: Nanos, time: Nanos) {
        self.paused_until.fetch_max(now.saturating_add(time.min(MAX_PAUSE)), Relaxed);
    }

    /// A request succeeded there. True when that closed the circuit.
    pub(super) fn succeeded(&self, now: Nanos) -> bool {
        // Most calls change nothing; they must not take the cache line from those who read it.
        if self.failures.load(Relaxed) != 0 {
            self.failures.store(0, Relaxed);
        }
        if self.seen.load(Relaxed) < ENOUGH {
            self.seen.fetch_add(1, Relaxed);
        }
        match self.passage(now) {
            // What was sent before the ejection says nothing of what comes after it.
            Passage::Closed | Passage::Open(_) => false,
            Passage::HalfOpen => {
                self.until.store(0, Relaxed);
                self.again.store(0, Relaxed);
                self.seen.store(0, Relaxed);
                self.back_since.store(now.max(1), Relaxed);
                true
            }
        }
    }

    /// A request failed there; `success` is the moving share of those that did not. `room` says whether one more
    /// endpoint of the pool may be ejected. True when it opened the circuit.
    pub(super) fn failed(
        &self,
        now: Nanos,
        success: f32,
        ejection: &Ejection,
        room: impl FnOnce() -> bool,
    ) -> bool {
        let failures = self.failures.fetch_add(1, Relaxed).saturating_add(1);
        let seen = self.seen.fetch_add(1, Relaxed).saturating_add(1);
        let bad = failures >= ejection.after || (seen >= ENOUGH && success < MOST);
        let opens = ejection.after > 0
            && match self.passage(now) {
                Passage::Closed => bad && room(),
                Passage::Open(_) => false,
                Passage::HalfOpen => true,
            };
        if opens {
            let again = self.again.fetch_add(1, Relaxed).min(30);
            let time = ejection.first.saturating_mul(1 << again).min(ejection.longest);
            self.until.store(now.saturating_add(time).max(1), Relaxed);
            self.failures.store(0, Relaxed);
            self.seen.store(0, Relaxed);
            self.ejections.fetch_add(1, Relaxed);
        }
        opens
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EJECTION: Ejection = Ejection { after: 3, first: 10, longest: 35, percent: 50, slow_start: 100 };

    fn fail(circuit: &Circuit, now: Nanos) -> bool {
        circuit.failed(now, 0.9, &EJECTION, || true)
    }

    #[test]
    fn failures_in_a_row_open_it_and_each_time_takes_twice_as_long() {
        let circuit = Circuit::default();
        assert!(!fail(&circuit, 1) && !fail(&circuit, 2));
        assert!(!circuit.succeeded(3));
        assert!(!fail(&circuit, 4) && !fail(&circuit, 5) && fail(&circuit, 6));
        assert_eq!(circuit.passage(15), Passage::Open(16));
        assert!(!circuit.admits(15) && circuit.admits(16));
        for (now, until) in [(16, 36), (36, 71), (71, 106)] {
            assert!(fail(&circuit, now), "a half-open circuit opens at the first failure");
            assert_eq!(circuit.passage(now), Passage::Open(until));
        }
        assert!(circuit.succeeded(106) && circuit.closed());
        assert_eq!(circuit.ejections(), 4);
    }

    #[test]
    fn a_half_open_circuit_lets_one_through_at_a_time() {
        let circuit = Circuit::default();
        (1..=3).for_each(|now| _ = fail(&circuit, now));
        assert!(!circuit.begin_trial(12));
        assert!(circuit.begin_trial(13));
        assert!(!circuit.begin_trial(13) && !circuit.admits(13));
        circuit.end_trial();
        assert!(circuit.admits(14));
    }

    #[test]
    fn most_failing_is_enough_without_a_row() {
        let circuit = Circuit::default();
        for now in 0..40 {
            circuit.succeeded(now);
        }
        assert!(circuit.failed(41, 0.4, &EJECTION, || true));
    }

    #[test]
    fn without_room_nothing_is_ejected() {
        let circuit = Circuit::default();
        for now in 0..20 {
            assert!(!circuit.failed(now, 0.0, &EJECTION, || false));
        }
        assert!(circuit.admits(20));
    }

    #[test]
    fn what_comes_back_gets_a_growing_share() {
        let circuit = Circuit::default();
        circuit.came_up(5, false);
        assert!((circuit.share(5, 100) - 1.0).abs() < 1e-9);
        circuit.came_up(5, true);
        for (now, share) in [(5, 0.1), (55, 0.5), (95, 0.9), (105, 1.0)] {
            assert!((circuit.share(now, 100) - share).abs() < 1e-9, "{now}");
        }
        assert!((circuit.share(5, 0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_busy_is_left_alone_for_a_bounded_time() {
        let circuit = Circuit::default();
        circuit.pause(10, 5);
        assert!(circuit.paused(14) && !circuit.admits(14) && circuit.admits(15));
        circuit.pause(10, Nanos::MAX);
        assert!(circuit.admits(10 + MAX_PAUSE));
    }

    proptest! {
        /// Whatever happens, it admits again in time, and a success then closes it.
        #[test]
        fn it_never_stays_open(steps in prop::collection::vec((any::<bool>(), 0..50u64), 0..200)) {
            let circuit = Circuit::default();
            let mut now = 0;
            for (good, pause) in steps {
                now += pause;
                if good {
                    circuit.succeeded(now);
                } else {
                    circuit.failed(now, 0.0, &EJECTION, || true);
                }
                prop_assert!(circuit.admits(now + EJECTION.longest));
            }
            circuit.succeeded(now + EJECTION.longest);
            prop_assert!(circuit.closed());
        }
    }
}
