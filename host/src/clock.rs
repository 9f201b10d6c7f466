//! Time, injected.
//!
//! Everything below the sockets takes a [`Clock`] instead of reading the system's, so that tests and
//! replay decide what time it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Nanoseconds of a monotonic clock since some start.
pub type Nanos = u64;

/// One millisecond in [`Nanos`].
pub const MILLI: Nanos = 1_000_000;

/// One second in [`Nanos`].
pub const SECOND: Nanos = 1_000_000_000;

/// A duration in [`Nanos`]; one that is longer than they can say is the longest.
#[must_use]
pub fn nanos(duration: Duration) -> Nanos {
    Nanos::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}

/// A source of monotonic time.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Nanoseconds since the clock's start; never goes back.
    fn now(&self) -> Nanos;
}

/// The system's monotonic clock, counted from its creation.
#[derive(Debug)]
pub struct RealClock(Instant);

impl RealClock {
    /// A clock that starts now.
    #[must_use]
    pub fn start() -> Arc<Self> {
        Arc::new(Self(Instant::now()))
    }
}

impl Clock for RealClock {
    fn now(&self) -> Nanos {
        nanos(self.0.elapsed())
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that stands at `now`.
    #[must_use]
    pub fn at(now: Nanos) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(now)))
    }

    /// Moves the clock on.
    pub fn advance(&self, by: Nanos) {
        self.0.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Nanos {
        self.0.load(Ordering::SeqCst)
    }
}
