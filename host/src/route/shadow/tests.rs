//! Native policies as shadows of native policies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::clock::ManualClock;
use crate::policy::{
    Admission, Budget, Builtin, Call, CallError, Chain, Disaggregation, FlowControl, Leg, LegStage, OnEmpty,
    OnError, Placement, Reason, Rejection, Scorer, Serving, Shadow, ShadowStats, Slot, Stages, Verdict,
};
use crate::route::tests::{Says, chosen, filter, lane, lane_of, plugin, ports, request, scorer, slot};
use crate::route::{Lane, Trace, admit, choose, place};
use crate::types::{Profile, Role};

/// Keeps what it is offered.
#[derive(Debug, Default)]
struct Kept {
    snapshots: Mutex<Vec<Snapshot>>,
    full: AtomicBool,
}

impl ShadowSink for Kept {
    fn has_room(&self) -> bool {
        !self.full.load(Ordering::Relaxed)
    }

    fn offer(&self, snapshot: Snapshot) {
        self.snapshots.lock().push(snapshot);
    }
}

impl Kept {
    /// Asks the shadows about everything that was kept.
    fn compare(&self) {
        for snapshot in self.snapshots.lock().drain(..) {
            compare(&snapshot, &*ManualClock::at(2));
        }
    }
}

fn shadow(stages: Stages) -> Arc<Shadow> {
    let plugin = plugin(OnError::Default, OnEmpty::Reject);
    Arc::new(Shadow { plugin, weight: 1.0, stages, stats: Arc::default() })
}

fn scores(scores: Result<Vec<f32>, Reason>) -> Stages {
    Stages { scorer: Some(Arc::new(Says(scores))), ..Stages::default() }
}

fn watched(lane: Arc<Lane>) -> (Arc<Lane>, Arc<Kept>) {
    let kept = Arc::new(Kept::default());
    let mut lane = Arc::into_inner(lane).unwrap();
    lane.shadows = Some(Arc::clone(&kept) as _);
    (Arc::new(lane), kept)
}

/// What a shadow of a chain comes to after one request.
fn after_one(lane: Arc<Lane>, mut chain: Chain, stages: Stages) -> Value {
    let shadow = shadow(stages);
    chain.shadows.push(Arc::clone(&shadow));
    let (lane, kept) = watched(lane);
    let _ = chosen(&lane, &chain, &request("r", "x"));
    assert_eq!(kept.snapshots.lock().len(), 1);
    kept.compare();
    shadow.stats.counts().to_json()
}

fn of_scorer(scores: Vec<f32>) -> Chain {
    Chain { scorers: vec![scorer(Ok(scores), OnError::Default)], ..Chain::default() }
}

#[test]
fn the_same_scores_agree_and_opposite_ones_differ() {
    let chain = of_scorer(vec![0.1, 0.5, 0.9]);
    let same = after_one(lane(3), chain.clone(), scores(Ok(vec![0.1, 0.5, 0.9])));
    assert_eq!(same["agreement"]["scorer"], json!({"agree": 1, "differ": 0, "failed": 0}));
    assert_eq!(same["score_correlation"], 1.0);
    let opposite = after_one(lane(3), chain, scores(Ok(vec![0.9, 0.5, 0.1])));
    assert_eq!(opposite["agreement"]["scorer"], json!({"agree": 0, "differ": 1, "failed": 0}));
    assert_eq!(opposite["score_correlation"], -1.0);
}

#[test]
fn a_scorer_of_a_new_name_joins_the_sum() {
    let named = |name: &str, slot: Slot<dyn Scorer>| {
        let mut plugin = Arc::into_inner(plugin(OnError::Default, OnEmpty::Reject)).unwrap();
        plugin.name = name.into();
        Slot { plugin: Arc::new(plugin), ..slot }
    };
    let chain = Chain {
        scorers: vec![named("other", scorer(Ok(vec![0.0, 0.4, 0.3]), OnError::Default))],
        ..Chain::default()
    };
    let shown = after_one(lane(3), chain.clone(), scores(Ok(vec![0.0, 0.0, 0.2])));
    assert_eq!(shown["agreement"]["scorer"]["differ"], 1, "{shown}");
    let shown = after_one(lane(3), chain, scores(Ok(vec![0.3, 0.0, 0.0])));
    assert_eq!(shown["agreement"]["scorer"]["agree"], 1, "{shown}");
}

#[test]
fn equal_sums_are_told_apart_by_the_loads_of_then() {
    let (lane, kept) = watched(lane(2));
    let shadow = shadow(scores(Ok(vec![0.5, 0.5])));
    let chain = Chain { shadows: vec![Arc::clone(&shadow)], ..of_scorer(vec![0.5, 0.5]) };
    let mut held = vec![lane.pool.endpoints()[0].reserve(1, 1)];
    held.push(chosen(&lane, &chain, &request("r", "x")).0.unwrap().reservation);
    held.extend((0..9).map(|_| lane.pool.endpoints()[1].reserve(1, 1)));
    kept.compare();
    assert_eq!(shadow.stats.counts().to_json()["agreement"]["scorer"]["agree"], 1);
    assert_eq!(
        (
            &shadow.stats.counts().to_json()["score_correlation"],
            &shadow.stats.counts().to_json()["constant_scores"]
        ),
        (&Value::Null, &json!(1))
    );
}

/// Scores by how little an endpoint has to do, and keeps what it read.
#[derive(Default)]
struct ByLoad(Mutex<Vec<f32>>);

impl Scorer for ByLoad {
    fn score(&self, call: Call<'_>) -> Result<Vec<f32>, CallError> {
        let loads = call.endpoints.column(Builtin::LoadRequests.id(), f32::NAN).unwrap();
        self.0.lock().clone_from(&loads);
        Ok(loads.into_iter().map(|load| 1.0 / (1.0 + load)).collect())
    }
}

#[test]
fn a_shadow_sees_what_was_there_when_the_request_was_decided() {
    let (lane, kept) = watched(lane(3));
    let reads = Arc::new(ByLoad::default());
    let shadow = shadow(Stages { scorer: Some(Arc::clone(&reads) as _), ..Stages::default() });
    let chain = Chain {
        shadows: vec![Arc::clone(&shadow)],
        columns: [Builtin::LoadRequests.id()].into(),
        // The filter takes the first away, so that what is left has to be found again.
        filters: vec![filter(Ok(vec![2, 1]))],
        ..of_scorer(vec![0.0, 1.0])
    };
    let endpoints = lane.pool.endpoints();
    let mut held: Vec<_> = (0..3).map(|_| endpoints[2].reserve(1, 1)).collect();
    held.push(endpoints[1].reserve(1, 1));
    let choice = chosen(&lane, &chain, &request("r", "x")).0.unwrap();
    assert_eq!(ports(&choice), [2, 3]);
    held.extend((0..50).map(|_| endpoints[1].reserve(1, 1)));
    kept.compare();
    assert_eq!(*reads.0.lock(), [3.0, 1.0]);
    assert_eq!(shadow.stats.counts().to_json()["agreement"]["scorer"]["agree"], 1);
    drop((choice, held));
}

#[test]
fn filters_pickers_and_splits_are_compared_with_what_was_done() {
    let keeps = |kept: Vec<u32>| Stages { filter: Some(Arc::new(Says(Ok(kept)))), ..Stages::default() };
    let chain = Chain { filters: vec![filter(Ok(vec![2, 0]))], ..Chain::default() };
    for (kept, result) in [(vec![0, 2], "agree"), (vec![0], "differ")] {
        let shown = after_one(lane(3), chain.clone(), keeps(kept));
        assert_eq!(shown["agreement"]["filter"][result], 1, "{shown}");
    }

    let picks = |picked: Vec<u32>| Stages { picker: Some(Arc::new(Says(Ok(picked)))), ..Stages::default() };
    for (picked, result) in [(vec![1], "agree"), (Vec::new(), "agree"), (vec![0], "differ")] {
        let shown = after_one(lane(3), of_scorer(vec![0.0, 1.0, 0.0]), picks(picked));
        assert_eq!(shown["agreement"]["picker"][result], 1, "{shown}");
    }

    let to = |candidates: Vec<u32>| vec![Leg { stage: LegStage::Prefill, candidates }];
    let splits =
        |legs: Vec<Leg>| Stages { disaggregation: Some(Arc::new(Says(Ok(legs)))), ..Stages::default() };
    let roles = [Role::Prefill, Role::Decode, Role::Prefill];
    let split: Slot<dyn Disaggregation> = slot(Arc::new(Says(Ok(to(vec![2, 0])))), OnError::Default);
    let chain = Chain { disaggregation: Some(split), ..Chain::default() };
    for (legs, result) in [(to(vec![1, 2]), "agree"), (to(vec![0]), "differ"), (Vec::new(), "differ")] {
        let shown = after_one(lane_of(&roles), chain.clone(), splits(legs));
        assert_eq!(shown["agreement"]["disaggregation"][result], 1, "{shown}");
    }
    // One that the chain does not have is compared with not splitting.
    let shown = after_one(lane_of(&roles), Chain::default(), splits(to(vec![0])));
    assert_eq!(shown["agreement"]["disaggregation"]["differ"], 1, "{shown}");
}

impl Admission for Says<Verdict> {
    fn admit(&self, _: Call<'_>) -> Result<Verdict, CallError> {
        self.0.clone().map_err(|reason| CallError::new(reason, "scripted"))
    }
}

impl FlowControl for Says<Placement> {
    fn place(&self, _: Call<'_>) -> Result<Placement, CallError> {
        self.0.clone().map_err(|reason| CallError::new(reason, "scripted"))
    }
}

fn rejects() -> Verdict {
    Verdict::Reject(Rejection { status: 429, reason: "no".into(), retry_after_ms: None })
}

#[test]
fn a_request_that_is_refused_is_compared_too() {
    for (verdict, result) in [(rejects(), "agree"), (Verdict::Accept, "differ")] {
        let stages = Stages { admission: Some(Arc::new(Says(Ok(verdict)))), ..Stages::default() };
        let shadow = shadow(stages);
        let refuses: Slot<dyn Admission> = slot(Arc::new(Says(Ok(rejects()))), OnError::Default);
        let chain =
            Chain { admission: vec![refuses], shadows: vec![Arc::clone(&shadow)], ..Chain::default() };
        let (lane, kept) = watched(lane(2));
        let request = request("r", "x");
        let mut trace = Trace::new(Arc::clone(&request), "p", "default", 1);
        let serving = Serving::plain(Arc::new(chain.clone()));
        let candidates = lane.candidates(&serving, &request, Profile::Decode);
        admit(&lane, &chain, &request, &candidates, &Budget::default(), &mut trace).unwrap_err();
        let _ = trace.finish(429);
        kept.compare();
        assert_eq!(shadow.stats.counts().to_json()["agreement"]["admission"][result], 1);
    }
}

#[test]
fn a_placement_is_compared_by_flow_band_and_order() {
    let place_in = |flow: &str| Placement {
        flow: flow.into(),
        band: 1,
        weight: 1.0,
        cost: 1,
        rank: 1.0,
        ceiling: 1.0,
        ttl_ms: None,
        kv_tokens: None,
    };
    for (flow, result) in [("a", "agree"), ("b", "differ")] {
        let stages = Stages { flow: Some(Arc::new(Says(Ok(place_in(flow))))), ..Stages::default() };
        let shadow = shadow(stages);
        let flow: Slot<dyn FlowControl> = slot(Arc::new(Says(Ok(place_in("a")))), OnError::Default);
        let chain = Chain { flow: Some(flow), shadows: vec![Arc::clone(&shadow)], ..Chain::default() };
        let (lane, kept) = watched(lane(2));
        let request = request("r", "x");
        let mut trace = Trace::new(Arc::clone(&request), "p", "default", 1);
        let serving = Serving::plain(Arc::new(chain.clone()));
        let candidates = lane.candidates(&serving, &request, Profile::Decode);
        let budget = Budget::default();
        admit(&lane, &chain, &request, &candidates, &budget, &mut trace).unwrap();
        place(&lane, &chain, &request, &candidates, &budget, &mut trace).unwrap();
        choose(&lane, &serving, &request, &candidates, &budget, &mut trace).unwrap();
        kept.compare();
        assert_eq!(shadow.stats.counts().to_json()["agreement"]["flow-control"][result], 1);
    }
}

#[test]
fn a_shadow_that_fails_is_counted_and_set_aside_like_any_other() {
    let (lane, kept) = watched(lane(2));
    let shadow = shadow(scores(Ok(vec![f32::NAN, 0.0])));
    let chain = Chain { shadows: vec![Arc::clone(&shadow)], ..of_scorer(vec![0.0, 1.0]) };
    for n in 0..5 {
        chosen(&lane, &chain, &request(&n.to_string(), "x")).0.unwrap();
    }
    kept.compare();
    let shown = shadow.stats.counts().to_json();
    assert_eq!(shown["agreement"]["scorer"]["failed"], 3, "{shown}");
    let failures: Vec<_> = shadow.plugin.health.failures().filter(|(_, count)| *count > 0).collect();
    assert_eq!(failures, [(Reason::NotFinite, 3), (Reason::SetAside, 2)]);
    assert_eq!(shown["requests"], 3);
    assert!(shadow.plugin.health.aside_until(2).is_some());
    assert_eq!(chain.scorers[0].plugin.health.failures().map(|(_, count)| count).sum::<u64>(), 0);
}

#[test]
fn where_there_is_no_room_nothing_is_made_and_the_request_is_counted() {
    let (lane, kept) = watched(lane(2));
    kept.full.store(true, Ordering::Relaxed);
    let shadow = shadow(scores(Ok(vec![0.0, 1.0])));
    let chain = Chain { shadows: vec![Arc::clone(&shadow)], ..of_scorer(vec![0.0, 1.0]) };
    chosen(&lane, &chain, &request("r", "x")).0.unwrap();
    assert!(kept.snapshots.lock().is_empty());
    assert_eq!(shadow.stats.counts().to_json()["dropped"], 1);
}

#[test]
fn a_chain_without_shadows_offers_nothing() {
    let (lane, kept) = watched(lane(2));
    chosen(&lane, &of_scorer(vec![0.0, 1.0]), &request("r", "x")).0.unwrap();
    assert!(kept.snapshots.lock().is_empty());
}

fn any_reason() -> impl Strategy<Value = Reason> {
    proptest::sample::select(&Reason::ALL[..])
}

fn any_stages() -> impl Strategy<Value = Stages> {
    let scores = proptest::collection::vec(proptest::num::f32::ANY, 0..9);
    let positions = || proptest::collection::vec(0_u32..10, 0..9);
    (
        proptest::result::maybe_ok(scores, any_reason()),
        proptest::result::maybe_ok(positions(), any_reason()),
        proptest::result::maybe_ok(positions(), any_reason()),
        proptest::result::maybe_ok(positions(), any_reason()),
    )
        .prop_map(|(scores, kept, picked, leg)| Stages {
            admission: Some(Arc::new(Says(Ok(rejects())))),
            filter: Some(Arc::new(Says(kept))),
            scorer: Some(Arc::new(Says(scores))),
            picker: Some(Arc::new(Says(picked))),
            disaggregation: Some(Arc::new(Says(
                leg.map(|candidates| vec![Leg { stage: LegStage::Prefill, candidates }]),
            ))),
            ..Stages::default()
        })
}

/// Where two requests of the same chain go, and what comes of it besides.
fn outcome(lane: &Arc<Lane>, chain: &Chain, ask: impl Fn()) -> Vec<Value> {
    let mut held = Vec::new();
    let mut outcomes = Vec::new();
    for id in ["first", "second"] {
        let (choice, explained) = chosen(lane, chain, &request(id, "x"));
        ask();
        outcomes.push(match &choice {
            Ok(choice) => json!([ports(choice), choice.legs.as_ref().map_or(0, Vec::len), explained]),
            Err(refusal) => json!([refusal.to_string(), explained]),
        });
        held.push(choice);
    }
    outcomes
}

proptest! {
    #[test]
    fn a_request_goes_where_it_would_have_gone_without_shadows(
        len in 1_usize..8,
        ours in proptest::collection::vec(0.0_f32..1.0, 8),
        kept in proptest::collection::vec(0_u32..8, 0..4),
        stages in proptest::collection::vec(any_stages(), 1..3),
        full in any::<bool>(),
    ) {
        let roles: Vec<Role> = (0..len).map(|n| [Role::Both, Role::Decode, Role::Prefill][n % 3]).collect();
        let decoders = roles.iter().filter(|role| role.decodes()).count();
        // Made anew for each run: plugins remember their failures.
        let chain = || Chain {
            filters: vec![filter(Ok(kept.clone()))],
            scorers: vec![scorer(Ok(ours[..decoders].to_vec()), OnError::Default)],
            columns: [Builtin::LoadRequests.id(), Builtin::PrefixTokens.id()].into(),
            ..Chain::default()
        };
        let without = outcome(&lane_of(&roles), &chain(), || ());
        let stats: Vec<Arc<ShadowStats>> = stages.iter().map(|_| Arc::default()).collect();
        let shadowed = stages.into_iter().zip(&stats).map(|(stages, stats)| Arc::new(Shadow {
            plugin: plugin(OnError::Reject, OnEmpty::Reject), weight: 7.0, stages, stats: Arc::clone(stats),
        }));
        let chain = Chain { shadows: shadowed.collect(), ..chain() };
        let (lane, sink) = watched(lane_of(&roles));
        sink.full.store(full, Ordering::Relaxed);
        let with = outcome(&lane, &chain, || sink.compare());
        prop_assert_eq!(without, with);
        for stats in stats {
            let counts = stats.counts();
            // After the failures of the first request it may be set aside, and then it is not asked.
            prop_assert!((1..=2).contains(&(counts.requests + counts.dropped)), "{:?}", counts);
        }
    }

    #[test]
    fn a_shadow_with_the_same_answers_always_agrees(
        scores in proptest::collection::vec(proptest::collection::vec(0.0_f32..1.0, 6), 1..4),
        loads in proptest::collection::vec(0_usize..3, 6),
        kept in proptest::sample::subsequence(vec![0_u32, 1, 2, 3, 4, 5], 1..6),
    ) {
        let lane = lane(6);
        let endpoints = lane.pool.endpoints();
        let busy = endpoints.iter().zip(&loads).flat_map(|(endpoint, load)| (0..*load).map(|_| endpoint.reserve(1, 1)));
        let _busy: Vec<_> = busy.collect();
        let left = kept.len();
        let mut chain = Chain { filters: vec![filter(Ok(kept.clone()))], ..Chain::default() };
        for scores in &scores {
            let slot = scorer(Ok(scores[..left].to_vec()), OnError::Default);
            chain.scorers.push(Slot { weight: 0.3, ..slot });
        }
        // All slots bear one name; it takes the place of the first.
        let stages = Stages {
            filter: Some(Arc::new(Says(Ok(kept)))),
            ..self::scores(Ok(scores[0][..left].to_vec()))
        };
        let shadow = Arc::new(Shadow {
            plugin: plugin(OnError::Default, OnEmpty::Reject), weight: 0.3, stages, stats: Arc::default(),
        });
        chain.shadows.push(Arc::clone(&shadow));
        let (lane, kept) = watched(lane);
        chosen(&lane, &chain, &request("r", "x")).0.unwrap();
        kept.compare();
        let shown = shadow.stats.counts().to_json();
        prop_assert_eq!(&shown["agreement"]["filter"]["agree"], &json!(1));
        prop_assert_eq!(shown["agreement"]["scorer"]["differ"].as_u64().unwrap_or(0), 0, "{}", shown);
    }
}
