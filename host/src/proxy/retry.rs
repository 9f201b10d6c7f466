//! How many attempts beyond the first a pool allows.
//!
//! Retries of answers that failed (5xx, time-outs) may be a share of the requests, plus a few a second so that a
//! quiet pool can retry at all; an engine that fails everything is not hit twice as hard for it. What was refused
//! or reset before any byte of an answer is not counted: no work was done there.

use parking_lot::Mutex;

use crate::clock::{Nanos, SECOND};

/// Retries that may be saved up, in seconds of the fixed rate.
const SAVED_SECONDS: f64 = 10.0;

#[derive(Debug)]
struct State {
    tokens: f64,
    at: Nanos,
}

/// A pool's budget.
#[derive(Debug)]
pub struct RetryBudget {
    per_request: f64,
    per_second: f64,
    state: Mutex<State>,
}

impl RetryBudget {
    /// `percent` of the requests, plus `per_second`.
    #[must_use]
    pub fn new(percent: u32, per_second: u32) -> Self {
        let per_second = f64::from(per_second);
        let state = Mutex::new(State { tokens: per_second, at: 0 });
        Self { per_request: f64::from(percent) / 100.0, per_second, state }
    }

    /// A request came.
    pub fn deposit(&self) {
        let mut state = self.state.lock();
        state.tokens = (state.tokens + self.per_request).min(self.cap());
    }

    /// Takes one retry out, if there is one.
    #[must_use]
    pub fn withdraw(&self, now: Nanos) -> bool {
        let mut state = self.state.lock();
        #[expect(clippy::cast_precision_loss, reason = "seconds between two requests")]
        let seconds = now.saturating_sub(state.at) as f64 / SECOND as f64;
        state.at = now;
        state.tokens = (state.tokens + seconds * self.per_second).min(self.cap());
        if state.tokens < 1.0 {
            return false;
        }
        state.tokens -= 1.0;
        true
    }

    fn cap(&self) -> f64 {
        self.per_second.mul_add(SAVED_SECONDS, 100.0 * self.per_request).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_a_share_of_requests_and_a_rate() {
        let budget = RetryBudget::new(20, 2);
        assert!(budget.withdraw(0) && budget.withdraw(0));
        assert!(!budget.withdraw(0));
        for _ in 0..6 {
            budget.deposit();
        }
        assert!(budget.withdraw(0));
        assert!(!budget.withdraw(0));
        assert!(budget.withdraw(SECOND) && budget.withdraw(SECOND));
        assert!(!budget.withdraw(SECOND));
    }
}
