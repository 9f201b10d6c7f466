use proptest::prelude::*;
use sluicegate_sdk::fake::{self, Endpoints, Request};

use super::*;

fn policy(json: &str) -> PrefixAffinity {
    fake::configure(json).unwrap()
}

fn prompt(tokens: u32) -> Request {
    Request { prompt_tokens: tokens, ..Request::default() }
}

fn best(scores: &[f32]) -> usize {
    (0..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap()
}

#[test]
fn a_prefix_is_worth_its_queue_and_no_more() {
    // 3,000 of 4,000 tokens cached: worth 3,000 tokens of queue, and what computing them again costs others.
    let at = |ahead: f32| {
        let endpoints =
            Endpoints::new(2).with("prefix.tokens", [3_000.0, 0.0]).with("load.prefill_tokens", [ahead, 0.0]);
        best(&policy("").score(&prompt(4_000), &endpoints))
    };
    // 200 ms to compute them, as much again twice for what they displace, and 53 ms for those who come while the 4,000
    // tokens are computed.
    assert_eq!(at(9_700.0), 0);
    assert_eq!(at(9_900.0), 1);
}

#[test]
fn where_all_have_queues_a_prefix_is_worth_more() {
    let at = |more: f32| {
        let endpoints = Endpoints::new(2)
            .with("prefix.tokens", [3_000.0, 0.0])
            .with("load.prefill_tokens", [30_000.0 + more, 30_000.0]);
        best(&policy("").score(&prompt(4_000), &endpoints))
    };
    assert_eq!(at(9_900.0), 0);
    // Two seconds in which others come, and 200 ms more for each of them.
    assert_eq!(at(15_700.0), 0);
    assert_eq!(at(15_900.0), 1);
}

#[test]
fn an_empty_cache_is_filled_more_easily_than_a_full_one() {
    let at = |occupancy: f32| {
        let endpoints = Endpoints::new(2)
            .with("prefix.tokens", [3_000.0, 0.0])
            .with("load.prefill_tokens", [5_000.0, 0.0])
            .with("prefix.occupancy", [1.0, occupancy]);
        best(&policy("").score(&prompt(4_000), &endpoints))
    };
    assert_eq!(at(0.0), 1);
    assert_eq!(at(1.0), 0);
}

#[test]
fn a_new_endpoint_gets_its_first_copies_one_at_a_time() {
    let at = |requests: f32, ahead: f32, occupancy: f32| {
        let endpoints = Endpoints::new(3)
            .with("prefix.tokens", [3_000.0, 3_000.0, 0.0])
            .with("load.requests", [8.0, 8.0, requests])
            .with("load.prefill_tokens", [1_000.0, 1_000.0, ahead])
            .with("prefix.occupancy", [1.0, 1.0, occupancy]);
        best(&policy("").score(&prompt(3_500), &endpoints))
    };
    assert_eq!(at(0.0, 0.0, 0.0), 2);
    assert_ne!(at(1.0, 3_500.0, 0.0), 2, "one is being computed there");
    assert_ne!(at(0.0, 0.0, 1.0), 2, "its cache is full of other prefixes");
    assert_ne!(at(8.0, 0.0, 0.0), 2, "it has as much to do as the others");
}

#[test]
fn a_faster_endpoint_takes_more_queue() {
    let endpoints = Endpoints::new(2)
        .with("rate.prefill_tokens_per_s", [10_000.0, 30_000.0])
        .with("load.prefill_tokens", [1_000.0, 4_000.0])
        .with("prefix.tokens", [400.0, 0.0]);
    assert_eq!(best(&policy("").score(&prompt(2_000), &endpoints)), 1);
}

#[test]
fn a_cold_prompt_goes_to_one_of_its_two_homes() {
    let endpoints = Endpoints::new(4)
        .with("prefix.rendezvous", [0.2, 0.8, 0.7, 0.1])
        .with("load.requests", [0.0, 3.0, 1.0, 0.0]);
    let scores = policy("").score(&prompt(400), &endpoints);
    assert_eq!(best(&scores), 2);
    assert!(scores[1] > scores[0], "the other home is the first retry: {scores:?}");
}

#[test]
fn a_loaded_home_is_left() {
    let endpoints = Endpoints::new(3)
        .with("prefix.rendezvous", [0.9, 0.8, 0.1])
        .with("load.prefill_tokens", [50_000.0, 40_000.0, 0.0]);
    assert_eq!(best(&policy("").score(&prompt(400), &endpoints)), 2);
}

#[test]
fn a_prefix_that_all_hold_is_no_affinity() {
    let endpoints =
        Endpoints::new(3).with("prefix.tokens", [512.0; 3]).with("prefix.rendezvous", [0.1, 0.9, 0.2]);
    assert_eq!(best(&policy("").score(&prompt(4_000), &endpoints)), 1);
}

#[test]
fn a_session_breaks_ties_only() {
    let request = Request { turn: 3, ..prompt(400) };
    let endpoints = Endpoints::new(2).with("session.affinity", [0.0, 1.0]);
    assert_eq!(best(&policy("").score(&request, &endpoints)), 1);
    let endpoints = endpoints.with("load.prefill_tokens", [0.0, 5_000.0]);
    assert_eq!(best(&policy("").score(&request, &endpoints)), 0);
}

#[test]
fn what_continues_an_answer_goes_where_it_was_kept() {
    let request = Request { turn: 1, ..prompt(4_000) };
    let endpoints = Endpoints::new(2)
        .with("session.state", [0.0, 1.0])
        .with("prefix.tokens", [4_000.0, 0.0])
        .with("load.prefill_tokens", [0.0, 500_000.0]);
    assert_eq!(best(&policy("").score(&request, &endpoints)), 1);
}

#[test]
fn a_term_can_be_turned_off() {
    let endpoints = Endpoints::new(2).with("load.requests", [100.0, 0.0]);
    let scores = policy(r#"{"decode_request_ms": 0}"#).score(&prompt(400), &endpoints);
    assert_eq!(scores[0], scores[1]);
}

#[test]
fn a_prefill_leg_does_not_mind_decodes() {
    let endpoints = Endpoints::new(2).with("load.decode_tokens", [1e6, 0.0]);
    assert!(policy("").score(&prompt(400), &endpoints)[0] < 1.0);
    let scores = policy("").score(&prompt(400), &endpoints.judged_for(Profile::Prefill));
    assert_eq!(scores[0], scores[1]);
}

#[test]
fn nobody_to_score_is_no_problem() {
    assert!(policy("").score(&prompt(400), &Endpoints::new(0)).is_empty());
}

#[test]
fn an_unknown_key_names_the_nearest() {
    let error = fake::configure::<PrefixAffinity>(r#"{"near": 3}"#).err().unwrap();
    assert_eq!(error.to_string(), "unknown key `near`; the nearest known key is `near_ms`");
    assert!(fake::configure::<PrefixAffinity>(r#"{"cpu_credit": 3}"#).is_err());
}

prop_compose! {
    fn pools()(len in 1_usize..24)(
        cached in prop::collection::vec(prop_oneof![Just(0.0_f32), 0.0..8_000.0_f32], len),
        ahead in prop::collection::vec(0.0..50_000.0_f32, len),
        requests in prop::collection::vec((0_u8..200).prop_map(f32::from), len),
        rates in prop::collection::vec(prop_oneof![Just(f32::NAN), 100.0..100_000.0_f32], len),
        waiting in prop::collection::vec(prop_oneof![Just(f32::NAN), (0_u8..99).prop_map(f32::from)], len),
        kv in prop::collection::vec(prop_oneof![Just(f32::NAN), 0.0..1.0_f32], len),
        age in prop::collection::vec(prop_oneof![Just(f32::NAN), 0.0..10_000.0_f32], len),
        rendezvous in Just((0..len).map(|at| (at as f32 * 0.618_034).fract()).collect::<Vec<_>>()),
        order in Just((0..len).collect::<Vec<_>>()).prop_shuffle(),
    ) -> (Endpoints, Vec<usize>) {
        let endpoints = Endpoints::new(rates.len())
            .with("prefix.tokens", cached)
            .with("load.prefill_tokens", ahead)
            .with("load.requests", requests)
            .with("rate.prefill_tokens_per_s", rates)
            .with("engine.waiting", waiting)
            .with("engine.kv_usage", kv)
            .with("engine.metrics_age_ms", age)
            .with("prefix.rendezvous", rendezvous);
        (endpoints, order)
    }
}

proptest! {
    #[test]
    fn scores_are_in_range_and_somebody_is_best((endpoints, _) in pools(), tokens in 0_u32..200_000) {
        let scores = policy("").score(&prompt(tokens), &endpoints);
        prop_assert_eq!(scores.len(), endpoints.len());
        prop_assert!(scores.iter().all(|score| (0.0..=1.0).contains(score)), "{:?}", scores);
        prop_assert!(scores.contains(&1.0), "{:?}", scores);
    }

    #[test]
    fn the_order_of_candidates_does_not_matter((endpoints, order) in pools(), tokens in 0_u32..20_000) {
        let scores = policy("").score(&prompt(tokens), &endpoints);
        let permuted = policy("").score(&prompt(tokens), &endpoints.permuted(&order));
        for (to, from) in order.iter().enumerate() {
            // A mean is summed in another order.
            prop_assert!((permuted[to] - scores[*from]).abs() < 1e-3, "{:?} {:?}", scores, permuted);
        }
    }

    #[test]
    fn more_queue_is_never_better((endpoints, _) in pools(), at in any::<prop::sample::Index>(), more in 1.0..1e5_f32) {
        let policy = policy(r#"{"near_ms": 0, "near_ratio": 0}"#);
        let at = at.index(endpoints.len());
        let column = fake::columns().resolve("load.prefill_tokens").unwrap();
        let before = policy.score(&prompt(4_000), &endpoints);
        let queue = endpoints.column(column)[at] + more;
        let after = policy.score(&prompt(4_000), &endpoints.with_one("load.prefill_tokens", at, queue));
        prop_assert!(after[at] <= before[at] + 1e-6);
        for other in (0..after.len()).filter(|other| *other != at) {
            prop_assert!(after[other] >= before[other] - 1e-6);
        }
    }
}
