//! How long a plugin's calls took, by stage, without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Stage;
use crate::clock::Nanos;

/// Upper bounds of the buckets in nanoseconds; a last one takes the rest.
pub const BOUNDS: [Nanos; 12] =
    [500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 500_000, 1_000_000, 5_000_000, 10_000_000];

#[derive(Debug, Default)]
struct Histogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum: AtomicU64,
}

/// Durations of one plugin's calls.
#[derive(Debug, Default)]
pub struct CallTimes([Histogram; Stage::ALL.len()]);

/// The durations of one stage at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageTimes {
    /// Calls in each bucket of [`BOUNDS`], and in the rest.
    pub buckets: [u64; BOUNDS.len() + 1],
    /// Nanoseconds of all calls together.
    pub sum: Nanos,
}

impl CallTimes {
    /// Notes one call.
    pub fn note(&self, stage: Stage, took: Nanos) {
        let bucket = BOUNDS.iter().take_while(|bound| **bound < took).count();
        let Some(histogram) = self.0.get(stage as usize) else { return };
        if let Some(bucket) = histogram.buckets.get(bucket) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        histogram.sum.fetch_add(took, Ordering::Relaxed);
    }

    /// The durations of each stage that was called.
    pub fn stages(&self) -> impl Iterator<Item = (Stage, StageTimes)> + '_ {
        Stage::ALL.into_iter().zip(&self.0).filter_map(|(stage, histogram)| {
            let buckets = std::array::from_fn(|n| {
                histogram.buckets.get(n).map_or(0, |bucket| bucket.load(Ordering::Relaxed))
            });
            let called = buckets.iter().any(|count| *count > 0);
            called.then(|| (stage, StageTimes { buckets, sum: histogram.sum.load(Ordering::Relaxed) }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_fall_into_their_buckets() {
        let times = CallTimes::default();
        times.note(Stage::Scorer, 500);
        times.note(Stage::Scorer, 501);
        times.note(Stage::Scorer, u64::MAX / 2);
        let stages: Vec<_> = times.stages().collect();
        assert_eq!(stages.len(), 1);
        let (stage, times) = &stages[0];
        assert_eq!(*stage, Stage::Scorer);
        assert_eq!((times.buckets[0], times.buckets[1], times.buckets[BOUNDS.len()]), (1, 1, 1));
    }
}
