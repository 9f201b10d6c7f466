//! The time that all policies of one request may use together.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::{MILLI, Nanos};

/// Past this the remaining policies of a request take their defaults (design: 10 ms).
const LIMIT: Nanos = 10 * MILLI;

/// What is left of a request's time for policies.
#[derive(Debug)]
pub struct Budget(AtomicU64);

impl Default for Budget {
    fn default() -> Self {
        Self(AtomicU64::new(LIMIT))
    }
}

impl Budget {
    /// Takes what a call used.
    pub fn spend(&self, used: Nanos) {
        let left = self.left();
        self.0.store(left.saturating_sub(used), Ordering::Relaxed);
    }

    /// What is left.
    #[must_use]
    pub fn left(&self) -> Nanos {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn spent(&self) -> bool {
        self.left() == 0
    }

    /// What has been used so far.
    #[must_use]
    pub fn used(&self) -> Nanos {
        LIMIT.saturating_sub(self.left())
    }
}
