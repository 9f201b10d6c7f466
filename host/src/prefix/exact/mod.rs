//! Which endpoints hold which chains of blocks, as their engines themselves report.
//!
//! Engines name blocks by hashes of their own. A [`Source`] translates what one of them reports: it knows the token
//! ids of every block and so its place in the chains of [`super::hash`], which are the same for all engines. The
//! [`Exact`] index keeps for every block of such a chain who holds it, and where.
//!
//! What is not certain is left out: a block whose beginning is not known, one with an image in it, one beyond the
//! limit of bytes. A look-up may so promise less than there is, and never promises what an engine did not report,
//! but for prompts that were sent a moment ago ([`Exact::speculate`]).
//!
//! A chain lies in one shard, by its first block. A shard is locked for some hundred blocks at a time, so that no
//! report, however long, and no endpoint that goes keeps requests waiting.

mod event;
mod feed;
mod source;
mod speculation;
mod table;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};

pub use event::{Adapter, Dropped, Extra, Kind, Stored, Tier};
pub use feed::{Feed, Known, STALL, Stream};
pub use source::Source;
pub use speculation::LASTS;
use speculation::Speculations;
use table::Table;

use crate::clock::Nanos;
use crate::types::EndpointId;

/// Shards of an index.
const SHARDS: usize = 16;
/// Blocks that are changed under one lock.
const AT_ONCE: usize = 256;

/// Blocks of a chain that an endpoint holds without a gap from the first, by the fastest tier that has each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Run {
    /// In GPU memory.
    pub gpu: u32,
    /// In CPU memory.
    pub cpu: u32,
    /// Further away.
    pub disk: u32,
}

impl Run {
    /// All of them.
    #[must_use]
    pub fn blocks(self) -> u32 {
        self.gpu.saturating_add(self.cpu).saturating_add(self.disk)
    }

    fn add(&mut self, tier: Tier, blocks: u32) {
        match tier {
            Tier::Gpu => self.gpu += blocks,
            Tier::Cpu => self.cpu += blocks,
            Tier::Disk => self.disk += blocks,
        }
    }
}

/// The index of a pool.
#[derive(Debug)]
pub struct Exact {
    shards: Box<[RwLock<Table>]>,
    /// The endpoints whose engines report.
    feeds: ArcSwap<HashMap<EndpointId, Arc<Feed>>>,
    speculations: Mutex<Speculations>,
    max_bytes: AtomicUsize,
    bytes: AtomicUsize,
    /// Blocks held in each tier.
    held: [AtomicUsize; 3],
}

impl Exact {
    /// An empty index of at most `max_bytes`.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            feeds: ArcSwap::default(),
            speculations: Mutex::default(),
            max_bytes: AtomicUsize::new(max_bytes),
            bytes: AtomicUsize::new(0),
            held: [const { AtomicUsize::new(0) }; 3],
        }
    }

    /// It may take this many bytes from now on. What it holds stays until engines let go of it.
    pub fn set_max_bytes(&self, max_bytes: usize) {
        self.max_bytes.store(max_bytes, Ordering::Relaxed);
    }

    /// An endpoint's engine will report, through as many publishers as it has data-parallel ranks.
    pub fn open(&self, endpoint: EndpointId, publishers: usize) -> Arc<Feed> {
        let feed = Arc::new(Feed::new(endpoint, publishers));
        self.feeds.rcu(|feeds| {
            let mut feeds = HashMap::clone(feeds);
            feeds.insert(endpoint, Arc::clone(&feed));
            feeds
        });
        feed
    }

    /// The engine will not report any more. What it reported goes with its [`Source`]s.
    pub fn close(&self, feed: &Arc<Feed>) {
        self.feeds.rcu(|feeds| {
            let mut feeds = HashMap::clone(feeds);
            if feeds.get(&feed.endpoint).is_some_and(|known| Arc::ptr_eq(known, feed)) {
                feeds.remove(&feed.endpoint);
            }
            feeds
        });
    }

    /// What an endpoint's engine reports, if it does.
    #[must_use]
    pub fn feed(&self, endpoint: EndpointId) -> Option<Arc<Feed>> {
        self.feeds.load().get(&endpoint).cloned()
    }

    /// Whether no engine reports.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.feeds.load().is_empty()
    }

    /// How far each endpoint holds the chain `hashes`: one run an endpoint, in the order of `endpoints`. Of an
    /// endpoint with several ranks, that of the rank that holds most.
    #[must_use]
    pub fn lookup(&self, hashes: &[u64], endpoints: &[EndpointId], now: Nanos) -> Vec<Run> {
        let Some((_, shard)) = self.shard_of(hashes) else { return vec![Run::default(); endpoints.len()] };
        let tick = table::tick(now);
        if endpoints.is_sorted() {
            return shard.read().lookup(hashes, endpoints, tick);
        }
        let mut order: Vec<(EndpointId, usize)> =
            endpoints.iter().enumerate().map(|(place, id)| (*id, place)).collect();
        order.sort_unstable();
        let sorted: Vec<_> = order.iter().map(|(id, _)| *id).collect();
        let found = shard.read().lookup(hashes, &sorted, tick);
        let mut runs = vec![Run::default(); endpoints.len()];
        for ((_, place), found) in order.into_iter().zip(found) {
            if let Some(run) = runs.get_mut(place) {
                *run = found;
            }
        }
        runs
    }

    /// Bytes that the index takes, tables and their spare room included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Blocks that engines reported in a tier, counted once for each that holds them.
    #[must_use]
    pub fn blocks(&self, tier: Tier) -> usize {
        self.held.get(tier.place()).map_or(0, |held| held.load(Ordering::Relaxed))
    }

    fn is_full(&self) -> bool {
        self.bytes() >= self.max_bytes.load(Ordering::Relaxed)
    }

    fn shard_of(&self, hashes: &[u64]) -> Option<(usize, &RwLock<Table>)> {
        let number = number_of(*hashes.first()?);
        Some((number, self.shards.get(number)?))
    }

    /// Changes one shard and keeps count of its bytes.
    fn change<R>(&self, number: usize, change: impl FnOnce(&mut Table) -> R) -> Option<R> {
        let mut table = self.shards.get(number)?.write();
        let before = table.bytes();
        let result = change(&mut table);
        self.resized(before, table.bytes());
        Some(result)
    }

    fn resized(&self, before: usize, after: usize) {
        // Wrapping: an addition of what is gone.
        self.bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    fn counted(&self, tier: Tier, more: bool) {
        if let Some(held) = self.held.get(tier.place()) {
            held.fetch_add(if more { 1 } else { usize::MAX }, Ordering::Relaxed);
        }
    }
}

/// The shard of the chains that begin with this block. The low bits choose the place in the shard's table.
fn number_of(first: u64) -> usize {
    usize::try_from(first >> 48).unwrap_or(0) % SHARDS
}

/// Where the chains of token ids of an adapter and a salt begin. Without an adapter they are the base model's.
#[must_use]
pub fn seed(adapter: Option<&str>, salt: &str) -> u64 {
    match adapter {
        None => super::seed(&[salt.as_bytes()]),
        Some(adapter) => super::seed(&[adapter.as_bytes(), salt.as_bytes()]),
    }
}
