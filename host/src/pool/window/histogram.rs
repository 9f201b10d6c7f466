//! Times in buckets that grow by a constant factor, so that a quantile is known to a constant relative error.

use crate::clock::{MILLI, Nanos};

/// Upper edge of a bucket by its lower edge. A quantile is read as the geometric middle of its bucket, so it is
/// off by the root of this at most: 10 %.
const GROWTH: f64 = 1.21;

/// From 1 ms to 15 min. Shorter times count as the first bucket's, longer ones as the last one's.
const BUCKETS: usize = 72;

/// How many times fell into each bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram([u32; BUCKETS]);

impl Default for Histogram {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

/// The bucket of a time, to be found before a lock is taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket(usize);

impl Bucket {
    #[expect(clippy::cast_precision_loss, reason = "a time is known to 10 %")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast to usize saturates")]
    pub(super) fn of(time: Nanos) -> Self {
        let steps = (time as f64 / MILLI as f64).ln() / GROWTH.ln();
        Self((steps as usize).min(BUCKETS - 1))
    }
}

impl Histogram {
    pub(super) fn add(&mut self, bucket: Bucket) {
        if let Some(count) = self.0.get_mut(bucket.0) {
            *count = count.saturating_add(1);
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (count, other) in self.0.iter_mut().zip(&other.0) {
            *count = count.saturating_add(*other);
        }
    }

    /// How many times there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|count| u64::from(*count)).sum()
    }

    /// How many lie in buckets that begin at `ms` milliseconds or above.
    #[must_use]
    pub fn above(&self, ms: f64) -> u64 {
        let above = (0..).zip(&self.0).filter(|(bucket, _)| GROWTH.powi(*bucket) >= ms);
        above.map(|(_, count)| u64::from(*count)).sum()
    }

    /// The time, in milliseconds, that a share `q` of all times does not exceed; none without times.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank of a count")]
    pub fn quantile_ms(&self, q: f64) -> Option<f64> {
        let rank = ((self.count() as f64 * q).ceil() as u64).max(1);
        let mut below = 0;
        for (bucket, count) in (0..).zip(&self.0) {
            below += u64::from(*count);
            if below >= rank {
                return Some(GROWTH.powi(bucket) * GROWTH.sqrt());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn quantiles_are_right_to_ten_per_cent(
            times in prop::collection::vec(MILLI..600_000 * MILLI, 1..200),
            q in 0.01..1.0_f64,
        ) {
            let mut histogram = Histogram::default();
            for time in &times {
                histogram.add(Bucket::of(*time));
            }
            let mut sorted = times.clone();
            sorted.sort_unstable();
            let rank = ((times.len() as f64 * q).ceil() as usize).max(1);
            let exact = sorted[rank - 1] as f64 / MILLI as f64;
            let read = histogram.quantile_ms(q).unwrap();
            prop_assert!((read / exact).ln().abs() <= 1.1001_f64.ln(), "{read} for {exact}");
            prop_assert_eq!(histogram.count(), times.len() as u64);
        }
    }

    #[test]
    fn times_out_of_bounds_count_as_the_nearest() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile_ms(0.9), None);
        for time in [0, 1, 3_600_000 * MILLI, Nanos::MAX] {
            histogram.add(Bucket::of(time));
        }
        assert_eq!((histogram.count(), histogram.above(2.0)), (4, 2));
        assert!(histogram.quantile_ms(0.5).unwrap() < 1.11);
    }
}
