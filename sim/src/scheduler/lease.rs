//! Blocks kept for a decode engine until it has fetched them or its time is up.

use super::cache::{BlockCache, BlockId};
use super::config::Nanos;
use std::collections::{HashMap, VecDeque};

/// How many ended leases are remembered, so that a late decode engine learns why its blocks are gone.
const REMEMBERED: usize = 1024;

/// Blocks under a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pinned {
    /// The blocks, in the order of the prompt.
    pub blocks: Vec<BlockId>,
    /// Tokens of the prompt that they hold.
    pub tokens: usize,
    /// Hash of all those tokens.
    pub prompt: u64,
    /// When they are given up.
    pub expires: Nanos,
}

/// What became of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseState {
    /// It holds.
    Held(Pinned),
    /// Its time ran out.
    Expired,
    /// A decode engine has fetched the blocks already.
    Released,
    /// There never was one, or it is long forgotten.
    Unknown,
}

/// All leases of one engine, by the request's id.
#[derive(Debug, Default)]
pub(super) struct Leases {
    held: HashMap<String, Pinned>,
    ended: VecDeque<(String, LeaseState)>,
}

impl Leases {
    pub(super) fn insert(&mut self, id: String, pinned: Pinned, cache: &mut BlockCache) {
        self.ended.retain(|(ended, _)| *ended != id);
        if let Some(old) = self.held.insert(id, pinned) {
            cache.release(&old.blocks);
        }
    }

    pub(super) fn state(&self, id: &str) -> LeaseState {
        match self.held.get(id) {
            Some(pinned) => LeaseState::Held(pinned.clone()),
            None => self
                .ended
                .iter()
                .find(|(ended, _)| ended == id)
                .map_or(LeaseState::Unknown, |(_, state)| state.clone()),
        }
    }

    pub(super) fn renew(&mut self, id: &str, expires: Nanos) {
        if let Some(pinned) = self.held.get_mut(id) {
            pinned.expires = pinned.expires.max(expires);
        }
    }

    pub(super) fn release(&mut self, id: &str, cache: &mut BlockCache) -> bool {
        self.end(id, LeaseState::Released, cache)
    }

    pub(super) fn expire(&mut self, now: Nanos, cache: &mut BlockCache) -> u64 {
        let due: Vec<String> =
            self.held.iter().filter(|(_, pinned)| pinned.expires <= now).map(|(id, _)| id.clone()).collect();
        for id in &due {
            self.end(id, LeaseState::Expired, cache);
        }
        due.len() as u64
    }

    pub(super) fn next_expiry(&self) -> Option<Nanos> {
        self.held.values().map(|pinned| pinned.expires).min()
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    #[cfg(test)]
    pub(super) fn uses(&self) -> usize {
        self.held.values().map(|pinned| pinned.blocks.len()).sum()
    }

    fn end(&mut self, id: &str, state: LeaseState, cache: &mut BlockCache) -> bool {
        let Some((id, pinned)) = self.held.remove_entry(id) else { return false };
        cache.release(&pinned.blocks);
        if self.ended.len() >= REMEMBERED {
            self.ended.pop_front();
        }
        self.ended.push_back((id, state));
        true
    }
}
