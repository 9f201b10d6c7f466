//! What is inserted and asked.

/// Different prefixes.
const PREFIXES: u64 = 200;
/// Endpoints that share a prefix.
const SHARED_BY: u64 = 8;
/// Blocks of a prefix.
const PREFIX_BLOCKS: u64 = 384;
/// Blocks that a chain has for itself.
const OWN_BLOCKS: u64 = 128;
/// Chains that are inserted.
const CHAINS: u64 = 10_000;

/// A prompt, as an endpoint was sent it.
pub(crate) struct Chain {
    pub(crate) endpoint: u32,
    /// Hashes of the blocks alone.
    pub(crate) blocks: Vec<u64>,
    /// Hashes of everything up to the end of each block.
    pub(crate) hashes: Vec<u64>,
}

pub(crate) struct Workload {
    pub(crate) endpoints: u32,
    pub(crate) chains: Vec<Chain>,
}

impl Workload {
    pub(crate) fn new(endpoints: u32) -> Self {
        let chains = (0..CHAINS).map(|number| {
            let prefix = mix(number) % PREFIXES;
            let endpoint = mix(prefix * SHARED_BY + mix(number ^ 0xabc) % SHARED_BY) % u64::from(endpoints);
            chain(endpoint as u32, prefix, number)
        });
        Self { endpoints, chains: chains.collect() }
    }

    /// Blocks, counted once for each endpoint that holds them.
    pub(crate) fn blocks(&self) -> u64 {
        let mut seen = std::collections::HashSet::new();
        for chain in &self.chains {
            seen.extend(chain.hashes.iter().map(|hash| (chain.endpoint, *hash)));
        }
        seen.len() as u64
    }

    /// Chains that were inserted, in an order that no cache expects.
    pub(crate) fn asked(&self) -> impl Iterator<Item = &Chain> {
        let count = self.chains.len() as u64;
        (0..).filter_map(move |number| self.chains.get((mix(number ^ 0x5eed) % count) as usize))
    }
}

fn chain(endpoint: u32, prefix: u64, number: u64) -> Chain {
    let shared = (0..PREFIX_BLOCKS).map(|block| mix(prefix << 20 | block));
    let own = (0..OWN_BLOCKS).map(|block| mix(1 << 50 | number << 20 | block));
    let blocks: Vec<u64> = shared.chain(own).collect();
    let mut last = 0;
    let hashes = blocks.iter().map(|block| {
        last = mix(last ^ block);
        last
    });
    Chain { endpoint, hashes: hashes.collect(), blocks }
}

/// splitmix64
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
