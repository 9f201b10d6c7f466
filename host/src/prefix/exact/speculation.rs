//! Prompts that were sent a moment ago count as held until their engine's reports come.
//!
//! Without it all requests of a burst with the same beginning would find it nowhere. What is believed so ends by
//! itself after [`LASTS`], whatever became of the request.

use std::collections::VecDeque;
use std::sync::Arc;

use super::table::{Key, Tick, tick};
use super::{AT_ONCE, Exact, Feed, number_of};
use crate::clock::{Nanos, SECOND};

/// How long a prompt that was sent counts as held.
pub const LASTS: Nanos = 2 * SECOND;
/// Prompts that are remembered at most; of more the newest do not count.
const MAX_PROMPTS: usize = 16_384;

/// Blocks that somebody is expected to hold soon.
#[derive(Debug)]
struct Speculation {
    until: Tick,
    key: Key,
    hashes: Arc<[u64]>,
}

/// All of a pool, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Speculations(VecDeque<Speculation>);

impl Exact {
    /// A prompt of these blocks was sent to an endpoint of which the first `held` blocks are there already.
    pub fn speculate(&self, feed: &Feed, hashes: &Arc<[u64]>, held: u32, now: Nanos) {
        let held = usize::try_from(held).unwrap_or(usize::MAX);
        let (Some(source), Some(new)) = (feed.source(), hashes.get(held..)) else { return };
        if new.is_empty() || self.is_full() || !self.remember(feed, source, hashes, now) {
            return;
        }
        let (key, until) = (Key { endpoint: feed.endpoint, source }, tick(now + LASTS));
        let Some(first) = hashes.first() else { return };
        for part in new.chunks(AT_ONCE) {
            self.change(number_of(*first), |table| {
                for hash in part {
                    table.hold(*hash, key, |holder| {
                        // Of what is held already nothing more will be reported.
                        if holder.tiers == 0 {
                            holder.until = until;
                        }
                    });
                }
            });
        }
    }

    fn remember(&self, feed: &Feed, source: u32, hashes: &Arc<[u64]>, now: Nanos) -> bool {
        let mut all = self.speculations.lock();
        let room = all.0.len() < MAX_PROMPTS;
        if room {
            let key = Key { endpoint: feed.endpoint, source };
            all.0.push_back(Speculation { until: tick(now + LASTS), key, hashes: Arc::clone(hashes) });
        }
        room
    }

    /// The request came to nothing there: beyond the first `held` blocks only what is reported counts.
    pub fn give_up(&self, feed: &Feed, hashes: &[u64], held: u32) {
        let held = usize::try_from(held).unwrap_or(usize::MAX);
        let (Some(source), Some(first), Some(new)) = (feed.source(), hashes.first(), hashes.get(held..))
        else {
            return;
        };
        let key = Key { endpoint: feed.endpoint, source };
        self.end(*first, new, key, Tick::MAX);
    }

    /// Whatever was sent to one source will not be reported: its engine is gone.
    pub(super) fn give_up_all(&self, key: Key) {
        let mut given_up = Vec::new();
        self.speculations.lock().0.retain(|speculation| {
            let other = speculation.key != key;
            if !other {
                given_up.push(Arc::clone(&speculation.hashes));
            }
            other
        });
        for hashes in given_up {
            if let Some(first) = hashes.first() {
                self.end(*first, &hashes, key, Tick::MAX);
            }
        }
    }

    /// Forgets the prompts whose time is up. To be called now and then.
    pub fn sweep(&self, now: Nanos) {
        let now = tick(now);
        while let Some(due) = self.next_due(now) {
            if let Some(first) = due.hashes.first() {
                self.end(*first, &due.hashes, due.key, now);
            }
        }
    }

    fn next_due(&self, now: Tick) -> Option<Speculation> {
        let mut all = self.speculations.lock();
        let due = all.0.front().is_some_and(|first| first.until <= now);
        if due {
            return all.0.pop_front();
        }
        if all.0.is_empty() {
            all.0.shrink_to(64);
        }
        None
    }

    /// Ends what lasts no longer than `until`.
    fn end(&self, first: u64, hashes: &[u64], key: Key, until: Tick) {
        for part in hashes.chunks(AT_ONCE) {
            self.change(number_of(first), |table| {
                for hash in part {
                    table.release(*hash, key, |holder| {
                        if holder.until <= until {
                            holder.until = 0;
                        }
                    });
                }
            });
        }
    }
}
