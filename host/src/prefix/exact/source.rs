//! What one publisher reports for one rank, translated into chains that are the same for all.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::table::{Key, map_bytes};
use super::{AT_ONCE, Adapter, Dropped, Exact, Extra, Feed, Stored, Tier, number_of, seed};
use crate::prefix::hash::{TokenChain, token_root};

/// Sources get numbers that are not given again.
static NEXT: AtomicU32 = AtomicU32::new(1);

/// Blocks that are gone and whose place is remembered: an engine that holds the same content twice reports the first
/// loss, and goes on from the other copy.
const GHOSTS: usize = 4_096;

/// Where a block of the engine's is in our chains.
#[derive(Debug, Clone, Copy)]
struct Place {
    hash: u64,
    /// The shard of its chain.
    shard: u8,
    /// The tiers that hold it, as bits; none for a block that is gone.
    tiers: u8,
}

/// The blocks of one engine, or of one of its ranks. What it holds leaves the index when it is dropped; as that takes
/// its time, drop it where nobody waits.
#[derive(Debug)]
pub struct Source {
    index: Arc<Exact>,
    feed: Arc<Feed>,
    key: Key,
    blocks: HashMap<u64, Place>,
    ghosts: VecDeque<u64>,
    /// The group of layers whose reports count, once one has come.
    group: Option<Option<i64>>,
    bytes: usize,
}

impl Source {
    /// A source that holds nothing.
    #[must_use]
    pub fn new(index: &Arc<Exact>, feed: &Arc<Feed>) -> Self {
        let source = NEXT.fetch_add(1, Ordering::Relaxed);
        feed.set_source(source);
        Self {
            index: Arc::clone(index),
            feed: Arc::clone(feed),
            key: Key { endpoint: feed.endpoint, source },
            blocks: HashMap::new(),
            ghosts: VecDeque::new(),
            group: None,
            bytes: 0,
        }
    }

    /// Blocks that it holds, or held lately.
    #[must_use]
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Blocks are held.
    ///
    /// # Errors
    /// Why nothing, or not all of it, was taken.
    pub fn stored(&mut self, event: &Stored) -> Result<(), Dropped> {
        self.counts(event.group, event.full_attention)?;
        if self.index.is_full() {
            return Err(Dropped::Full);
        }
        let taken = if event.tokens.is_empty() { self.moved(event) } else { self.placed(event) };
        self.resized();
        taken
    }

    /// Blocks are held no more in a tier.
    ///
    /// # Errors
    /// When none of them was known.
    pub fn removed(&mut self, blocks: &[u64], tier: Tier, group: Option<i64>) -> Result<(), Dropped> {
        self.counts(group, None)?;
        let mut known = false;
        for part in blocks.chunks(AT_ONCE) {
            let places: Vec<_> =
                part.iter().filter_map(|block| Some((*block, *self.blocks.get(block)?))).collect();
            for (block, place) in places {
                known |= self.lose(block, place, tier.bit());
            }
        }
        self.resized();
        if known { Ok(()) } else { Err(Dropped::UnknownBlock) }
    }

    /// The engine has begun anew: what was sent to the one before will not be reported.
    pub fn give_up(&self) {
        self.index.give_up_all(self.key);
    }

    /// Forgets some hundred blocks; whether any are left.
    pub fn forget_some(&mut self) -> bool {
        let some: Vec<_> = self.blocks.keys().take(AT_ONCE).copied().collect();
        for block in some {
            if let Some(place) = self.blocks.remove(&block) {
                self.withdraw(place, place.tiers);
            }
        }
        let left = !self.blocks.is_empty();
        if !left {
            self.blocks = HashMap::new();
            self.ghosts = VecDeque::new();
            self.group = None;
        }
        self.resized();
        left
    }

    /// Whether a report is about the layers that count.
    fn counts(&mut self, group: Option<i64>, full_attention: Option<bool>) -> Result<(), Dropped> {
        match (self.group, full_attention) {
            (_, Some(false)) => Err(Dropped::OtherGroup),
            (Some(known), _) if known == group => Ok(()),
            (Some(_), _) => Err(Dropped::OtherGroup),
            (None, Some(true)) => {
                self.group = Some(group);
                Ok(())
            }
            // Of an engine that does not say what its groups are the first one counts.
            (None, None) if group.unwrap_or(0) == 0 => Ok(()),
            (None, None) => Err(Dropped::OtherGroup),
        }
    }

    /// Blocks with their token ids.
    fn placed(&mut self, event: &Stored) -> Result<(), Dropped> {
        let size = usize::try_from(event.block_tokens).unwrap_or(0);
        let fits = event.blocks.len().checked_mul(size) == Some(event.tokens.len());
        if size == 0 || !fits || !(event.extra.is_empty() || event.extra.len() == event.blocks.len()) {
            return Err(Dropped::Malformed);
        }
        let (parent, mut shard) = match event.parent {
            None => (self.root(event), None),
            Some(parent) => {
                let place = self.blocks.get(&parent).ok_or(Dropped::UnknownParent)?;
                (place.hash, Some(place.shard))
            }
        };
        if self.feed.block_tokens() == 0 || self.is_empty() {
            self.feed.set_block_tokens(event.block_tokens);
        }
        let mut chain = TokenChain::after(parent);
        let mut hashes = Vec::with_capacity(event.blocks.len());
        for (n, ids) in event.tokens.chunks_exact(size).enumerate() {
            let salt_is_in_the_root = n == 0 && event.parent.is_none();
            hashes.push(match event.extra.get(n) {
                Some(Extra::Text(_)) if salt_is_in_the_root => chain.push(ids),
                Some(Extra::Text(text)) => chain.push_keyed(ids, xxhash_rust::xxh3::xxh3_64(text.as_bytes())),
                Some(Extra::Other(key)) => chain.push_keyed(ids, *key),
                Some(Extra::None) | None => chain.push(ids),
            });
        }
        let first = hashes.first().map_or(0, |first| number_of(*first));
        let shard = *shard.get_or_insert(u8::try_from(first).unwrap_or(0));
        let pairs: Vec<_> = event.blocks.iter().copied().zip(hashes).collect();
        for part in pairs.chunks(AT_ONCE) {
            self.hold(part, shard, event.tier);
        }
        Ok(())
    }

    /// What precedes a first block.
    fn root(&self, event: &Stored) -> u64 {
        let salt = match event.extra.first() {
            Some(Extra::Text(salt)) => salt,
            _ => "",
        };
        match &event.adapter {
            Adapter::None => token_root(seed(None, salt)),
            Adapter::Named(name) => {
                self.feed.note_adapter(name);
                token_root(seed(Some(name), salt))
            }
            // Requests name adapters, so that no request begins like this.
            Adapter::Numbered(number) => {
                let parts: [&[u8]; 3] = [b"number", &number.to_le_bytes(), salt.as_bytes()];
                token_root(crate::prefix::seed(&parts))
            }
        }
    }

    /// Blocks that are known come to another tier.
    fn moved(&mut self, event: &Stored) -> Result<(), Dropped> {
        let mut unknown = event.blocks.is_empty();
        for block in &event.blocks {
            match self.blocks.get(block).copied() {
                Some(place) => self.hold(&[(*block, place.hash)], place.shard, event.tier),
                None => unknown = true,
            }
        }
        if unknown { Err(Dropped::UnknownBlock) } else { Ok(()) }
    }

    fn hold(&mut self, pairs: &[(u64, u64)], shard: u8, tier: Tier) {
        for (block, hash) in pairs {
            let before = match self.blocks.entry(*block) {
                Entry::Vacant(vacant) => {
                    vacant.insert(Place { hash: *hash, shard, tiers: tier.bit() });
                    None
                }
                Entry::Occupied(mut known) => {
                    let place = known.get_mut();
                    // A name that the engine gives again stands for what it says last.
                    let other = (place.hash != *hash).then_some(*place);
                    let had = if other.is_some() { 0 } else { place.tiers };
                    *place = Place { hash: *hash, shard, tiers: had | tier.bit() };
                    other.or((had & tier.bit() != 0).then_some(*place))
                }
            };
            match before {
                Some(place) if place.hash == *hash => continue,
                Some(other) => self.withdraw(other, other.tiers),
                None => {}
            }
            self.index.counted(tier, true);
        }
        let key = self.key;
        self.index.change(shard.into(), |table| {
            for (_, hash) in pairs {
                table.hold(*hash, key, |holder| {
                    holder.tiers |= tier.bit();
                    // What was expected has come, and counts for as long as it is reported.
                    holder.until = 0;
                });
            }
        });
    }

    /// A block leaves some tiers; whether it was in any of them.
    fn lose(&mut self, block: u64, place: Place, tiers: u8) -> bool {
        let lost = place.tiers & tiers;
        if lost == 0 {
            return false;
        }
        if let Some(place) = self.blocks.get_mut(&block) {
            place.tiers &= !lost;
            if place.tiers == 0 {
                self.ghosts.push_back(block);
            }
        }
        self.withdraw(place, lost);
        while self.ghosts.len() > GHOSTS
            && let Some(ghost) = self.ghosts.pop_front()
        {
            if self.blocks.get(&ghost).is_some_and(|place| place.tiers == 0) {
                self.blocks.remove(&ghost);
            }
        }
        true
    }

    fn withdraw(&self, place: Place, tiers: u8) {
        for tier in Tier::ALL.into_iter().filter(|tier| tiers & tier.bit() != 0) {
            self.index.counted(tier, false);
        }
        self.index.change(place.shard.into(), |table| {
            table.release(place.hash, self.key, |holder| holder.tiers &= !tiers);
        });
    }

    fn resized(&mut self) {
        let bytes =
            map_bytes::<u64, Place>(self.blocks.capacity()) + self.ghosts.capacity() * size_of::<u64>();
        self.index.resized(self.bytes, bytes);
        self.bytes = bytes;
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.give_up();
        while self.forget_some() {}
    }
}
