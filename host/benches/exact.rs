//! What the index of engines' reports costs: blocks that are reported, looked up and reported gone, and their bytes.
//!
//!     cargo bench -p sluicegate --bench exact
//!
//! Prompts of 512 blocks of 16 tokens, 384 of which are one of 200 prefixes that eight endpoints share each.
#![allow(clippy::expect_used, reason = "a benchmark that cannot go on says why")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluicegate::prefix::exact::{Adapter, Source, Stored, Tier, seed};
use sluicegate::prefix::{Exact, token_hashes};
use sluicegate::types::EndpointId;

const PREFIXES: u64 = 200;
const SHARED_BY: u64 = 8;
const PREFIX_BLOCKS: u64 = 384;
const BLOCKS: u64 = 512;
const BLOCK_TOKENS: u32 = 16;
const PROMPTS: u64 = 2_000;
/// Memory that it may have: more than it needs.
const MAX_BYTES: usize = 4 << 30;
/// In the middle of a report's time in force.
const NOW: u64 = 1;

fn main() {
    println!(
        "| endpoints | look-up of 512 blocks, µs | M blocks reported/s | M blocks gone/s | bytes a block |"
    );
    println!("|---:|---:|---:|---:|---:|");
    for endpoints in [64, 1_024] {
        measure(endpoints);
    }
}

fn measure(endpoints: u64) {
    let index = Arc::new(Exact::new(MAX_BYTES));
    let ids: Vec<EndpointId> =
        (0..endpoints).filter_map(|id| Some(EndpointId(u32::try_from(id).ok()?))).collect();
    let mut sources: Vec<Source> = ids.iter().map(|id| source(&index, *id)).collect();
    let mut prompts: Vec<(usize, Stored)> = (0..PROMPTS).map(|number| prompt(number, endpoints)).collect();
    let (mut reported, mut took) = (0, Duration::ZERO);
    for (at, stored) in &mut prompts {
        let Some(source) = sources.get_mut(*at) else { continue };
        let before = source.len();
        let began = Instant::now();
        source.stored(stored).expect("room");
        took += began.elapsed();
        reported += source.len() - before;
    }
    let bytes = index.bytes() as f64 / reported as f64;
    let inserts = BLOCKS as f64 * PROMPTS as f64 / took.as_secs_f64() / 1e6;

    let root = seed(None, "");
    let chains: Vec<_> =
        prompts.iter().map(|(_, stored)| token_hashes(root, &stored.tokens, BLOCK_TOKENS)).collect();
    let (mut asked, mut found) = (0_u32, 0_u64);
    let began = Instant::now();
    for number in 0..PROMPTS {
        let Some(chain) = usize::try_from(mix(number) % PROMPTS).ok().and_then(|at| chains.get(at)) else {
            continue;
        };
        let runs = black_box(index.lookup(chain, &ids, NOW));
        found += runs.iter().map(|run| u64::from(run.blocks())).max().unwrap_or(0);
        asked += 1;
    }
    let lookup = began.elapsed().as_secs_f64() * 1e6 / f64::from(asked);
    assert_eq!(found, u64::from(asked) * BLOCKS, "every prompt is held whole by somebody");

    let began = Instant::now();
    for (at, stored) in &prompts {
        // Of what they share all but the first are gone already.
        let _known = sources.get_mut(*at).map(|source| source.removed(&stored.blocks, Tier::Gpu, None));
    }
    let gone = reported as f64 / began.elapsed().as_secs_f64() / 1e6;
    println!("| {endpoints} | {lookup:.1} | {inserts:.2} | {gone:.2} | {bytes:.0} |");
}

fn source(index: &Arc<Exact>, endpoint: EndpointId) -> Source {
    let feed = index.open(endpoint, 1);
    for stream in feed.streams() {
        stream.set_connected(true);
        stream.set_complete(true);
    }
    Source::new(index, &feed)
}

/// The endpoint that holds a prompt, and what its engine says of it.
fn prompt(number: u64, endpoints: u64) -> (usize, Stored) {
    let prefix = mix(number) % PREFIXES;
    let endpoint = mix(prefix * SHARED_BY + mix(number ^ 0xabc) % SHARED_BY) % endpoints;
    let own = |block: u64| {
        if block < PREFIX_BLOCKS { prefix << 20 | block } else { 1 << 50 | number << 20 | block }
    };
    let token = |block: u64, at: u32| u32::try_from(mix(own(block) ^ u64::from(at) << 56) >> 40).unwrap_or(0);
    let stored = Stored {
        blocks: (0..BLOCKS).map(|block| mix(own(block))).collect(),
        parent: None,
        tokens: (0..BLOCKS).flat_map(|block| (0..BLOCK_TOKENS).map(move |at| token(block, at))).collect(),
        block_tokens: BLOCK_TOKENS,
        adapter: Adapter::None,
        extra: Vec::new(),
        tier: Tier::Gpu,
        group: None,
        full_attention: None,
    };
    (usize::try_from(endpoint).unwrap_or(0), stored)
}

/// splitmix64
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
