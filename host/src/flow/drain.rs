//! How fast something goes, measured.

use std::time::Duration;

use crate::clock::{Nanos, SECOND};

/// Seconds after which what went counts for a third.
const FADES: f64 = 10.0;
/// Faded counts below this say nothing.
const TOLD: f64 = 0.5;
/// The longest time that is estimated.
const LONGEST: Duration = Duration::from_secs(600);

/// A rate over the last seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Drain {
    count: f64,
    /// Seconds that the count stands for, faded like it.
    seconds: f64,
    at: Option<Nanos>,
}

impl Drain {
    /// One went now.
    pub(super) fn note(&mut self, now: Nanos) {
        *self = self.faded(now);
        self.count += 1.0;
    }

    /// How many go in a second; none while that is not known.
    pub(super) fn per_second(&self, now: Nanos) -> Option<f64> {
        let faded = self.faded(now);
        // The first second counts whole: one that went just now is no rate of a billion.
        (faded.count >= TOLD).then(|| faded.count / faded.seconds.max(1.0))
    }

    #[expect(clippy::cast_precision_loss, reason = "a duration")]
    fn faded(&self, now: Nanos) -> Self {
        let Some(at) = self.at else { return Self { at: Some(now), ..*self } };
        let seconds = now.saturating_sub(at) as f64 / SECOND as f64;
        let fade = (-seconds / FADES).exp();
        // The integral of what fades over the time that has passed.
        let passed = FADES * (1.0 - fade);
        Self { count: self.count * fade, seconds: self.seconds * fade + passed, at: Some(at.max(now)) }
    }
}

/// The time in which `requests` go at this rate.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
pub(super) fn time(requests: usize, per_second: f64) -> Duration {
    let seconds = requests as f64 / per_second.max(f64::MIN_POSITIVE);
    Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::MILLI;

    #[test]
    fn a_steady_rate_is_found_and_follows() {
        let mut drain = Drain::default();
        assert_eq!(drain.per_second(0), None);
        let mut now = 0;
        let mut go = |drain: &mut Drain, times: u32, gap| {
            for _ in 0..times {
                now += gap;
                drain.note(now);
            }
            drain.per_second(now).unwrap()
        };
        let rate = go(&mut drain, 100, 100 * MILLI);
        assert!((9.0..11.5).contains(&rate), "{rate}");
        let rate = go(&mut drain, 40, SECOND);
        assert!((0.9..1.6).contains(&rate), "{rate}");
    }

    #[test]
    fn what_stands_still_is_not_known_after_a_while() {
        let mut drain = Drain::default();
        drain.note(SECOND);
        assert!(drain.per_second(2 * SECOND).is_some());
        assert_eq!(drain.per_second(60 * SECOND), None);
        // A clock that jumps back changes nothing.
        assert!(drain.per_second(0).is_some());
    }

    #[test]
    fn times_are_bounded() {
        assert_eq!(time(10, 2.0), Duration::from_secs(5));
        assert_eq!(time(usize::MAX, 0.0), LONGEST);
    }
}
