//! What is left of a rate.

use crate::clock::{Nanos, SECOND};

/// A bucket that fills at a rate a minute and holds one minute's worth.
///
/// What is taken may be more than it holds: a request that is larger than a whole minute's worth goes when the bucket
/// is full, and leaves a debt that those after it wait for. So no request waits for ever, and the rate holds on
/// average.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bucket {
    level: f64,
    at: Nanos,
}

const MINUTE: f64 = 60.0 * SECOND as f64;

impl Bucket {
    /// A full one.
    pub(super) fn full(per_minute: u32, now: Nanos) -> Self {
        Self { level: per_minute.into(), at: now }
    }

    /// Lets in what has come since. A clock that goes back lets in nothing.
    #[expect(clippy::cast_precision_loss, reason = "a fraction of a token more or less")]
    pub(super) fn fill(&mut self, per_minute: u32, now: Nanos) {
        let rate = f64::from(per_minute) / MINUTE;
        let come = now.saturating_sub(self.at) as f64 * rate;
        self.level = (self.level + come).min(per_minute.into());
        self.at = self.at.max(now);
    }

    /// Nanoseconds until this much can be taken; 0 when it can be now.
    #[expect(clippy::cast_precision_loss, reason = "a fraction of a token more or less")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; a cast saturates")]
    pub(super) fn wait(&self, amount: u64, per_minute: u32) -> Nanos {
        let needed = (amount as f64).min(per_minute.into());
        let missing = (needed - self.level).max(0.0);
        (missing * MINUTE / f64::from(per_minute)).ceil() as Nanos
    }

    /// Takes this much, or gives it back where it is negative.
    #[expect(clippy::cast_precision_loss, reason = "a fraction of a token more or less")]
    pub(super) fn take(&mut self, amount: i64) {
        self.level -= amount as f64;
    }

    /// What is left; below 0 it is a debt.
    pub(super) fn level(&self) -> f64 {
        self.level
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_minutes_worth_goes_at_once_and_the_rest_as_it_comes() {
        let mut bucket = Bucket::full(60, 0);
        bucket.take(60);
        assert_eq!(bucket.wait(1, 60), SECOND);
        bucket.fill(60, SECOND);
        assert_eq!(bucket.wait(1, 60), 0);
        bucket.fill(60, 3_600 * SECOND);
        assert!((bucket.level() - 60.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_larger_than_a_minute_goes_when_the_bucket_is_full_and_leaves_a_debt() {
        let mut bucket = Bucket::full(60, 0);
        assert_eq!(bucket.wait(600, 60), 0);
        bucket.take(600);
        assert_eq!(bucket.wait(1, 60), 541 * SECOND);
    }

    #[test]
    fn a_clock_that_goes_back_lets_nothing_in() {
        let mut bucket = Bucket::full(60, 100 * SECOND);
        bucket.take(60);
        bucket.fill(60, 0);
        assert_eq!(bucket.wait(1, 60), SECOND);
        bucket.fill(60, 101 * SECOND);
        assert_eq!(bucket.wait(1, 60), 0);
    }

    proptest! {
        /// Whatever is asked for and when: what was taken without a debt fits the rate, and after the time that was
        /// told it can be taken.
        #[test]
        fn no_more_goes_than_comes(
            per_minute in 1_u32..10_000, asks in prop::collection::vec((0_u64..200, 0_u64..5_000), 1..100),
        ) {
            let mut bucket = Bucket::full(per_minute, 0);
            let (mut now, mut taken, mut last) = (0, 0_u64, 0_u64);
            for (amount, pause_ms) in asks {
                now += pause_ms * 1_000_000;
                bucket.fill(per_minute, now);
                let wait = bucket.wait(amount, per_minute);
                if wait == 0 {
                    bucket.take(amount.try_into().unwrap());
                    taken += amount;
                    last = amount;
                } else {
                    let mut later = bucket;
                    // A nanosecond's worth is lost to rounding.
                    later.fill(per_minute, now + wait + 1_000);
                    prop_assert_eq!(later.wait(amount, per_minute), 0);
                }
            }
            let come = f64::from(per_minute) * (1.0 + now as f64 / MINUTE);
            prop_assert!((taken - last) as f64 <= come + 1e-6, "{taken} of {come}");
        }
    }
}
