//! The virtual time of a band: how far service for a weight of 1 has come, as in start-time fair queueing (Goyal et al.,
//! 1996). It goes with the counter of whoever is let go, and never back.

use std::collections::VecDeque;

/// How often the past is noted within the time that it is kept for.
const SAMPLES: u64 = 32;

/// A virtual time and its latest past.
#[derive(Debug, Clone, Default)]
pub(crate) struct VirtualTime {
    now: f64,
    /// What it was at which millisecond, the oldest first.
    past: VecDeque<(u64, f64)>,
}

impl VirtualTime {
    /// One that stands at `tag`, without a past.
    pub(crate) fn at(tag: f64) -> Self {
        Self { now: tag, past: VecDeque::new() }
    }

    pub(crate) fn now(&self) -> f64 {
        self.now
    }

    /// All start level.
    pub(crate) fn begin(&mut self, tag: f64) {
        self.now = self.now.max(tag);
        self.past.clear();
    }

    /// One whose counter is `tag` goes.
    pub(crate) fn passes(&mut self, tag: f64, now_ms: u64, kept_ms: u64) {
        let every = kept_ms / SAMPLES;
        if self.past.back().is_none_or(|(at, _)| now_ms.saturating_sub(*at) > every) {
            self.past.push_back((now_ms, self.now));
        }
        while self.past.get(1).is_some_and(|(at, _)| now_ms.saturating_sub(*at) >= kept_ms) {
            self.past.pop_front();
        }
        self.now = self.now.max(tag);
    }

    /// What it was when what is kept of the past begins.
    pub(crate) fn before(&self) -> f64 {
        self.past.front().map_or(self.now, |(_, tag)| *tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_past_is_as_long_as_it_is_kept() {
        let mut time = VirtualTime::default();
        for second in 0..100_u32 {
            time.passes(f64::from(second), u64::from(second) * 1_000, 10_000);
        }
        assert_eq!(time.now(), 99.0);
        assert!((87.0..=90.0).contains(&time.before()), "{}", time.before());
        assert!(time.past.len() < 20);
    }

    #[test]
    fn it_never_goes_back() {
        let mut time = VirtualTime::default();
        time.passes(5.0, 1_000, 10_000);
        time.passes(3.0, 0, 10_000);
        assert_eq!(time.now(), 5.0);
        time.begin(2.0);
        assert_eq!((time.now(), time.before()), (5.0, 5.0));
    }
}
