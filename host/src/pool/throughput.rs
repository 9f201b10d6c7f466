//! How many tokens an endpoint gives with how many requests at once.
//!
//! Time and tokens are summed for each level of concurrency and fade within a minute. Where more requests give no
//! more tokens, the least level that gives as many is enough. What lies above is then tried no longer, fades, and is
//! tried again: once a minute for some seconds.

use super::limit::Seen;
use crate::clock::{Nanos, SECOND};

/// Levels of concurrency; each is a quarter above the one before.
const LEVELS: usize = 52;
const STEP: f64 = 1.25;
/// Seconds after which a sum counts for a third.
const FADES: f64 = 60.0;
/// Seconds at a level from which on it says something.
const TOLD: f64 = 2.0;
/// Seconds at the least level before a lower one is tried: what is left is still known for a while then.
const SURE: f64 = 2.0 * TOLD;
/// Share of the best rate that is as good.
const AS_GOOD: f64 = 0.95;
/// Two readings further apart than this are not connected.
const GAP: Nanos = 10 * SECOND;

#[derive(Debug, Clone, Copy, Default)]
struct Level {
    seconds: f64,
    tokens: f64,
}

impl Level {
    fn rate(self) -> Option<f64> {
        (self.seconds >= TOLD).then(|| self.tokens / self.seconds)
    }
}

/// What was seen of one endpoint.
#[derive(Debug)]
pub(super) struct Throughput {
    levels: [Level; LEVELS],
    last: Option<Seen>,
}

impl Default for Throughput {
    fn default() -> Self {
        Self { levels: [Level::default(); LEVELS], last: None }
    }
}

impl Throughput {
    pub(super) fn take(&mut self, seen: &Seen) {
        let Some(last) = self.last.replace(*seen) else { return };
        let between = seen.at.saturating_sub(last.at);
        if between == 0 || between > GAP {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "rates, not counts")]
        let (seconds, tokens, requests) = (
            between as f64 / SECOND as f64,
            seen.output_tokens.saturating_sub(last.output_tokens) as f64,
            (last.requests as f64 + seen.requests as f64) / 2.0,
        );
        let fade = (-seconds / FADES).exp();
        for level in &mut self.levels {
            level.seconds *= fade;
            level.tokens *= fade;
        }
        if requests >= 1.0
            && let Some(level) = self.levels.get_mut(level_of(requests))
        {
            level.seconds += seconds;
            level.tokens += tokens;
        }
    }

    /// The least number of requests that gives as many tokens as any; none while that is not known. With `search`
    /// it is a level lower than anything that was tried, when the least that was tried is enough.
    pub(super) fn enough(&self, search: bool) -> Option<f32> {
        let told = || self.levels.iter().enumerate().filter_map(|(n, level)| Some((n, level.rate()?)));
        let best = told().map(|(_, rate)| rate).fold(0.0, f64::max);
        if best <= 0.0 {
            return None;
        }
        let enough = told().find(|(_, rate)| *rate >= best * AS_GOOD)?.0;
        // Two levels up it was no better: noise between neighbours proves nothing.
        if !told().any(|(n, _)| n >= enough + 2) {
            return None;
        }
        let sure = self.levels.get(enough).is_some_and(|level| level.seconds >= SURE);
        let is_least = told().next().is_some_and(|(n, _)| n == enough);
        let level = if search && sure && is_least { enough.saturating_sub(1) } else { enough };
        Some(top_of(level))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "1 or more, and a cast saturates"
)]
fn level_of(requests: f64) -> usize {
    (requests.log(STEP).floor() as usize).min(LEVELS - 1)
}

/// The most requests of a level.
#[expect(clippy::cast_possible_truncation, reason = "a limit, not a count")]
fn top_of(level: usize) -> f32 {
    STEP.powi(i32::try_from(level).unwrap_or(i32::MAX).saturating_add(1)) as f32
}
