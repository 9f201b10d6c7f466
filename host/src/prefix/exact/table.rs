//! One shard: who holds each block.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

use super::{Run, Tier};
use crate::clock::Nanos;
use crate::types::EndpointId;

/// Coarse time, 67 ms each: four bytes last for nine years.
pub(super) type Tick = u32;

/// The tick of a moment.
pub(super) fn tick(now: Nanos) -> Tick {
    Tick::try_from(now >> 26).unwrap_or(Tick::MAX)
}

/// Who reports: an endpoint, and which of its sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) endpoint: EndpointId,
    pub(super) source: u32,
}

/// One who holds a block, or soon will.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) key: Key,
    /// The prompt was sent there: until then it counts as held.
    pub(super) until: Tick,
    /// The tiers that hold it, as bits.
    pub(super) tiers: u8,
}

impl Holder {
    /// The fastest tier that has the block.
    fn tier(&self, now: Tick) -> Option<Tier> {
        if self.until > now {
            return Some(Tier::Gpu);
        }
        Tier::ALL.into_iter().find(|tier| self.tiers & tier.bit() != 0)
    }

    fn is_idle(&self) -> bool {
        self.tiers == 0 && self.until == 0
    }
}

/// Those who hold a block, in the order of their keys. Most blocks have one.
#[derive(Debug)]
enum Holders {
    One(Holder),
    Many(Vec<Holder>),
}

impl Holders {
    fn as_slice(&self) -> &[Holder] {
        match self {
            Self::One(holder) => std::slice::from_ref(holder),
            Self::Many(holders) => holders,
        }
    }

    fn heap(&self) -> usize {
        match self {
            Self::One(_) => 0,
            Self::Many(holders) => holders.capacity() * size_of::<Holder>(),
        }
    }

    fn get_or_add(&mut self, key: Key) -> Option<&mut Holder> {
        let place = match self.as_slice().binary_search_by_key(&key, |holder| holder.key) {
            Ok(place) => place,
            Err(place) => {
                self.insert(place, Holder { key, until: 0, tiers: 0 });
                place
            }
        };
        match self {
            Self::One(holder) => Some(holder),
            Self::Many(holders) => holders.get_mut(place),
        }
    }

    fn insert(&mut self, place: usize, holder: Holder) {
        match self {
            Self::Many(holders) => holders.insert(place, holder),
            Self::One(only) => {
                let mut both = Vec::with_capacity(2);
                both.push(*only);
                both.insert(place, holder);
                *self = Self::Many(both);
            }
        }
    }
}

/// The hashes of blocks are spread evenly already.
#[derive(Debug, Default)]
pub(super) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// The blocks of a shard.
#[derive(Debug, Default)]
pub(super) struct Table {
    blocks: HashMap<u64, Holders, BuildHasherDefault<AsIs>>,
    /// Bytes of the lists of those blocks that several hold.
    lists: usize,
}

impl Table {
    /// Bytes in use.
    pub(super) fn bytes(&self) -> usize {
        map_bytes::<u64, Holders>(self.blocks.capacity()) + self.lists
    }

    /// Changes what one holds of a block, who so far may have held nothing of it.
    pub(super) fn hold(&mut self, hash: u64, key: Key, change: impl FnOnce(&mut Holder)) {
        match self.blocks.entry(hash) {
            Entry::Vacant(vacant) => {
                let mut holder = Holder { key, until: 0, tiers: 0 };
                change(&mut holder);
                vacant.insert(Holders::One(holder));
            }
            Entry::Occupied(mut occupied) => {
                let holders = occupied.get_mut();
                let before = holders.heap();
                if let Some(holder) = holders.get_or_add(key) {
                    change(holder);
                }
                self.lists += holders.heap() - before;
            }
        }
    }

    /// Changes what one holds of a block; who holds nothing of it any more is forgotten.
    pub(super) fn release(&mut self, hash: u64, key: Key, change: impl FnOnce(&mut Holder)) {
        // Not by `entry`: it makes room for a block that is not there.
        let Some(holders) = self.blocks.get_mut(&hash) else { return };
        let gone = match holders {
            Holders::One(holder) if holder.key == key => {
                change(holder);
                holder.is_idle()
            }
            Holders::One(_) => false,
            Holders::Many(holders) => {
                let Ok(place) = holders.binary_search_by_key(&key, |holder| holder.key) else { return };
                let before = holders.capacity();
                if let Some(holder) = holders.get_mut(place) {
                    change(holder);
                    if holder.is_idle() {
                        holders.remove(place);
                        if holders.capacity() > holders.len() * 4 {
                            holders.shrink_to(holders.len() * 2);
                        }
                    }
                }
                self.lists -= (before - holders.capacity()) * size_of::<Holder>();
                holders.is_empty()
            }
        };
        if gone {
            let heap = self.blocks.remove(&hash).map_or(0, |holders| holders.heap());
            self.lists -= heap;
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        let (len, capacity) = (self.blocks.len(), self.blocks.capacity());
        if len == 0 || (capacity > 64 && len < capacity / 8) {
            self.blocks.shrink_to(len * 2);
        }
    }

    /// How far each of `endpoints`, which are sorted, holds the chain.
    pub(super) fn lookup(&self, hashes: &[u64], endpoints: &[EndpointId], now: Tick) -> Vec<Run> {
        let mut walk =
            Walk { runs: vec![Run::default(); endpoints.len()], holding: Vec::new(), same: 0, now };
        let mut before: &[Holder] = &[];
        for (depth, hash) in hashes.iter().enumerate() {
            let Some(holders) = self.blocks.get(hash).map(Holders::as_slice) else { break };
            // Most often the same as before; comparing lists is the fastest way to see it.
            if depth > 0 && holders == before {
                walk.same += 1;
                continue;
            }
            if depth == 0 {
                walk.begin(holders, endpoints)
            } else {
                walk.go_on(holders)
            }
            if walk.holding.is_empty() {
                break;
            }
            before = holders;
        }
        walk.end()
    }

    #[cfg(test)]
    pub(super) fn holders(&self) -> impl Iterator<Item = (u64, &[Holder])> {
        self.blocks.iter().map(|(hash, holders)| (*hash, holders.as_slice()))
    }
}

/// One who holds the chain so far.
struct Holding {
    key: Key,
    /// Place of its endpoint.
    place: usize,
    run: Run,
    /// Where it has the last block.
    tier: Tier,
}

/// A look-up under way.
struct Walk {
    runs: Vec<Run>,
    holding: Vec<Holding>,
    /// Blocks since the last that are held by the same in the same tiers.
    same: u32,
    now: Tick,
}

impl Walk {
    fn begin(&mut self, holders: &[Holder], endpoints: &[EndpointId]) {
        for holder in holders {
            let first = endpoints.partition_point(|endpoint| *endpoint < holder.key.endpoint);
            if endpoints.get(first) == Some(&holder.key.endpoint)
                && let Some(tier) = holder.tier(self.now)
            {
                let mut run = Run::default();
                run.add(tier, 1);
                self.holding.push(Holding { key: holder.key, place: first, run, tier });
            }
        }
    }

    fn go_on(&mut self, holders: &[Holder]) {
        self.catch_up();
        let (runs, now) = (&mut self.runs, self.now);
        let mut rest = holders.iter().peekable();
        self.holding.retain_mut(|holding| {
            while rest.next_if(|holder| holder.key < holding.key).is_some() {}
            let tier = rest.next_if(|holder| holder.key == holding.key).and_then(|holder| holder.tier(now));
            match tier {
                Some(tier) => {
                    holding.tier = tier;
                    holding.run.add(tier, 1);
                }
                None => keep(runs, holding),
            }
            tier.is_some()
        });
    }

    /// Counts the blocks that were the same.
    fn catch_up(&mut self) {
        let same = std::mem::take(&mut self.same);
        if same > 0 {
            self.holding.iter_mut().for_each(|holding| holding.run.add(holding.tier, same));
        }
    }

    fn end(mut self) -> Vec<Run> {
        self.catch_up();
        for holding in &self.holding {
            keep(&mut self.runs, holding);
        }
        self.runs
    }
}

/// Of an endpoint's sources the longest counts.
fn keep(runs: &mut [Run], holding: &Holding) {
    if let Some(run) = runs.get_mut(holding.place)
        && holding.run.blocks() > run.blocks()
    {
        *run = holding.run;
    }
}

/// Bytes of a map with this capacity: an eighth of the places stays free, and each has a byte of its own.
pub(super) fn map_bytes<K, V>(capacity: usize) -> usize {
    if capacity == 0 { 0 } else { (capacity + capacity / 7).next_power_of_two() * (size_of::<(K, V)>() + 1) }
}
