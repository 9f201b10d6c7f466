use std::collections::HashMap;

use proptest::prelude::*;

use super::shard::{LIST_BYTES, NODE_BYTES};
use super::*;

/// Chained hashes of a path of small numbers.
fn chain(path: &[u8]) -> Vec<u64> {
    path.iter()
        .scan(0_u64, |last, step| {
            *last = xxhash_rust::xxh3::xxh3_64_with_seed(&[*step], *last);
            Some(*last)
        })
        .collect()
}

/// What the index should do, block by block: each block of each endpoint with its age and its depth.
#[derive(Default)]
struct Model {
    held: HashMap<(EndpointId, u64), (u64, usize, Vec<u64>)>,
    capacity: HashMap<EndpointId, usize>,
    stamp: u64,
    evictions: u64,
}

impl Model {
    fn insert(&mut self, endpoint: EndpointId, hashes: &[u64]) {
        self.stamp += 1;
        for (depth, hash) in hashes.iter().enumerate() {
            self.held.insert((endpoint, *hash), (self.stamp, depth, hashes[..=depth].to_vec()));
        }
        self.keep(endpoint);
    }

    fn keep(&mut self, endpoint: EndpointId) {
        let capacity = self.capacity.get(&endpoint).copied().unwrap_or(usize::MAX);
        loop {
            let own: Vec<_> = self.held.iter().filter(|((id, _), _)| *id == endpoint).collect();
            if own.len() <= capacity {
                return;
            }
            let oldest =
                own.iter().min_by_key(|(_, (stamp, depth, _))| (*stamp, usize::MAX - depth)).unwrap();
            let key = *oldest.0;
            self.held.remove(&key);
            self.evictions += 1;
        }
    }

    fn lookup(&self, endpoint: EndpointId, hashes: &[u64]) -> u32 {
        hashes.iter().take_while(|hash| self.held.contains_key(&(endpoint, **hash))).count() as u32
    }

    fn truncate(&mut self, endpoint: EndpointId, hashes: &[u64], held: usize) {
        if let Some(first) = hashes.get(held) {
            self.held.retain(|(id, _), (_, _, path)| *id != endpoint || !path.contains(first));
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u32, Vec<u8>),
    Capacity(u32, usize),
    Remove(u32),
    Truncate(u32, Vec<u8>, usize),
}

fn path() -> impl Strategy<Value = Vec<u8>> {
    // Few branches, so that chains share beginnings, end within runs and go on.
    proptest::collection::vec(prop::sample::select(vec![0_u8, 0, 0, 1, 2]), 0..12)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0_u32..4, path()).prop_map(|(id, path)| Step::Insert(id, path)),
        1 => (0_u32..4, 0_usize..20).prop_map(|(id, blocks)| Step::Capacity(id, blocks)),
        1 => (0_u32..4).prop_map(Step::Remove),
        2 => (0_u32..4, path(), 0_usize..12).prop_map(|(id, path, held)| Step::Truncate(id, path, held)),
    ]
}

fn check(index: &Index) {
    let bytes: usize = index.shards.iter().map(|shard| shard.read().check()).sum();
    assert_eq!(bytes, index.bytes());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn does_what_a_plain_map_does(
        steps in proptest::collection::vec(step(), 1..40),
        probes in proptest::collection::vec(path(), 6),
    ) {
        let index = Index::new(usize::MAX);
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Insert(id, path) => {
                    index.insert(EndpointId(id), &chain(&path));
                    model.insert(EndpointId(id), &chain(&path));
                }
                Step::Capacity(id, blocks) => {
                    index.set_capacity(EndpointId(id), blocks);
                    model.capacity.insert(EndpointId(id), blocks);
                    model.keep(EndpointId(id));
                }
                Step::Remove(id) => {
                    index.remove_endpoint(EndpointId(id));
                    model.held.retain(|(owner, _), _| owner.0 != id);
                    model.capacity.remove(&EndpointId(id));
                }
                Step::Truncate(id, path, held) => {
                    index.truncate(EndpointId(id), &chain(&path), held);
                    model.truncate(EndpointId(id), &chain(&path), held);
                }
            }
            check(&index);
            prop_assert_eq!(index.blocks(), model.held.len());
            prop_assert_eq!(index.evictions(), model.evictions);
            let endpoints = [2, 0, 7, 3, 1].map(EndpointId);
            let mut matched = vec![9];
            for probe in &probes {
                let hashes = chain(probe);
                index.lookup(&hashes, &endpoints, &mut matched);
                let expected: Vec<_> = endpoints.iter().map(|id| model.lookup(*id, &hashes)).collect();
                prop_assert_eq!(&matched, &expected);
            }
        }
        for id in 0..4 {
            index.remove_endpoint(EndpointId(id));
        }
        prop_assert_eq!((index.bytes(), index.blocks()), (0, 0));
    }

    #[test]
    fn bytes_stay_bounded(
        paths in proptest::collection::vec((0_u32..5, path()), 1..80),
        max in 0_usize..8000,
    ) {
        let index = Index::new(max);
        for (id, path) in paths {
            index.insert(EndpointId(id), &chain(&path));
            check(&index);
            prop_assert!(index.bytes() <= max);
        }
    }
}

#[test]
fn lists_that_are_no_chains_match_contiguously_too() {
    let index = Index::new(usize::MAX);
    let one = [EndpointId(1)];
    let mut matched = Vec::new();
    index.insert(EndpointId(1), &[1, 2, 3, 4]);
    for (probe, expected) in
        [(vec![1, 2, 3, 4, 5], 4), (vec![1, 9, 3, 4], 1), (vec![9, 2, 3], 0), (vec![2, 3], 0), (vec![], 0)]
    {
        index.lookup(&probe, &one, &mut matched);
        assert_eq!(matched, [expected], "{probe:?}");
    }
}

#[test]
fn the_oldest_of_all_endpoints_goes_first() {
    let index = Index::new(40_000);
    let mut matched = Vec::new();
    for round in 0..400_u64 {
        index.insert(EndpointId(u32::try_from(round % 7).unwrap()), &[round << 48, round + 1]);
    }
    assert!(index.bytes() <= 40_000 && index.evictions() > 0);
    let all: Vec<_> = (0..7).map(EndpointId).collect();
    let found = |round: u64, matched: &mut Vec<u32>| {
        index.lookup(&[round << 48, round + 1], &all, matched);
        matched.iter().sum::<u32>()
    };
    let ages: Vec<_> = (0..400).map(|round| found(round, &mut matched)).collect();
    assert_eq!((ages[0], ages[399]), (0, 2));
    assert!(ages.windows(2).filter(|pair| pair[0] > pair[1]).count() <= 1, "{ages:?}");
}

#[test]
fn many_threads_leave_the_counts_exact() {
    let index = Index::new(200_000);
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let index = &index;
            scope.spawn(move || {
                let mut matched = Vec::new();
                for round in 0..3000_u32 {
                    let path: Vec<_> =
                        (0..12).map(|step| (round.wrapping_mul(2_654_435_761 + step) >> 30) as u8).collect();
                    let hashes = chain(&path);
                    index.insert(EndpointId(round % 5), &hashes);
                    index.lookup(&hashes, &[EndpointId(thread)], &mut matched);
                    match round % 97 {
                        0 => index.remove_endpoint(EndpointId(thread)),
                        1 => index.set_capacity(EndpointId(thread), 50),
                        2 => index.truncate(EndpointId(round % 5), &hashes, 3),
                        _ => {}
                    }
                }
            });
        }
    });
    let bytes: usize = index.shards.iter().map(|shard| shard.read().check()).sum();
    assert_eq!(bytes, index.bytes());
    for id in 0..5 {
        index.remove_endpoint(EndpointId(id));
    }
    assert_eq!((index.blocks(), index.bytes()), (0, 0));
}

impl Shard {
    /// Checks what must always hold and returns the bytes in use.
    fn check(&self) -> usize {
        let mut bytes = self.lists.len() * LIST_BYTES;
        let free: std::collections::HashSet<_> = self.free.iter().copied().collect();
        for (id, node) in self.nodes.iter().enumerate() {
            let id = u32::try_from(id).unwrap();
            if free.contains(&id) {
                continue;
            }
            bytes += NODE_BYTES + node.heap();
            assert_eq!(self.children.get(&(node.parent, node.run[0])), Some(&id));
            assert_eq!(node.holders.iter().map(|holder| holder.held).max(), Some(node.len()));
            assert!(node.holders.is_sorted_by_key(|holder| holder.endpoint));
            for holder in &node.holders {
                assert!(holder.held > 0);
                if let Some(parent) = self.node(node.parent) {
                    let above = parent.holder(holder.endpoint).unwrap();
                    assert_eq!(above.held, parent.len());
                    assert!(above.stamp >= holder.stamp);
                }
                if let Some(older) = self.node(holder.older) {
                    assert_eq!(older.holder(holder.endpoint).unwrap().newer, id);
                }
            }
        }
        assert_eq!(self.nodes.len() - self.free.len(), self.children.len());
        bytes
    }
}
