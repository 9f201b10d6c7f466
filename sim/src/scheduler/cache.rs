//! Paged blocks with a prefix cache: reference counts, block hashes, and least recently used eviction.
//!
//! As in vLLM, a block that nobody uses keeps its content and can be found again by its hash until its turn to be
//! evicted comes. Blocks without a hash go first, then the one that was freed longest ago.

use super::journal::Journal;
use std::collections::{BTreeMap, HashMap};

/// A block's number.
pub type BlockId = u32;

#[derive(Debug, Clone, Default)]
struct Block {
    users: u32,
    hash: Option<u64>,
    /// Its place in the order of eviction while it has no users.
    place: Place,
}

/// Whether it has a hash, and when it was freed.
type Place = (bool, u64);

/// All blocks of one engine.
#[derive(Debug)]
pub struct BlockCache {
    blocks: Vec<Block>,
    by_hash: HashMap<u64, BlockId>,
    free: BTreeMap<Place, BlockId>,
    tick: u64,
    /// What became findable and what ceased to be.
    pub(super) journal: Journal,
}

impl BlockCache {
    /// `count` empty blocks.
    #[must_use]
    pub fn new(count: usize) -> Self {
        let mut cache = Self {
            blocks: Vec::with_capacity(count),
            by_hash: HashMap::new(),
            free: BTreeMap::new(),
            tick: 0,
            journal: Journal::default(),
        };
        for id in 0..BlockId::try_from(count).unwrap_or(BlockId::MAX) {
            cache.blocks.push(Block { users: 0, hash: None, place: (false, cache.tick) });
            cache.free.insert((false, cache.tick), id);
            cache.tick += 1;
        }
        cache
    }

    /// How many blocks there are.
    #[must_use]
    pub fn total(&self) -> usize {
        self.blocks.len()
    }

    /// Blocks without users, cached ones included.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Blocks that can be found by a hash.
    #[must_use]
    pub fn cached(&self) -> usize {
        self.by_hash.len()
    }

    /// How many of `hashes`, from the first on, are cached; and how many of those have no users.
    #[must_use]
    pub fn lookup(&self, hashes: &[u64]) -> (usize, usize) {
        let mut idle = 0;
        for (position, hash) in hashes.iter().enumerate() {
            match self.by_hash.get(hash).and_then(|id| self.blocks.get(*id as usize)) {
                Some(block) => idle += usize::from(block.users == 0),
                None => return (position, idle),
            }
        }
        (hashes.len(), idle)
    }

    /// Takes the cached block of `hash` for one more user.
    pub fn share(&mut self, hash: u64) -> Option<BlockId> {
        let id = *self.by_hash.get(&hash)?;
        let block = self.blocks.get_mut(id as usize)?;
        if block.users == 0 {
            self.free.remove(&block.place);
        }
        block.users += 1;
        Some(id)
    }

    /// Takes an unused block, evicting what it held; `None` when every block has a user.
    pub fn allocate(&mut self) -> Option<BlockId> {
        let (_, id) = self.free.pop_first()?;
        let block = self.blocks.get_mut(id as usize)?;
        if let Some(hash) = block.hash.take() {
            self.by_hash.remove(&hash);
            self.journal.removed(hash);
        }
        block.users = 1;
        Some(id)
    }

    /// Makes a full block findable; false when another block has the same content already, which stays the cached one.
    pub fn publish(&mut self, id: BlockId, hash: u64) -> bool {
        if let Some(block) = self.blocks.get_mut(id as usize)
            && block.hash.is_none()
            && !self.by_hash.contains_key(&hash)
        {
            block.hash = Some(hash);
            self.by_hash.insert(hash, id);
            return true;
        }
        false
    }

    /// Gives up one use of each block, the last first, so that of a sequence its tail is evicted before its head.
    pub fn release(&mut self, ids: &[BlockId]) {
        for id in ids.iter().rev() {
            let Some(block) = self.blocks.get_mut(*id as usize) else { continue };
            block.users = block.users.saturating_sub(1);
            if block.users == 0 {
                self.tick += 1;
                block.place = (block.hash.is_some(), self.tick);
                self.free.insert(block.place, *id);
            }
        }
    }

    /// Forgets all cached content that nobody uses.
    pub fn clear(&mut self) {
        let free = std::mem::take(&mut self.free);
        for id in free.into_values() {
            let Some(block) = self.blocks.get_mut(id as usize) else { continue };
            if let Some(hash) = block.hash.take() {
                self.by_hash.remove(&hash);
                self.journal.removed(hash);
            }
            self.tick += 1;
            block.place = (false, self.tick);
            self.free.insert(block.place, id);
        }
    }

    /// Uses of all blocks together; for checks of conservation.
    #[must_use]
    pub fn uses(&self) -> usize {
        self.blocks.iter().map(|block| block.users as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_block_is_found_again_until_evicted() {
        let mut cache = BlockCache::new(2);
        let (a, b) = (cache.allocate().unwrap(), cache.allocate().unwrap());
        assert_eq!(cache.allocate(), None);
        cache.publish(a, 10);
        cache.publish(b, 11);
        cache.release(&[a, b]);
        assert_eq!(cache.lookup(&[10, 11, 12]), (2, 2));
        // The tail goes first.
        assert_eq!(cache.allocate(), Some(b));
        assert_eq!(cache.lookup(&[10, 11]), (1, 1));
        assert_eq!(cache.share(10), Some(a));
        assert_eq!(cache.free(), 0);
        assert_eq!(cache.uses(), 2);
    }

    #[test]
    fn blocks_without_hash_are_taken_before_cached_ones() {
        let mut cache = BlockCache::new(3);
        let a = cache.allocate().unwrap();
        cache.publish(a, 1);
        cache.release(&[a]);
        cache.allocate().unwrap();
        cache.allocate().unwrap();
        assert_eq!(cache.lookup(&[1]).0, 1);
        cache.allocate().unwrap();
        assert_eq!(cache.lookup(&[1]).0, 0);
    }

    #[test]
    fn clear_forgets_what_nobody_uses() {
        let mut cache = BlockCache::new(2);
        let (a, b) = (cache.allocate().unwrap(), cache.allocate().unwrap());
        cache.publish(a, 1);
        cache.publish(b, 2);
        cache.release(&[b]);
        cache.clear();
        assert_eq!((cache.lookup(&[1]).0, cache.lookup(&[2]).0, cache.free()), (1, 0, 1));
    }
}
