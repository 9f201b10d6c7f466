//! How long something takes by its size: a fixed time, and so much for each token.
//!
//! The line of least squares through the latest samples, in which older ones fade. The ratio of the means alone would
//! take the fixed time for a slow rate wherever samples are short.

use parking_lot::Mutex;

/// Samples after which one counts for a third.
const FADES: f64 = 32.0;
/// Spread of the sizes, as a share of their mean, from which a slope can be told from noise.
const SPREAD: f64 = 0.1;
/// The most of the mean time that can be fixed: what noise could make of it is no rate.
const MOST_FIXED: f64 = 0.9;

/// Samples of one kind, at one endpoint.
#[derive(Debug, Default)]
pub(super) struct Trend(Mutex<Moments>);

#[derive(Debug, Default, Clone, Copy)]
struct Moments {
    count: f64,
    tokens: f64,
    ms: f64,
    spread: f64,
    together: f64,
}

/// What a [`Trend`] has come to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    /// Milliseconds at no size.
    pub(super) fixed_ms: f32,
    /// Tokens a second beyond that.
    pub(super) tokens_per_s: f32,
}

impl Trend {
    /// Takes a sample: `ms` for `tokens`, both positive.
    pub(super) fn take(&self, tokens: u32, ms: f32) {
        if tokens > 0 && ms.is_finite() && ms > 0.0 {
            self.0.lock().take(tokens.into(), ms.into());
        }
    }

    /// None before the first sample. Where all were of one size the whole time counts as a rate. No more than
    /// `most_fixed` milliseconds are taken to be fixed; NaN where that is not known.
    pub(super) fn line(&self, most_fixed: f32) -> Option<Line> {
        let moments = *self.0.lock();
        moments.line(most_fixed.into())
    }

    /// The mean time, while samples were all of one size that is no more than `size`: such do not tell what larger ones
    /// take.
    pub(super) fn small(&self, size: f64) -> Option<f32> {
        let moments = *self.0.lock();
        #[expect(clippy::cast_possible_truncation, reason = "columns are f32 by contract")]
        let ms = moments.ms as f32;
        (moments.count >= 1.0 && !moments.is_spread() && moments.tokens <= size).then_some(ms)
    }
}

impl Moments {
    fn take(&mut self, tokens: f64, ms: f64) {
        self.count = (self.count + 1.0).min(FADES);
        let newest = 1.0 / self.count;
        let (from_tokens, from_ms) = (tokens - self.tokens, ms - self.ms);
        self.tokens += newest * from_tokens;
        self.ms += newest * from_ms;
        self.spread = (1.0 - newest) * newest.mul_add(from_tokens * from_tokens, self.spread);
        self.together = (1.0 - newest) * newest.mul_add(from_tokens * from_ms, self.together);
    }

    fn is_spread(&self) -> bool {
        self.spread > (SPREAD * self.tokens).powi(2)
    }

    fn line(self, most_fixed: f64) -> Option<Line> {
        if self.count < 1.0 {
            return None;
        }
        let whole = self.ms / self.tokens;
        let slope = if self.is_spread() { self.together / self.spread } else { whole };
        let most_fixed = most_fixed.min(MOST_FIXED * self.ms);
        let slope = slope.clamp((self.ms - most_fixed) / self.tokens, whole);
        let fixed = slope.mul_add(-self.tokens, self.ms).max(0.0);
        #[expect(clippy::cast_possible_truncation, reason = "columns are f32 by contract")]
        Some(Line { fixed_ms: fixed as f32, tokens_per_s: (1_000.0 / slope) as f32 })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(samples: &[(u32, f32)]) -> Line {
        let trend = Trend::default();
        samples.iter().for_each(|(tokens, ms)| trend.take(*tokens, *ms));
        trend.line(f32::NAN).unwrap()
    }

    #[test]
    fn nothing_is_known_before_the_first_sample() {
        let trend = Trend::default();
        assert_eq!(trend.line(f32::NAN), None);
        trend.take(0, 10.0);
        trend.take(10, f32::NAN);
        trend.take(10, 0.0);
        assert_eq!(trend.line(f32::NAN), None);
    }

    #[test]
    fn sizes_that_are_alike_give_the_whole_as_rate() {
        let one = line(&[(1_000, 100.0); 5]);
        assert!((one.tokens_per_s - 10_000.0).abs() < 1.0 && one.fixed_ms < 0.1, "{one:?}");
    }

    #[test]
    fn no_more_is_fixed_than_can_be() {
        let trend = Trend::default();
        [(300, 50.0), (800, 60.0)].iter().for_each(|(tokens, ms)| trend.take(*tokens, *ms));
        let bounded = trend.line(20.0).unwrap();
        assert!((bounded.fixed_ms - 20.0).abs() < 0.1, "{bounded:?}");
        assert!((bounded.tokens_per_s - 550.0 / 0.035).abs() < 10.0, "{bounded:?}");
    }

    #[test]
    fn small_samples_of_one_size_tell_nothing_of_large_ones() {
        let trend = Trend::default();
        assert_eq!(trend.small(1_024.0), None);
        trend.take(20, 13.0);
        assert_eq!(trend.small(1_024.0), Some(13.0));
        assert_eq!(trend.small(10.0), None);
        trend.take(8_000, 60.0);
        assert_eq!(trend.small(1e6), None);
    }

    #[test]
    fn the_latest_samples_count() {
        let mut samples = [(1_000, 100.0), (2_000, 200.0)].repeat(20);
        samples.extend([(1_000, 30.0), (2_000, 50.0)].repeat(200));
        let now = line(&samples);
        assert!((now.tokens_per_s - 50_000.0).abs() < 100.0 && (now.fixed_ms - 10.0).abs() < 0.1, "{now:?}");
    }

    #[test]
    fn what_does_not_rise_is_still_a_rate() {
        let flat = line(&[(100, 50.0), (200, 50.0), (400, 40.0)]);
        assert!(flat.tokens_per_s.is_finite() && flat.tokens_per_s > 0.0, "{flat:?}");
    }

    proptest! {
        #[test]
        fn a_line_is_found_again(
            fixed in 1.0..100.0_f32,
            rate in 5_000.0..200_000.0_f32,
            sizes in prop::collection::vec(100..10_000_u32, 8..64),
        ) {
            prop_assume!(sizes.iter().max().unwrap() > &(2 * sizes.iter().min().unwrap()));
            #[expect(clippy::cast_precision_loss, reason = "short prompts")]
            let samples: Vec<_> = sizes.iter().map(|size| (*size, fixed + *size as f32 * 1_000.0 / rate)).collect();
            let found = line(&samples);
            let mean: f32 = samples.iter().map(|(_, ms)| ms).sum::<f32>() / samples.len() as f32;
            // Where nearly all of it is fixed, the rate is not told any more.
            prop_assume!(fixed < 0.7 * mean);
            prop_assert!((found.tokens_per_s / rate - 1.0).abs() < 0.05, "{:?}", found);
            prop_assert!((found.fixed_ms - fixed).abs() < 0.05 * mean, "{:?}", found);
        }
    }
}
