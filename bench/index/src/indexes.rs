//! The indexes, behind one face.

use std::collections::HashMap;

use dynamo_kv_router::RadixTree;
use dynamo_kv_router::protocols::{
    ExternalSequenceBlockHash, KvCacheEvent, KvCacheEventData, KvCacheStoreData, KvCacheStoredBlockData,
    LocalBlockHash, RouterEvent,
};
use kv_index::{ChainBlockMap, ContentHash, SequenceHash, ShardedChainIndex, StoredBlock};
use parking_lot::RwLock;
use sluicegate::types::EndpointId;

pub(crate) trait Index {
    /// An endpoint was sent a chain.
    fn insert(&mut self, endpoint: u32, blocks: &[u64], hashes: &[u64]);
    /// How many of its first blocks each endpoint holds, in the place of what `held` held.
    fn lookup(&self, blocks: &[u64], hashes: &[u64], held: &mut [u32]);
}

type Make = fn(u32) -> Box<dyn Index>;

/// All of them, the baseline first.
pub(crate) const INDEXES: &[(&str, Make)] = &[
    ("sharded hash map", |_| Box::new(Plain::new())),
    ("sluicegate", |endpoints| Box::new(Ours::new(endpoints))),
    ("kv-index 2.0.0", |endpoints| Box::new(KvIndex::new(endpoints))),
    ("dynamo-kv-router 1.6.1", |_| Box::new(Dynamo { tree: RadixTree::new(), events: 0 })),
];

/// What one would write first: block hash to the endpoints that hold it.
struct Plain(Vec<RwLock<HashMap<u64, Vec<u32>>>>);

impl Plain {
    const SHARDS: u64 = 16;

    fn new() -> Self {
        Self((0..Self::SHARDS).map(|_| RwLock::default()).collect())
    }

    fn shard(&self, hash: u64) -> &RwLock<HashMap<u64, Vec<u32>>> {
        &self.0[(hash % Self::SHARDS) as usize]
    }
}

impl Index for Plain {
    fn insert(&mut self, endpoint: u32, _: &[u64], hashes: &[u64]) {
        for hash in hashes {
            let mut shard = self.shard(*hash).write();
            let holders = shard.entry(*hash).or_default();
            if !holders.contains(&endpoint) {
                holders.push(endpoint);
            }
        }
    }

    fn lookup(&self, _: &[u64], hashes: &[u64], held: &mut [u32]) {
        held.fill(0);
        for (depth, hash) in (0..).zip(hashes) {
            let shard = self.shard(*hash).read();
            let Some(holders) = shard.get(hash) else { return };
            for endpoint in holders {
                let held = &mut held[*endpoint as usize];
                // A gap ends what an endpoint holds.
                if *held == depth {
                    *held += 1;
                }
            }
        }
    }
}

struct Ours {
    index: sluicegate::prefix::Index,
    endpoints: Vec<EndpointId>,
}

impl Ours {
    fn new(endpoints: u32) -> Self {
        Self {
            index: sluicegate::prefix::Index::new(usize::MAX),
            endpoints: (0..endpoints).map(EndpointId).collect(),
        }
    }
}

impl Index for Ours {
    fn insert(&mut self, endpoint: u32, _: &[u64], hashes: &[u64]) {
        self.index.insert(EndpointId(endpoint), hashes);
    }

    fn lookup(&self, _: &[u64], hashes: &[u64], held: &mut [u32]) {
        let mut found = Vec::with_capacity(held.len());
        self.index.lookup(hashes, &self.endpoints, &mut found);
        held.copy_from_slice(&found);
    }
}

struct KvIndex {
    index: ShardedChainIndex,
    workers: Vec<(u32, ChainBlockMap)>,
    places: HashMap<u32, usize>,
}

impl KvIndex {
    fn new(endpoints: u32) -> Self {
        let index = ShardedChainIndex::new(1, 1_024);
        let worker = |number: u32| index.intern_worker(&number.to_string()).expect("there is room");
        let workers: Vec<_> = (0..endpoints).map(|number| (worker(number), ChainBlockMap::default())).collect();
        let places = workers.iter().enumerate().map(|(place, (worker, _))| (*worker, place)).collect();
        Self { index, workers, places }
    }
}

impl Index for KvIndex {
    fn insert(&mut self, endpoint: u32, blocks: &[u64], hashes: &[u64]) {
        let stored: Vec<_> = blocks
            .iter()
            .zip(hashes)
            .map(|(block, hash)| StoredBlock {
                seq_hash: SequenceHash(*hash),
                content_hash: ContentHash(*block),
            })
            .collect();
        let (worker, map) = &mut self.workers[endpoint as usize];
        self.index.apply_stored(*worker, &stored, None, map).expect("a chain from its first block");
    }

    fn lookup(&self, blocks: &[u64], _: &[u64], held: &mut [u32]) {
        held.fill(0);
        self.index.score_into(blocks, |hash| *hash, false, |worker, score| {
            if let Some(place) = self.places.get(&worker) {
                held[*place] = score;
            }
        });
    }
}

struct Dynamo {
    tree: RadixTree,
    events: u64,
}

impl Index for Dynamo {
    fn insert(&mut self, endpoint: u32, blocks: &[u64], hashes: &[u64]) {
        let blocks = blocks.iter().zip(hashes).map(|(block, hash)| KvCacheStoredBlockData {
            block_hash: ExternalSequenceBlockHash(*hash),
            tokens_hash: LocalBlockHash(*block),
            mm_extra_info: None,
        });
        let data = KvCacheEventData::Stored(KvCacheStoreData {
            parent_hash: None,
            start_position: None,
            blocks: blocks.collect(),
        });
        self.events += 1;
        let event = KvCacheEvent { event_id: self.events, data, dp_rank: 0 };
        self.tree.apply_event(RouterEvent::new(u64::from(endpoint), event)).expect("a chain from its first block");
    }

    fn lookup(&self, blocks: &[u64], _: &[u64], held: &mut [u32]) {
        held.fill(0);
        let blocks = blocks.iter().copied().map(LocalBlockHash).collect();
        for (worker, score) in self.tree.find_matches(blocks, false).scores {
            held[worker.worker_id as usize] = score;
        }
    }
}
