//! Behaviour of the scheduler as a whole, by examples and by property.

use super::*;
use crate::text::chain_seed;
use proptest::prelude::*;

fn small() -> Config {
    Config {
        block_size: 4,
        num_blocks: 16,
        max_num_seqs: 4,
        max_num_batched_tokens: 32,
        max_model_len: 64,
        step_base: 1000.0,
        prefill_token: 100.0,
        decode_seq: 10.0,
        transfer_base: 500.0,
        transfer_token: 10.0,
        lease: 1_000_000,
    }
}

fn request(prompt: impl IntoIterator<Item = u32>, max_output: u32) -> Request {
    Request {
        prompt: prompt.into_iter().collect(),
        seed: chain_seed("m", ""),
        adapter: None,
        salt: String::new(),
        answer: 1,
        words: None,
        max_output,
        natural_end: false,
        transfer: Transfer::None,
    }
}

/// Runs until nothing is left but leases.
fn drain(core: &mut Core, out: &mut Vec<Event>) {
    while core.gauges().running + core.gauges().waiting + core.gauges().fetching > 0 {
        let wake = core.next_wake().expect("an engine with work has a next wake");
        core.advance(wake, out);
    }
}

fn usage_of(out: &[Event], wanted: SequenceId) -> Usage {
    out.iter()
        .find_map(|event| match event {
            Event::Finished { id, usage, .. } if *id == wanted => Some(*usage),
            _ => None,
        })
        .expect("it finished")
}

#[test]
fn time_of_one_request_is_prefill_then_decode() {
    let mut core = Core::new(small());
    let mut out = Vec::new();
    core.submit(0, request(0..10, 3));
    drain(&mut core, &mut out);
    let times: Vec<Nanos> = out
        .iter()
        .filter_map(|event| match event {
            Event::Token { at, .. } => Some(*at),
            _ => None,
        })
        .collect();
    // Prefill 1000 + 10·100, then each token 1000 + 10.
    assert_eq!(times, [2000, 3010, 4020]);
    assert_eq!(core.gauges().blocks_free, 16);
}

#[test]
fn a_shared_prefix_is_not_computed_again() {
    let mut core = Core::new(small());
    let mut out = Vec::new();
    core.submit(0, request(0..20, 1));
    drain(&mut core, &mut out);
    let second = core.submit(1_000_000, request((0..17).chain(90..95), 1));
    drain(&mut core, &mut out);
    assert_eq!(usage_of(&out, second).cached, 16);
    assert_eq!(core.stats().prefix_hits, 16);
    assert_eq!(core.stats().prefix_queries, 42);
    assert_eq!(core.stats().local_compute, 26);
}

#[test]
fn the_last_token_of_a_cached_prompt_is_computed() {
    let mut core = Core::new(small());
    let mut out = Vec::new();
    core.submit(0, request(0..16, 1));
    drain(&mut core, &mut out);
    let again = core.submit(1_000_000, request(0..16, 1));
    drain(&mut core, &mut out);
    assert_eq!(usage_of(&out, again).cached, 12);
}

#[test]
fn another_salt_shares_nothing() {
    let mut core = Core::new(small());
    let mut out = Vec::new();
    core.submit(0, request(0..16, 1));
    let mut other = request(0..16, 1);
    other.seed = chain_seed("m", "tenant");
    let id = core.submit(0, other);
    drain(&mut core, &mut out);
    assert_eq!(usage_of(&out, id).cached, 0);
}

#[test]
fn a_long_prompt_is_prefilled_in_chunks_beside_decoding() {
    let mut core = Core::new(small());
    let mut out = Vec::new();
    let short = core.submit(0, request(0..4, 8));
    core.submit(0, request(100..140, 1));
    drain(&mut core, &mut out);
    let firsts: Vec<SequenceId> =
        out.iter().filter(|e| matches!(e, Event::Token { .. })).map(Event::id).take(3).collect();
    // 40 tokens at 32 a step take two steps, in which the first sequence goes on.
    assert_eq!(firsts[..2], [short, short]);
}

#[test]
fn preemption_when_blocks_run_out_loses_nothing() {
    let mut config = small();
    config.num_blocks = 8;
    config.max_model_len = 32;
    let mut core = Core::new(config);
    let mut out = Vec::new();
    core.submit(0, request(0..12, 20));
    core.submit(0, request(50..62, 20));
    drain(&mut core, &mut out);
    assert!(core.stats().preemptions > 0);
    assert_eq!((usage_of(&out, 0).output, usage_of(&out, 1).output), (20, 20));
    assert_eq!(core.stats().generation_tokens, 40);
    assert_eq!(core.gauges().blocks_free, 8);
}

#[test]
fn a_prefill_leg_pins_and_a_release_frees() {
    let mut core = Core::new(small());
    let mut out = Vec::new();
    let mut leg = request(0..20, 1);
    leg.transfer = Transfer::Export("r1".into());
    core.submit(0, leg);
    drain(&mut core, &mut out);
    assert_eq!(core.gauges().blocks_free, 11);
    assert!(
        matches!(core.lease("r1", 5000), LeaseState::Held(pinned) if pinned.tokens == 20 && pinned.blocks.len() == 5)
    );
    assert_eq!(core.lease("r2", 5000), LeaseState::Unknown);
    assert!(core.release_lease("r1", 5000));
    assert!(!core.release_lease("r1", 5000));
    assert_eq!(core.lease("r1", 5000), LeaseState::Released);
    assert_eq!(core.gauges().blocks_free, 16);
}

#[test]
fn a_lease_runs_out() {
    let mut core = Core::new(small());
    let mut out = Vec::new();
    let mut leg = request(0..20, 1);
    leg.transfer = Transfer::Export("r1".into());
    core.submit(0, leg);
    drain(&mut core, &mut out);
    core.advance(2_000_000, &mut out);
    assert_eq!(core.lease("r1", 2_000_000), LeaseState::Expired);
    assert_eq!((core.gauges().blocks_free, core.stats().leases_expired), (16, 1));
}

#[test]
fn a_decode_leg_computes_only_its_last_token() {
    let mut core = Core::new(small());
    let mut out = Vec::new();
    let mut leg = request(0..20, 2);
    leg.transfer = Transfer::Import;
    let id = core.submit(0, leg);
    assert_eq!((core.gauges().running, core.gauges().fetching), (0, 1));
    drain(&mut core, &mut out);
    assert_eq!(out.first(), Some(&Event::Fetched { id }));
    // Transfer 500 + 20·10, then one token of prefill.
    assert!(matches!(out.get(1), Some(Event::Token { at: 1800, .. })));
    assert_eq!(usage_of(&out, id).external, 20);
    assert_eq!((core.stats().external_kv_transfer, core.stats().local_compute), (20, 0));
}

#[test]
fn an_embedding_has_no_tokens() {
    let mut core = Core::new(small());
    let mut out = Vec::new();
    let id = core.submit(0, request(0..9, 0));
    drain(&mut core, &mut out);
    assert_eq!(out.len(), 1);
    assert_eq!(usage_of(&out, id).output, 0);
}

#[test]
fn a_pinned_cache_full_of_leases_waits_for_them() {
    let mut core = Core::new(small());
    let mut out = Vec::new();
    let mut leg = request(0..60, 1);
    leg.transfer = Transfer::Export("r1".into());
    core.submit(0, leg);
    drain(&mut core, &mut out);
    let late = core.submit(20_000, request(200..240, 1));
    assert_eq!(core.gauges().waiting, 1);
    drain(&mut core, &mut out);
    assert_eq!((usage_of(&out, late).output, core.stats().leases_expired), (1, 1));
}

#[derive(Debug, Clone)]
enum Op {
    Submit { group: u32, prompt: u32, output: u32, transfer: u8 },
    Abort(u64),
    Wait(u64),
    Release(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..4_u32, 1..40_u32, 0..20_u32, 0..6_u8)
            .prop_map(|(group, prompt, output, transfer)| Op::Submit { group, prompt, output, transfer }),
        1 => (0..40_u64).prop_map(Op::Abort),
        3 => (0..20_000_u64).prop_map(Op::Wait),
        1 => (0..40_u64).prop_map(Op::Release),
    ]
}

/// Every use of a block belongs to a sequence or a lease, and no block is both free and used.
fn check_blocks(core: &Core) {
    let held: usize = core.running.iter().map(|s| s.blocks.len()).sum::<usize>()
        + core.waiting.iter().map(|s| s.blocks.len()).sum::<usize>()
        + core.fetched.iter().map(|s| s.blocks.len()).sum::<usize>()
        + core.fetching.iter().map(|(_, s)| s.blocks.len()).sum::<usize>()
        + core.leases.uses();
    assert_eq!(core.cache.uses(), held);
    assert!(core.cache.free() + held >= core.cache.total());
    assert!(core.running.len() <= core.config.max_num_seqs);
    assert!(core.waiting.iter().all(|s| s.blocks.is_empty()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn blocks_are_conserved_and_no_request_is_lost(ops in prop::collection::vec(op(), 1..80)) {
        let mut core = Core::new(small());
        let (mut out, mut now) = (Vec::new(), 0);
        let mut asked = std::collections::BTreeMap::new();
        for op in ops {
            core.advance(now, &mut out);
            match op {
                Op::Submit { group, prompt, output, transfer } => {
                    let mut request = request((0..prompt).map(|i| group * 1000 + i), output);
                    request.transfer = match transfer {
                        0 => Transfer::Export(format!("{}", asked.len())),
                        1 => Transfer::Import,
                        _ => Transfer::None,
                    };
                    asked.insert(core.submit(now, request), output as usize);
                }
                Op::Abort(id) => {
                    if core.abort(id, now) {
                        asked.remove(&id);
                    }
                }
                Op::Wait(time) => now += time,
                Op::Release(id) => {
                    core.release_lease(&id.to_string(), now);
                }
            }
            check_blocks(&core);
        }
        while let Some(wake) = core.next_wake() {
            core.advance(wake, &mut out);
            check_blocks(&core);
        }
        // Everything asked for and not given up has ended, with exactly the tokens asked for.
        for (id, output) in &asked {
            prop_assert_eq!(usage_of(&out, *id).output, *output);
            let tokens = out.iter().filter(|e| matches!(e, Event::Token { id: of, .. } if of == id)).count();
            prop_assert_eq!(tokens, *output);
        }
        prop_assert_eq!(core.cache.uses(), 0);
        prop_assert_eq!(core.gauges().blocks_free, core.cache.total());
    }

    #[test]
    fn first_come_first_served(prompts in prop::collection::vec((1..40_u32, 1..4_u32), 1..30)) {
        // Without preemption: room for all answers.
        let mut config = small();
        config.num_blocks = 1000;
        let mut core = Core::new(config);
        let mut out = Vec::new();
        for (at, (prompt, output)) in prompts.iter().enumerate() {
            core.submit(0, request((0..*prompt).map(|i| at as u32 * 1000 + i), *output));
        }
        drain(&mut core, &mut out);
        let mut seen = Vec::new();
        for event in &out {
            if matches!(event, Event::Token { .. }) && !seen.contains(&event.id()) {
                seen.push(event.id());
            }
        }
        let mut sorted = seen.clone();
        sorted.sort_unstable();
        prop_assert_eq!(seen, sorted);
    }

    #[test]
    fn time_never_runs_backwards(ops in prop::collection::vec((0..3_u32, 1..40_u32, 0..3_000_u64), 1..40)) {
        let mut core = Core::new(small());
        let (mut out, mut now) = (Vec::new(), 0);
        for (group, prompt, wait) in ops {
            now += wait;
            core.advance(now, &mut out);
            core.submit(now, request((0..prompt).map(|i| group * 1000 + i), 3));
        }
        drain(&mut core, &mut out);
        let times: Vec<Nanos> = out.iter().filter_map(|event| match event {
            Event::Token { at, .. } | Event::Finished { at, .. } => Some(*at),
            Event::Fetched { .. } => None,
        }).collect();
        prop_assert!(times.windows(2).all(|pair| pair[0] <= pair[1]));
    }
}
