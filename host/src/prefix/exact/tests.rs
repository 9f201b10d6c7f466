use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::clock::SECOND;
use crate::prefix::token_hashes;

const BLOCK: u32 = 2;

fn stored(blocks: &[u64], parent: Option<u64>, tokens: &[u32]) -> Stored {
    Stored {
        blocks: blocks.to_vec(),
        parent,
        tokens: tokens.to_vec(),
        block_tokens: BLOCK,
        adapter: Adapter::None,
        extra: Vec::new(),
        tier: Tier::Gpu,
        group: None,
        full_attention: None,
    }
}

fn open(index: &Arc<Exact>, endpoint: u32) -> (Arc<Feed>, Source) {
    let feed = index.open(EndpointId(endpoint), 1);
    let source = Source::new(index, &feed);
    (feed, source)
}

fn chain(tokens: &[u32]) -> Arc<[u64]> {
    token_hashes(seed(None, ""), tokens, BLOCK).into()
}

fn run(index: &Exact, endpoint: u32, tokens: &[u32]) -> Run {
    index.lookup(&chain(tokens), &[EndpointId(endpoint)], SECOND)[0]
}

fn gpu(blocks: u32) -> Run {
    Run { gpu: blocks, ..Run::default() }
}

#[test]
fn what_an_engine_reports_is_found_by_token_ids() {
    let index = Arc::new(Exact::new(usize::MAX));
    let (feed, mut source) = open(&index, 1);
    source.stored(&stored(&[70, 71], None, &[1, 2, 3, 4])).unwrap();
    source.stored(&stored(&[72], Some(71), &[5, 6])).unwrap();
    assert_eq!(feed.block_tokens(), BLOCK);
    assert_eq!(run(&index, 1, &[1, 2, 3, 4, 5, 6, 7, 8]), gpu(3));
    assert_eq!(run(&index, 1, &[1, 2, 9, 9, 5, 6]), gpu(1));
    assert_eq!(run(&index, 2, &[1, 2]), gpu(0));
    source.removed(&[71], Tier::Gpu, None).unwrap();
    assert_eq!(run(&index, 1, &[1, 2, 3, 4, 5, 6]), gpu(1));
    source.stored(&stored(&[71], Some(70), &[3, 4])).unwrap();
    assert_eq!(run(&index, 1, &[1, 2, 3, 4, 5, 6]), gpu(3));
}

#[test]
fn a_run_is_told_by_tiers() {
    let index = Arc::new(Exact::new(usize::MAX));
    let (_feed, mut source) = open(&index, 1);
    source.stored(&stored(&[1, 2, 3], None, &[1, 2, 3, 4, 5, 6])).unwrap();
    // Known blocks come to another tier without token ids.
    source.stored(&Stored { tier: Tier::Cpu, block_tokens: 0, ..stored(&[2, 3], None, &[]) }).unwrap();
    source.stored(&Stored { tier: Tier::Disk, ..stored(&[3], None, &[]) }).unwrap();
    assert_eq!(run(&index, 1, &[1, 2, 3, 4, 5, 6]), gpu(3));
    source.removed(&[3, 2], Tier::Gpu, None).unwrap();
    assert_eq!(run(&index, 1, &[1, 2, 3, 4, 5, 6]), Run { gpu: 1, cpu: 2, disk: 0 });
    source.removed(&[3], Tier::Cpu, None).unwrap();
    assert_eq!(run(&index, 1, &[1, 2, 3, 4, 5, 6]), Run { gpu: 1, cpu: 1, disk: 1 });
    assert_eq!(Tier::ALL.map(|tier| index.blocks(tier)), [1, 1, 1]);
}

#[test]
fn adapters_salts_and_images_keep_apart() {
    let index = Arc::new(Exact::new(usize::MAX));
    let (feed, mut source) = open(&index, 1);
    let tokens = [1, 2, 3, 4];
    let of = |adapter: Option<&str>, salt: &str| {
        let hashes = token_hashes(seed(adapter, salt), &tokens, BLOCK);
        index.lookup(&hashes, &[EndpointId(1)], 0)[0].blocks()
    };
    let text = |text: &str| Extra::Text(text.into());
    let named = Adapter::Named("a".into());
    for (event, expected) in [
        (
            Stored { extra: vec![Extra::Other(7), Extra::None], ..stored(&[1, 2], None, &tokens) },
            [0, 0, 0, 0],
        ),
        (Stored { adapter: Adapter::Numbered(1), ..stored(&[3, 4], None, &tokens) }, [0, 0, 0, 0]),
        (Stored { adapter: named.clone(), ..stored(&[5, 6], None, &tokens) }, [0, 2, 0, 0]),
        (Stored { extra: vec![text("s"), Extra::None], ..stored(&[7, 8], None, &tokens) }, [0, 2, 2, 0]),
        (
            Stored { adapter: named, extra: vec![text("s"), text("x")], ..stored(&[9, 10], None, &tokens) },
            [0, 2, 2, 1],
        ),
        (stored(&[11], None, &tokens[..2]), [1, 2, 2, 1]),
    ] {
        source.stored(&event).unwrap();
        assert_eq!(
            [of(None, ""), of(Some("a"), ""), of(None, "s"), of(Some("a"), "s")],
            expected,
            "{event:?}"
        );
    }
    assert!(feed.names_adapter("a") && !feed.names_adapter("s"));
}

#[test]
fn reports_that_do_not_fit_change_nothing() {
    let index = Arc::new(Exact::new(usize::MAX));
    let (_feed, mut source) = open(&index, 1);
    for (event, why) in [
        (stored(&[1, 2], None, &[1, 2, 3]), Dropped::Malformed),
        (Stored { block_tokens: 0, ..stored(&[1], None, &[1]) }, Dropped::Malformed),
        (Stored { extra: vec![Extra::None; 2], ..stored(&[1], None, &[1, 2]) }, Dropped::Malformed),
        (stored(&[1], Some(9), &[1, 2]), Dropped::UnknownParent),
        (stored(&[1], None, &[]), Dropped::UnknownBlock),
        (Stored { full_attention: Some(false), ..stored(&[1], None, &[1, 2]) }, Dropped::OtherGroup),
        (Stored { group: Some(1), ..stored(&[1], None, &[1, 2]) }, Dropped::OtherGroup),
    ] {
        assert_eq!(source.stored(&event), Err(why), "{event:?}");
    }
    assert_eq!(source.removed(&[1], Tier::Gpu, None), Err(Dropped::UnknownBlock));
    assert!(source.is_empty());
}

#[test]
fn of_a_model_of_several_kinds_of_layers_one_full_group_counts() {
    let index = Arc::new(Exact::new(usize::MAX));
    let (_feed, mut source) = open(&index, 1);
    let of = |group, full| Stored { group: Some(group), full_attention: full, ..stored(&[1], None, &[1, 2]) };
    assert_eq!(source.stored(&of(0, Some(false))), Err(Dropped::OtherGroup));
    assert_eq!(source.stored(&of(2, Some(true))), Ok(()));
    assert_eq!(source.removed(&[1], Tier::Gpu, Some(0)), Err(Dropped::OtherGroup));
    assert_eq!(source.stored(&of(3, Some(true))), Err(Dropped::OtherGroup));
    assert_eq!(run(&index, 1, &[1, 2]), gpu(1));
    assert_eq!(source.removed(&[1], Tier::Gpu, Some(2)), Ok(()));
    assert_eq!(run(&index, 1, &[1, 2]), gpu(0));
}

#[test]
fn what_was_sent_counts_for_a_while_and_then_only_what_is_reported() {
    let index = Arc::new(Exact::new(usize::MAX));
    let (feed, mut source) = open(&index, 1);
    source.stored(&stored(&[1], None, &[1, 2])).unwrap();
    let hashes = chain(&[1, 2, 3, 4, 5, 6]);
    let at = |now| index.lookup(&hashes, &[EndpointId(1)], now)[0];
    index.speculate(&feed, &hashes, 1, SECOND);
    assert_eq!(at(SECOND), gpu(3));
    source.stored(&stored(&[2], Some(1), &[3, 4])).unwrap();
    assert_eq!(at(SECOND + LASTS + SECOND), gpu(2));
    index.sweep(SECOND + LASTS + SECOND);
    assert_eq!(at(SECOND), gpu(2));
    index.speculate(&feed, &hashes, 2, SECOND);
    index.give_up(&feed, &hashes, 2);
    assert_eq!(at(SECOND), gpu(2));
    index.sweep(9 * SECOND);
    index.speculate(&feed, &hashes, 2, 9 * SECOND);
    source.stored(&stored(&[3], Some(2), &[5, 6])).unwrap();
    assert_eq!(at(9 * SECOND), gpu(3));
    source.removed(&[3], Tier::Gpu, None).unwrap();
    assert_eq!(at(9 * SECOND), gpu(2), "what was reported to be gone is not expected any more");
    index.speculate(&feed, &hashes, 2, 9 * SECOND);
    drop(source);
    assert_eq!(at(9 * SECOND), gpu(0));
    assert_eq!((index.bytes(), index.blocks(Tier::Gpu)), (0, 0));
}

#[test]
fn a_full_index_takes_nothing_more() {
    let index = Arc::new(Exact::new(4_000));
    let (_feed, mut source) = open(&index, 1);
    let mut refused = false;
    for block in 0..1_000 {
        let token = u32::try_from(block).unwrap();
        refused |= source.stored(&stored(&[block], None, &[token, 0])) == Err(Dropped::Full);
        // One report and the growth of two tables beyond the limit at most.
        assert!(index.bytes() < 12_000, "{}", index.bytes());
    }
    assert!(refused);
}

#[test]
fn of_several_ranks_the_one_that_holds_most_counts() {
    let index = Arc::new(Exact::new(usize::MAX));
    let feed = index.open(EndpointId(1), 2);
    let (mut one, mut other) = (Source::new(&index, &feed), Source::new(&index, &feed));
    one.stored(&stored(&[1, 2], None, &[1, 2, 3, 4])).unwrap();
    other.stored(&stored(&[1], None, &[1, 2])).unwrap();
    assert_eq!(run(&index, 1, &[1, 2, 3, 4]), gpu(2));
    while one.forget_some() {}
    assert_eq!(run(&index, 1, &[1, 2, 3, 4]), gpu(1));
}

#[test]
fn a_copy_that_is_lost_does_not_lose_what_follows() {
    let index = Arc::new(Exact::new(usize::MAX));
    let (_feed, mut source) = open(&index, 1);
    source.stored(&stored(&[1], None, &[1, 2])).unwrap();
    source.removed(&[1], Tier::Gpu, None).unwrap();
    source.stored(&stored(&[2], Some(1), &[3, 4])).unwrap();
    source.stored(&stored(&[1], None, &[1, 2])).unwrap();
    assert_eq!(run(&index, 1, &[1, 2, 3, 4]), gpu(2));
}

/// What the index should do: of each endpoint the prompts up to each block, with its tiers.
#[derive(Default)]
struct Model {
    held: BTreeMap<(u32, Vec<u32>), [bool; 3]>,
}

impl Model {
    fn run(&self, endpoint: u32, tokens: &[u32]) -> Run {
        let mut run = Run::default();
        for end in (2..=tokens.len()).step_by(2) {
            let held = self.held.get(&(endpoint, tokens[..end].to_vec())).copied().unwrap_or_default();
            match Tier::ALL.into_iter().find(|tier| held[tier.place()]) {
                Some(tier) => run.add(tier, 1),
                None => break,
            }
        }
        run
    }
}

#[derive(Debug, Clone)]
enum Step {
    Stored(u32, Vec<u32>, Tier),
    Removed(u32, Vec<u32>, Tier),
    Cleared(u32),
}

fn tokens() -> impl Strategy<Value = Vec<u32>> {
    // Few different blocks, so that prompts share beginnings.
    proptest::collection::vec(prop::sample::select(vec![0_u32, 0, 1]), 0..8)
        .prop_map(|blocks| blocks.into_iter().flat_map(|block| [block, 7]).collect())
}

fn step() -> impl Strategy<Value = Step> {
    let tier = || prop::sample::select(Tier::ALL.to_vec());
    prop_oneof![
        8 => (0_u32..3, tokens(), tier()).prop_map(|(id, tokens, tier)| Step::Stored(id, tokens, tier)),
        4 => (0_u32..3, tokens(), tier()).prop_map(|(id, tokens, tier)| Step::Removed(id, tokens, tier)),
        1 => (0_u32..3).prop_map(Step::Cleared),
    ]
}

/// The engine's name of the block that ends a prompt: each engine has its own.
fn name(endpoint: u32, tokens: &[u32]) -> u64 {
    let bytes: Vec<u8> = tokens.iter().flat_map(|id| id.to_le_bytes()).collect();
    xxhash_rust::xxh3::xxh3_64_with_seed(&bytes, u64::from(endpoint) + 100)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn does_what_a_plain_map_does(
        steps in proptest::collection::vec(step(), 1..40),
        probes in proptest::collection::vec(tokens(), 6),
    ) {
        let index = Arc::new(Exact::new(usize::MAX));
        let mut sources: Vec<_> = (0..3).map(|id| open(&index, id).1).collect();
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Stored(id, tokens, tier) => {
                    let names: Vec<_> =
                        (2..=tokens.len()).step_by(2).map(|end| name(id, &tokens[..end])).collect();
                    let event = Stored { tier, ..stored(&names, None, &tokens) };
                    let done = sources[id as usize].stored(&event);
                    prop_assert_eq!(done.is_ok(), !tokens.is_empty());
                    for end in (2..=tokens.len()).step_by(2) {
                        let held = model.held.entry((id, tokens[..end].to_vec())).or_default();
                        held[tier.place()] = true;
                    }
                }
                Step::Removed(id, tokens, tier) => {
                    let known = model.held.get_mut(&(id, tokens.clone()));
                    let was = known.is_some_and(|held| std::mem::take(&mut held[tier.place()]));
                    let done = sources[id as usize].removed(&[name(id, &tokens)], tier, None);
                    prop_assert_eq!(done.is_ok(), was);
                }
                Step::Cleared(id) => {
                    while sources[id as usize].forget_some() {}
                    model.held.retain(|(owner, _), _| *owner != id);
                }
            }
            for tier in Tier::ALL {
                let held = model.held.values().filter(|held| held[tier.place()]).count();
                prop_assert_eq!(index.blocks(tier), held);
            }
            for probe in &probes {
                let endpoints = [2, 0, 1].map(EndpointId);
                let found = index.lookup(&chain(probe), &endpoints, 0);
                let expected: Vec<_> = endpoints.iter().map(|id| model.run(id.0, probe)).collect();
                prop_assert_eq!(found, expected);
            }
        }
        let tables: usize = index.shards.iter().map(|shard| shard.read().bytes()).sum();
        prop_assert!(index.bytes() >= tables);
        sources.clear();
        prop_assert!(index.shards.iter().all(|shard| shard.read().holders().next().is_none()));
        let tables: usize = index.shards.iter().map(|shard| shard.read().bytes()).sum();
        prop_assert_eq!(index.bytes(), tables);
    }
}
