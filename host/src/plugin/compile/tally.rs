//! How often code was made in which way, and how long it took.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Where code came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The private cache.
    Cache,
    /// A process of its own.
    Child,
    /// This process.
    Inline,
}

impl How {
    const ALL: [Self; 3] = [Self::Cache, Self::Child, Self::Inline];

    /// For metrics and the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Child => "child",
            Self::Inline => "inline",
        }
    }
}

/// What one way has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compiled {
    /// Which.
    pub how: How,
    /// How often, failures included.
    pub count: u64,
    /// Wall time, all together.
    pub time: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    cells: [(AtomicU64, AtomicU64); 3],
}

impl Tally {
    pub(super) fn note(&self, how: How, took: Duration) {
        if let Some((count, nanos)) = self.cells.get(how as usize) {
            count.fetch_add(1, Ordering::Relaxed);
            nanos.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    pub(super) fn read(&self) -> Vec<Compiled> {
        let read = |(how, (count, nanos)): (How, &(AtomicU64, AtomicU64))| Compiled {
            how,
            count: count.load(Ordering::Relaxed),
            time: Duration::from_nanos(nanos.load(Ordering::Relaxed)),
        };
        How::ALL.into_iter().zip(&self.cells).map(read).collect()
    }
}
