//! One endpoint whose engine reports: whether it can be believed, and what came of its reports.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::RwLock;

use super::{Dropped, Kind};
use crate::clock::{Nanos, SECOND};
use crate::types::EndpointId;

/// How long an engine may be silent about a prompt that was sent to it.
pub const STALL: Nanos = 30 * SECOND;
/// Names of adapters that are remembered.
const MAX_ADAPTERS: usize = 4_096;

/// What an answer about an endpoint's cache rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// On all that its engine reported since its cache was empty.
    Exact,
    /// On what its engine reported lately and on what was sent there: what the cache held before is not known.
    Partial,
    /// On what was sent there.
    Approximate,
}

impl Known {
    /// Its name in explanations.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Partial => "partial",
            Self::Approximate => "approximate",
        }
    }
}

/// What comes from one publisher.
#[derive(Debug, Default)]
pub struct Stream {
    connected: AtomicBool,
    complete: AtomicBool,
}

impl Stream {
    /// Whether there is a connection over which reports can come.
    pub fn set_connected(&self, connected: bool) {
        self.connected.store(connected, Ordering::Relaxed);
    }

    /// Whether everything since the cache was empty has come.
    pub fn set_complete(&self, complete: bool) {
        self.complete.store(complete, Ordering::Relaxed);
    }
}

/// An endpoint whose engine reports.
#[derive(Debug)]
pub struct Feed {
    /// The endpoint.
    pub endpoint: EndpointId,
    streams: Box<[Stream]>,
    /// Token ids of one of its blocks; 0 while not known.
    block_tokens: AtomicU32,
    /// The source that prompts are expected to appear in; 0 none.
    source: AtomicU32,
    /// Since when a report is overdue; 0 when none is.
    awaited: AtomicU64,
    last: AtomicU64,
    /// Between the engine's clock and ours, microseconds.
    lag: AtomicU64,
    adapters: RwLock<BTreeSet<Box<str>>>,
    kinds: [AtomicU64; Kind::ALL.len()],
    dropped: [AtomicU64; Dropped::ALL.len()],
    gaps: AtomicU64,
    replays: AtomicU64,
    cleared: AtomicU64,
}

impl Feed {
    pub(super) fn new(endpoint: EndpointId, publishers: usize) -> Self {
        Self {
            endpoint,
            streams: (0..publishers).map(|_| Stream::default()).collect(),
            block_tokens: AtomicU32::new(0),
            source: AtomicU32::new(0),
            awaited: AtomicU64::new(0),
            last: AtomicU64::new(0),
            lag: AtomicU64::new(0),
            adapters: RwLock::default(),
            kinds: [const { AtomicU64::new(0) }; Kind::ALL.len()],
            dropped: [const { AtomicU64::new(0) }; Dropped::ALL.len()],
            gaps: AtomicU64::new(0),
            replays: AtomicU64::new(0),
            cleared: AtomicU64::new(0),
        }
    }

    /// The engine is another one from now on, of which nothing is known yet.
    pub fn restart(&self) {
        self.block_tokens.store(0, Ordering::Relaxed);
        self.source.store(0, Ordering::Relaxed);
        self.awaited.store(0, Ordering::Relaxed);
    }

    /// What comes from each publisher.
    #[must_use]
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// What is known of the endpoint's cache.
    #[must_use]
    pub fn known(&self, now: Nanos) -> Known {
        let all = |is: fn(&Stream) -> &AtomicBool| {
            self.streams.iter().all(|stream| is(stream).load(Ordering::Relaxed))
        };
        if self.block_tokens() == 0 || self.is_stalled(now) || !all(|stream| &stream.connected) {
            Known::Approximate
        } else if all(|stream| &stream.complete) {
            Known::Exact
        } else {
            Known::Partial
        }
    }

    /// Token ids of one of its blocks; 0 while nothing was reported.
    #[must_use]
    pub fn block_tokens(&self) -> u32 {
        self.block_tokens.load(Ordering::Relaxed)
    }

    pub(super) fn set_block_tokens(&self, tokens: u32) {
        self.block_tokens.store(tokens, Ordering::Relaxed);
    }

    pub(super) fn source(&self) -> Option<u32> {
        Some(self.source.load(Ordering::Relaxed)).filter(|source| *source != 0)
    }

    pub(super) fn set_source(&self, source: u32) {
        let _only_the_first = self.source.compare_exchange(0, source, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// A prompt was sent of which its engine has to report blocks.
    pub fn awaits(&self, now: Nanos) {
        let _earlier_stays =
            self.awaited.compare_exchange(0, now.max(1), Ordering::Relaxed, Ordering::Relaxed);
    }

    fn is_stalled(&self, now: Nanos) -> bool {
        let awaited = self.awaited.load(Ordering::Relaxed);
        awaited != 0 && now.saturating_sub(awaited) > STALL
    }

    /// A message came whose engine's clock showed a time so many seconds before ours.
    pub fn heard(&self, now: Nanos, lag: f64) {
        self.last.store(now.max(1), Ordering::Relaxed);
        self.awaited.store(0, Ordering::Relaxed);
        if lag.is_finite() {
            // Clocks that differ give what is below 0: that saturates.
            self.lag.store((lag * 1e6) as u64, Ordering::Relaxed);
        }
    }

    /// Seconds since the last message; none before the first.
    #[must_use]
    pub fn age_s(&self, now: Nanos) -> Option<f64> {
        let last = self.last.load(Ordering::Relaxed);
        (last != 0).then(|| now.saturating_sub(last) as f64 / SECOND as f64)
    }

    /// Seconds by which the last message came later than its engine made it.
    #[must_use]
    pub fn lag_s(&self) -> Option<f64> {
        (self.last.load(Ordering::Relaxed) != 0).then(|| self.lag.load(Ordering::Relaxed) as f64 / 1e6)
    }

    /// Whether reports named an adapter like this.
    #[must_use]
    pub fn names_adapter(&self, name: &str) -> bool {
        self.adapters.read().contains(name)
    }

    pub(super) fn note_adapter(&self, name: &str) {
        if !self.names_adapter(name) {
            let mut adapters = self.adapters.write();
            if adapters.len() < MAX_ADAPTERS {
                adapters.insert(name.into());
            }
        }
    }

    /// A report changed something.
    pub fn took(&self, kind: Kind) {
        add(self.kinds.get(kind as usize));
    }

    /// Reports of a kind that changed something.
    #[must_use]
    pub fn taken(&self, kind: Kind) -> u64 {
        get(self.kinds.get(kind as usize))
    }

    /// A report changed nothing.
    pub fn dropped(&self, why: Dropped) {
        add(self.dropped.get(why as usize));
    }

    /// Reports and messages that changed nothing for this reason.
    #[must_use]
    pub fn dropped_for(&self, why: Dropped) -> u64 {
        get(self.dropped.get(why as usize))
    }

    /// Messages are missing.
    pub fn missed(&self) {
        add(Some(&self.gaps));
    }

    /// How often messages were missing.
    #[must_use]
    pub fn gaps(&self) -> u64 {
        get(Some(&self.gaps))
    }

    /// Messages came again as asked.
    pub fn replayed(&self, messages: u64) {
        self.replays.fetch_add(messages, Ordering::Relaxed);
    }

    /// Messages that came because they were asked for again.
    #[must_use]
    pub fn replays(&self) -> u64 {
        get(Some(&self.replays))
    }

    /// What was known of the endpoint was given up, because the engine may hold something else.
    pub fn forgot(&self) {
        add(Some(&self.cleared));
    }

    /// How often what was known was given up.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        get(Some(&self.cleared))
    }
}

fn add(counter: Option<&AtomicU64>) {
    if let Some(counter) = counter {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

fn get(counter: Option<&AtomicU64>) -> u64 {
    counter.map_or(0, |counter| counter.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed() -> Feed {
        let feed = Feed::new(EndpointId(1), 2);
        feed.set_block_tokens(16);
        feed
    }

    #[test]
    fn it_is_believed_while_all_publishers_are_connected_and_nothing_is_overdue() {
        let feed = feed();
        assert_eq!(feed.known(0), Known::Approximate);
        feed.streams().iter().for_each(|stream| stream.set_connected(true));
        assert_eq!(feed.known(0), Known::Partial);
        feed.streams().iter().for_each(|stream| stream.set_complete(true));
        assert_eq!(feed.known(0), Known::Exact);
        feed.awaits(SECOND);
        feed.awaits(20 * SECOND);
        assert_eq!(feed.known(SECOND + STALL), Known::Exact);
        assert_eq!(feed.known(2 * SECOND + STALL), Known::Approximate);
        feed.heard(3 * SECOND + STALL, -1.0);
        assert_eq!(feed.known(4 * SECOND + STALL), Known::Exact);
        feed.streams()[0].set_connected(false);
        assert_eq!(feed.known(4 * SECOND + STALL), Known::Approximate);
    }

    #[test]
    fn ages_and_lags_are_those_of_the_last_message() {
        let feed = feed();
        assert_eq!((feed.age_s(9), feed.lag_s()), (None, None));
        feed.heard(SECOND, 0.25);
        assert_eq!((feed.age_s(3 * SECOND), feed.lag_s()), (Some(2.0), Some(0.25)));
        feed.heard(2 * SECOND, -5.0);
        assert_eq!(feed.lag_s(), Some(0.0));
    }
}
