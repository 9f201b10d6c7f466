//! Which endpoints were sent which chains of blocks, as far as their caches may still hold them.
//!
//! A forest of compressed tries: a node is a run of hashes without a branch, and every endpoint that holds
//! its beginning is listed with how far it holds it. Chains that many endpoints share are stored once, a
//! look-up compares runs instead of probing a table for each block, and what an endpoint holds is
//! contiguous from the first block by construction.
//!
//! Each endpoint forgets in the order in which its engine would: the blocks not inserted for longest first,
//! and of blocks inserted together the deepest first. Past [`Index::set_capacity`] an endpoint forgets its
//! own; past the bytes of the whole index the oldest blocks of any endpoint go.
//!
//! Chains are spread over shards by their first hash. A shard is locked for one operation, before the list of
//! owners; all of them together, in order, only for the last step of removing an endpoint. Operations on different endpoints and chains see each other in some order; counters are
//! exact when nothing is under way.

mod export;
mod lookup;
mod node;
mod owner;
mod shard;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::RwLock;

pub use self::export::Node;
use self::owner::{Owner, SHARDS};
use self::shard::{Change, Shard};
use super::MAX_BLOCKS;
use crate::types::EndpointId;

/// The index of a pool.
#[derive(Debug)]
pub struct Index {
    shards: Box<[RwLock<Shard>]>,
    owners: RwLock<HashMap<EndpointId, Arc<Owner>>>,
    max_bytes: AtomicUsize,
    bytes: AtomicUsize,
    blocks: AtomicUsize,
    evictions: AtomicU64,
    /// Insertions so far: the time by which blocks are old or young.
    stamp: AtomicU64,
}

impl Index {
    /// An empty index of at most `max_bytes`.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            owners: RwLock::default(),
            max_bytes: AtomicUsize::new(max_bytes),
            bytes: AtomicUsize::new(0),
            blocks: AtomicUsize::new(0),
            evictions: AtomicU64::new(0),
            stamp: AtomicU64::new(0),
        }
    }

    /// An endpoint was sent the chain `hashes`, which begins with a prompt's first block.
    pub fn insert(&self, endpoint: EndpointId, hashes: &[u64]) {
        let hashes = hashes.get(..MAX_BLOCKS).unwrap_or(hashes);
        let Some((number, shard)) = self.shard_of(hashes) else { return };
        let stamp = self.stamp.fetch_add(1, Ordering::Relaxed) + 1;
        let owner = {
            let mut shard = shard.write();
            let owner = self.owner(endpoint);
            let change = shard.insert(endpoint, hashes, stamp);
            self.note(&owner, number, endpoint, &shard, &change);
            owner
        };
        if owner.excess() > 0 {
            self.keep_capacity(endpoint, &owner);
        }
        if self.bytes() > self.max_bytes() {
            self.keep_bytes();
        }
    }

    /// How many blocks of the chain each endpoint holds, without a gap from the first: one number an
    /// endpoint, in the order of `endpoints`, in place of what `matched` held.
    pub fn lookup(&self, hashes: &[u64], endpoints: &[EndpointId], matched: &mut Vec<u32>) {
        matched.clear();
        matched.resize(endpoints.len(), 0);
        let hashes = hashes.get(..MAX_BLOCKS).unwrap_or(hashes);
        let Some((_, shard)) = self.shard_of(hashes) else { return };
        if endpoints.is_sorted() {
            shard.read().lookup(hashes, endpoints, matched);
            return;
        }
        let mut order: Vec<usize> = (0..endpoints.len()).collect();
        order.sort_unstable_by_key(|place| endpoints.get(*place));
        let sorted: Vec<EndpointId> =
            order.iter().filter_map(|place| endpoints.get(*place).copied()).collect();
        let mut found = vec![0; sorted.len()];
        shard.read().lookup(hashes, &sorted, &mut found);
        for (place, found) in order.into_iter().zip(found) {
            if let Some(matched) = matched.get_mut(place) {
                *matched = found;
            }
        }
    }

    /// An endpoint's cache holds `blocks` blocks; its oldest ones beyond that are forgotten.
    pub fn set_capacity(&self, endpoint: EndpointId, blocks: usize) {
        let owner = self.owner(endpoint);
        owner.set_capacity(blocks);
        self.keep_capacity(endpoint, &owner);
    }

    /// It may take this many bytes from now on; what is over that is forgotten.
    pub fn set_max_bytes(&self, max_bytes: usize) {
        self.max_bytes.store(max_bytes, Ordering::Relaxed);
        if self.bytes() > max_bytes {
            self.keep_bytes();
        }
    }

    fn max_bytes(&self) -> usize {
        self.max_bytes.load(Ordering::Relaxed)
    }

    /// Blocks that each endpoint is believed to hold, in the order of `endpoints`.
    #[must_use]
    pub fn blocks_of(&self, endpoints: impl Iterator<Item = EndpointId>) -> Vec<usize> {
        let owners = self.owners.read();
        endpoints.map(|endpoint| owners.get(&endpoint).map_or(0, |owner| owner.blocks())).collect()
    }

    /// An endpoint's process was lost so often, and started then, where that is known. When it is another process than
    /// before, its cache went with that one.
    pub fn set_life(&self, endpoint: EndpointId, lost: u32, started: Option<u64>) {
        if !self.owner(endpoint).begins(lost, started) {
            return;
        }
        self.remove_endpoint(endpoint);
        self.owner(endpoint).begins(lost, started);
    }

    /// Forgets every endpoint but these.
    pub fn retain(&self, endpoints: &HashSet<EndpointId>) {
        let gone: Vec<_> =
            self.owners.read().keys().filter(|known| !endpoints.contains(known)).copied().collect();
        gone.into_iter().for_each(|endpoint| self.remove_endpoint(endpoint));
    }

    /// Forgets an endpoint, its capacity and life included.
    pub fn remove_endpoint(&self, endpoint: EndpointId) {
        for number in 0..self.shards.len() {
            self.change(endpoint, number, |shard| shard.remove(endpoint));
        }
        // What was inserted meanwhile goes with every shard held, so that nothing is left without an owner.
        let mut shards: Vec<_> = self.shards.iter().map(|shard| shard.write()).collect();
        let Some(owner) = self.owners.write().remove(&endpoint) else { return };
        for (number, shard) in shards.iter_mut().enumerate() {
            let change = shard.remove(endpoint);
            self.note(&owner, number, endpoint, shard, &change);
        }
    }

    /// An endpoint turned out to hold only the first `held` blocks of the chain: what it was thought to hold
    /// beyond them is forgotten, on every chain that goes through there.
    pub fn truncate(&self, endpoint: EndpointId, hashes: &[u64], held: usize) {
        let hashes = hashes.get(..MAX_BLOCKS).unwrap_or(hashes);
        if let Some((number, _)) = self.shard_of(hashes) {
            self.change(endpoint, number, |shard| shard.truncate(endpoint, hashes, held));
        }
    }

    /// Bytes that the index takes, tables and their spare room included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Blocks that were forgotten to keep a capacity or the limit of bytes.
    #[must_use]
    pub fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    /// Blocks held, counted once for each endpoint that holds them.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks.load(Ordering::Relaxed)
    }

    fn shard_of(&self, hashes: &[u64]) -> Option<(usize, &RwLock<Shard>)> {
        // The low bits choose the place in the shard's table.
        let number = usize::try_from(hashes.first()? >> 48).ok()? % SHARDS;
        Some((number, self.shards.get(number)?))
    }

    fn owner(&self, endpoint: EndpointId) -> Arc<Owner> {
        if let Some(owner) = self.owners.read().get(&endpoint) {
            return Arc::clone(owner);
        }
        Arc::clone(self.owners.write().entry(endpoint).or_default())
    }

    /// Brings the counters up to date with a shard that is still locked.
    fn note(&self, owner: &Owner, number: usize, endpoint: EndpointId, shard: &Shard, change: &Change) {
        owner.note(number, shard.oldest(endpoint), change);
        // Wrapping: an addition of what is gone.
        self.blocks.fetch_add(change.added.wrapping_sub(change.gone), Ordering::Relaxed);
        self.bytes.fetch_add(change.grown.wrapping_sub(change.shrunk), Ordering::Relaxed);
    }

    /// Forgets the oldest blocks of an endpoint until it holds no more than its capacity.
    fn keep_capacity(&self, endpoint: EndpointId, owner: &Owner) {
        loop {
            let excess = owner.excess();
            let Some((number, _)) = owner.oldest() else { return };
            if excess == 0 || self.evict(endpoint, number, |shard| shard.evict(endpoint, excess)) == 0 {
                return;
            }
        }
    }

    /// Forgets the oldest blocks of all endpoints until the index is a little below its limit.
    fn keep_bytes(&self) {
        let target = self.max_bytes() - self.max_bytes() / 512;
        while self.bytes() > target {
            let owners: Vec<_> =
                self.owners.read().iter().map(|(id, owner)| (*id, Arc::clone(owner))).collect();
            let oldest = owners.iter().filter_map(|(_, owner)| owner.oldest()).map(|(_, stamp)| stamp).min();
            let Some(oldest) = oldest else { return };
            // Everything about as old as the oldest, so that the search is not made for every block.
            let now = self.stamp.load(Ordering::Relaxed);
            let limit = oldest.saturating_add(now.saturating_sub(oldest) / 512);
            let mut gone = 0;
            for (endpoint, owner) in owners {
                for (number, stamp) in owner.stamps() {
                    while stamp <= limit && self.bytes() > target {
                        let now_gone =
                            self.evict(endpoint, number, |shard| shard.evict_older(endpoint, limit));
                        gone += now_gone;
                        if now_gone == 0 {
                            break;
                        }
                    }
                }
            }
            if gone == 0 {
                return;
            }
        }
    }

    fn evict(&self, endpoint: EndpointId, number: usize, how: impl FnOnce(&mut Shard) -> Change) -> usize {
        let gone = self.change(endpoint, number, how);
        self.evictions.fetch_add(u64::try_from(gone).unwrap_or(u64::MAX), Ordering::Relaxed);
        gone
    }

    /// Changes what a known endpoint holds in a shard; how many blocks went.
    fn change(&self, endpoint: EndpointId, number: usize, how: impl FnOnce(&mut Shard) -> Change) -> usize {
        let Some(shard) = self.shards.get(number) else { return 0 };
        let mut shard = shard.write();
        let Some(owner) = self.owners.read().get(&endpoint).cloned() else { return 0 };
        let change = how(&mut shard);
        self.note(&owner, number, endpoint, &shard, &change);
        change.gone
    }
}

#[cfg(test)]
mod tests;
