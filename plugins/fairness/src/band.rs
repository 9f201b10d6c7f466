//! What is known of a band.

use crate::contest::Contest;
use crate::light::Light;
use crate::virtual_time::VirtualTime;

/// A band in which nobody has waited for so long had enough for all.
const QUIET_MS: u64 = 1_000;

/// A band.
#[derive(Debug, Clone, Default)]
pub(crate) struct Band {
    pub(crate) time: VirtualTime,
    pub(crate) newcomers: Newcomers,
    pub(crate) light: Light,
    contest: Contest,
    /// When somebody last waited; none when nobody has.
    waited_ms: Option<u64>,
}

/// The account of the flows that are not known yet: together they get their share of what goes, however many they are,
/// so that a new name for each request gains nothing on those that keep theirs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Newcomers {
    /// Service that they have had, in priced tokens for a weight of 1.
    pub(crate) served: f64,
    /// What they weigh together against the known flows that wait.
    pub(crate) weight: f64,
    wait: bool,
}

impl Default for Newcomers {
    fn default() -> Self {
        Self { served: 0.0, weight: 1.0, wait: false }
    }
}

impl Newcomers {
    /// Whether any of them wait, beside known flows that weigh so much; of both they are to have `share`.
    pub(crate) fn wait(&mut self, any: bool, now: f64, known: f64, share: f64) {
        if any && !self.wait {
            self.served = self.served.max(now);
        }
        self.wait = any;
        // Where nobody else waits nobody has to be spared.
        let against = share / (1.0 - share).max(0.001);
        self.weight = if known > 0.0 { (known * against).max(f64::MIN_POSITIVE) } else { f64::INFINITY };
    }
}

impl Band {
    /// One that begins where others are.
    pub(crate) fn new(tag: f64) -> Self {
        Self { time: VirtualTime::at(tag), ..Self::default() }
    }

    /// One whose virtual time is known.
    pub(crate) fn restored(tag: f64, now_ms: u64) -> Self {
        let contest = Contest::known(now_ms);
        Self { waited_ms: Some(now_ms), contest, ..Self::new(tag) }
    }

    /// Something is heard of a flow: it waits, or one of its requests goes.
    pub(crate) fn heard(&mut self, flow: u32, now_ms: u64) {
        self.contest.heard(flow, now_ms);
    }

    /// Whether its flows have shared it for long enough to know what each needs, or one has it for itself.
    pub(crate) fn is_known(&self, now_ms: u64) -> bool {
        self.contest.is_known(now_ms)
    }

    pub(crate) fn is_quiet(&self, now_ms: u64) -> bool {
        self.waited_ms.is_none_or(|at| now_ms.saturating_sub(at) > QUIET_MS)
    }

    /// Somebody waits. If that is new all start level, from `most` on.
    pub(crate) fn waits(&mut self, most: f64, now_ms: u64) {
        if self.is_quiet(now_ms) {
            self.time.begin(most);
            self.newcomers.served = self.time.now();
        }
        self.waited_ms = Some(now_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_some_seconds_after_two_flows_met_and_until_they_part() {
        let mut band = Band::default();
        for ms in 0..100 {
            band.heard(1, ms * 100);
        }
        assert!(band.is_known(10_000), "one has it for itself");
        band.heard(2, 10_000);
        assert!(!band.is_known(14_999));
        (10..16).for_each(|second| band.heard(1 + second % 2, u64::from(second) * 1_000));
        assert!(band.is_known(15_000));
        band.heard(1, 40_000);
        band.heard(2, 40_000);
        assert!(!band.is_known(40_000), "they meet anew");
        assert!(band.is_known(50_000), "one has gone");
    }

    #[test]
    fn what_was_handed_over_is_known() {
        let mut band = Band::restored(0.0, 7);
        band.heard(1, 7);
        band.heard(2, 7);
        assert!(band.is_known(7));
    }
}
