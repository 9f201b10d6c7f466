//! What the index knows of one endpoint across shards.

use std::array;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::shard::Change;

/// Shards of an index.
pub(super) const SHARDS: usize = 16;

/// The stamp of nothing.
const EMPTY: u64 = u64::MAX;

/// One endpoint's part of the index. Each stamp is written under the lock of its shard.
#[derive(Debug)]
pub(super) struct Owner {
    capacity: AtomicUsize,
    /// Which of the endpoint's processes it belongs to: how many were lost before, and when it started.
    lost: AtomicU32,
    started: AtomicU64,
    blocks: AtomicUsize,
    /// When the oldest blocks in each shard were inserted.
    oldest: [AtomicU64; SHARDS],
}

impl Default for Owner {
    fn default() -> Self {
        Self {
            capacity: AtomicUsize::new(usize::MAX),
            lost: AtomicU32::new(0),
            started: AtomicU64::new(0),
            blocks: AtomicUsize::new(0),
            oldest: array::from_fn(|_| AtomicU64::new(EMPTY)),
        }
    }
}

impl Owner {
    pub(super) fn set_capacity(&self, blocks: usize) {
        self.capacity.store(blocks, Ordering::Relaxed);
    }

    /// How many blocks it holds.
    pub(super) fn blocks(&self) -> usize {
        self.blocks.load(Ordering::Relaxed)
    }

    /// Makes this its process, and says whether it was another.
    pub(super) fn begins(&self, lost: u32, started: Option<u64>) -> bool {
        let lost = self.lost.swap(lost, Ordering::Relaxed) != lost;
        lost | started.is_some_and(|started| self.started.swap(started, Ordering::Relaxed) != started)
    }

    /// How many blocks it holds beyond its capacity.
    pub(super) fn excess(&self) -> usize {
        self.blocks.load(Ordering::Relaxed).saturating_sub(self.capacity.load(Ordering::Relaxed))
    }

    /// Takes over what happened in a shard.
    pub(super) fn note(&self, shard: usize, oldest: Option<u64>, change: &Change) {
        self.blocks.fetch_add(change.added.wrapping_sub(change.gone), Ordering::Relaxed);
        if let Some(stamp) = self.oldest.get(shard) {
            stamp.store(oldest.unwrap_or(EMPTY), Ordering::Relaxed);
        }
    }

    /// The shards that hold blocks of it, each with the stamp of the oldest.
    pub(super) fn stamps(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let stamps = self.oldest.iter().map(|stamp| stamp.load(Ordering::Relaxed));
        stamps.enumerate().filter(|(_, stamp)| *stamp != EMPTY)
    }

    /// The shard that holds its oldest blocks, and their stamp.
    pub(super) fn oldest(&self) -> Option<(usize, u64)> {
        self.stamps().min_by_key(|(_, stamp)| *stamp)
    }
}
