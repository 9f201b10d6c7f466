//! The time that all policies of one request may use together.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::{MILLI, Nanos};

/// What is left of a request's time for policies. Once it is spent the remaining ones take their defaults.
#[derive(Debug)]
pub struct Budget {
    limit: Nanos,
    left: AtomicU64,
}

impl Default for Budget {
    /// The limit that applies where the configuration sets none.
    fn default() -> Self {
        Self::new(10 * MILLI)
    }
}

impl Budget {
    /// A budget of `limit` of CPU time.
    #[must_use]
    pub fn new(limit: Nanos) -> Self {
        Self { limit, left: AtomicU64::new(limit) }
    }

    /// All of it, whatever has been used.
    #[must_use]
    pub fn limit(&self) -> Nanos {
        self.limit
    }

    /// Takes what a call used.
    pub fn spend(&self, used: Nanos) {
        let left = self.left();
        self.left.store(left.saturating_sub(used), Ordering::Relaxed);
    }

    /// What is left.
    #[must_use]
    pub fn left(&self) -> Nanos {
        self.left.load(Ordering::Relaxed)
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn spent(&self) -> bool {
        self.left() == 0
    }

    /// What has been used so far.
    #[must_use]
    pub fn used(&self) -> Nanos {
        self.limit.saturating_sub(self.left())
    }
}
