//! When a plugin is set aside.
//!
//! Three failed calls in a row, or ten of the last hundred, over all instances, set a plugin aside for
//! 30 s; each further time doubles that, to 10 min at most. A new file brings a new [`Health`]. While
//! it is set aside nothing asks the plugin: its stages take their defaults.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::Reason;
use crate::clock::{Nanos, SECOND};

const IN_A_ROW: u32 = 3;
const OF_LAST: u32 = 10;
const LAST: u32 = 100;
const FIRST_PAUSE: Nanos = 30 * SECOND;
const LONGEST_PAUSE: Nanos = 600 * SECOND;
/// Once it has behaved for this long after a pause, the next pause is a first one again.
const FORGIVEN_AFTER: Nanos = 600 * SECOND;

#[derive(Debug)]
struct State {
    in_a_row: u32,
    /// One bit a call, the newest lowest; 1 is a failure.
    last: u128,
    pause: Nanos,
    until: Nanos,
}

/// Failures of one loaded version of a plugin, over all its instances.
#[derive(Debug)]
pub struct Health {
    state: Mutex<State>,
    /// When it may be asked again; 0 while it is in use. Read on every call, hence outside the lock.
    aside_until: AtomicU64,
    /// Whether the last calls held a failure, so that success need not take the lock.
    troubled: AtomicU64,
    counts: [AtomicU64; Reason::ALL.len()],
    calls: AtomicU64,
    clamped: AtomicU64,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            state: Mutex::new(State { in_a_row: 0, last: 0, pause: FIRST_PAUSE, until: 0 }),
            aside_until: AtomicU64::new(0),
            troubled: AtomicU64::new(0),
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            calls: AtomicU64::new(0),
            clamped: AtomicU64::new(0),
        }
    }
}

impl Health {
    /// Whether the plugin may be asked.
    #[must_use]
    pub fn usable(&self, now: Nanos) -> bool {
        let until = self.aside_until.load(Ordering::Relaxed);
        until == 0 || now >= until
    }

    /// When a plugin that is set aside may be asked again.
    #[must_use]
    pub fn aside_until(&self, now: Nanos) -> Option<Nanos> {
        (!self.usable(now)).then(|| self.aside_until.load(Ordering::Relaxed))
    }

    /// Notes a usable answer.
    pub fn succeeded(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.troubled.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut state = self.state.lock();
        state.in_a_row = 0;
        state.last = (state.last << 1) & window();
        if state.last == 0 {
            self.troubled.store(0, Ordering::Relaxed);
        }
    }

    /// Notes a call without a usable answer. Says whether the plugin has just been set aside.
    pub fn failed(&self, reason: Reason, now: Nanos) -> bool {
        self.count(reason);
        if !reason.is_failure() {
            return false;
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.troubled.store(1, Ordering::Relaxed);
        let mut state = self.state.lock();
        state.in_a_row += 1;
        state.last = ((state.last << 1) | 1) & window();
        if state.in_a_row < IN_A_ROW && state.last.count_ones() < OF_LAST {
            return false;
        }
        self.pause(&mut state, now)
    }

    /// Sets the plugin aside for what [`Self::failed`] cannot see among its other calls: one of its functions that
    /// fails each time while others go well. Says whether it has just been set aside.
    pub fn set_aside(&self, now: Nanos) -> bool {
        self.troubled.store(1, Ordering::Relaxed);
        self.pause(&mut self.state.lock(), now)
    }

    fn pause(&self, state: &mut State, now: Nanos) -> bool {
        if now < state.until {
            // Calls that were under way when it was set aside.
            return false;
        }
        let forgiven = now.saturating_sub(state.until) > FORGIVEN_AFTER;
        let pause = if state.until == 0 || forgiven { FIRST_PAUSE } else { state.pause };
        state.until = now + pause;
        state.pause = (pause * 2).min(LONGEST_PAUSE);
        // One more failure after the pause is enough to set it aside again.
        state.in_a_row = IN_A_ROW - 1;
        state.last = 0;
        self.aside_until.store(state.until, Ordering::Relaxed);
        true
    }

    /// Counts scores that had to be clamped.
    pub fn clamped(&self, scores: usize) {
        self.clamped.fetch_add(scores as u64, Ordering::Relaxed);
    }

    /// Calls that were answered, well or not.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Scores that had to be clamped.
    #[must_use]
    pub fn clamped_scores(&self) -> u64 {
        self.clamped.load(Ordering::Relaxed)
    }

    /// How often each reason occurred.
    pub fn failures(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        Reason::ALL
            .into_iter()
            .zip(&self.counts)
            .map(|(reason, count)| (reason, count.load(Ordering::Relaxed)))
    }

    fn count(&self, reason: Reason) {
        if let Some((_, count)) = Reason::ALL.iter().zip(&self.counts).find(|(known, _)| **known == reason) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn window() -> u128 {
    (1 << LAST) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_in_a_row_set_it_aside_and_the_pause_doubles() {
        let health = Health::default();
        assert!(!health.failed(Reason::Trap, 1));
        assert!(!health.failed(Reason::Trap, 1));
        assert!(health.failed(Reason::Trap, 1));
        assert!(!health.usable(SECOND));
        assert!(health.usable(31 * SECOND));
        assert!(health.failed(Reason::Trap, 31 * SECOND));
        assert!(!health.usable(90 * SECOND));
        assert!(health.usable(92 * SECOND));
    }

    #[test]
    fn ten_of_the_last_hundred_set_it_aside() {
        let health = Health::default();
        for call in 0..9 {
            assert!(!health.failed(Reason::NotFinite, call));
            for _ in 0..5 {
                health.succeeded();
            }
        }
        assert!(health.failed(Reason::NotFinite, 10));
    }

    #[test]
    fn what_others_see_sets_it_aside_once() {
        let health = Health::default();
        assert!(health.set_aside(1));
        assert!(!health.set_aside(2));
        assert!(!health.usable(SECOND));
        assert!(health.usable(31 * SECOND));
    }

    #[test]
    fn failures_spread_thinly_do_not() {
        let health = Health::default();
        for call in 0..1_000 {
            assert!(!health.failed(Reason::Deadline, call));
            for _ in 0..20 {
                health.succeeded();
            }
        }
    }

    #[test]
    fn what_was_not_asked_counts_but_is_no_failure() {
        let health = Health::default();
        for _ in 0..10 {
            assert!(!health.failed(Reason::BudgetSpent, 0));
        }
        assert_eq!(health.calls(), 0);
        assert!(health.failures().any(|entry| entry == (Reason::BudgetSpent, 10)));
    }
}
