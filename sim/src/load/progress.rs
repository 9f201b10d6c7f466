//! How far a run has come, for whoever watches it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of a run under way.
#[derive(Debug, Default)]
pub struct Progress {
    started: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
}

impl Progress {
    /// A request was sent.
    pub(super) fn start(&self) {
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    /// A request has ended.
    pub(super) fn end(&self, failed: bool) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.failed.fetch_add(u64::from(failed), Ordering::Relaxed);
    }

    /// Requests sent so far.
    #[must_use]
    pub fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// Requests that have ended.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Of those, the ones that failed.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}
