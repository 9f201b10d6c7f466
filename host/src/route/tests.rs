//! The pipeline with native policies that say what the test wants.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::clock::ManualClock;
use crate::policy::{
    Budget, Call, CallError, CallTimes, Chain, Disaggregation, Filter, Health, Leg, LegStage, OnEmpty,
    OnError, Picker, Plugin, PrefixSource, Reason, Registry, Request, Scorer, Serving, Slot, Source,
};
use crate::pool::{EndpointSpec, Pool, PoolSpec};
use crate::prefix::{Exact, Index, Sessions};
use crate::types::{Arm, Profile, Prompt, Role, Url};

pub(crate) struct Says<T>(pub(crate) Result<T, Reason>);

impl<T: Clone> Says<T> {
    fn answer(&self) -> Result<T, CallError> {
        self.0.clone().map_err(|reason| CallError::new(reason, "scripted"))
    }
}

impl Scorer for Says<Vec<f32>> {
    fn score(&self, _: Call<'_>) -> Result<Vec<f32>, CallError> {
        self.answer()
    }
}

impl Filter for Says<Vec<u32>> {
    fn keep(&self, _: Call<'_>) -> Result<Vec<u32>, CallError> {
        self.answer()
    }
}

impl Picker for Says<Vec<u32>> {
    fn pick(&self, _: Call<'_>, _: &[f32], _: u32) -> Result<Vec<u32>, CallError> {
        self.answer()
    }
}

impl Disaggregation for Says<Vec<Leg>> {
    fn split(&self, _: Call<'_>, _: u32) -> Result<Vec<Leg>, CallError> {
        self.answer()
    }
}

pub(crate) fn plugin(on_error: OnError, on_empty: OnEmpty) -> Arc<Plugin> {
    Arc::new(Plugin {
        name: "scripted".into(),
        version: "1".into(),
        summary: "".into(),
        digest: "".into(),
        source: Source::Native,
        generation: 1,
        arm: Arm::BASE,
        stages: Vec::new(),
        on_error,
        on_empty,
        required: false,
        profiles: vec![Profile::Decode, Profile::Prefill],
        config: Arc::new(crate::config::PluginConfig::named("scripted")),
        health: Health::default(),
        times: CallTimes::default(),
    })
}

pub(crate) fn slot<P: ?Sized>(policy: Arc<P>, on_error: OnError) -> Slot<P> {
    Slot { plugin: plugin(on_error, OnEmpty::Reject), weight: 1.0, policy }
}

pub(crate) fn scorer(scores: Result<Vec<f32>, Reason>, on_error: OnError) -> Slot<dyn Scorer> {
    slot(Arc::new(Says(scores)), on_error)
}

pub(crate) fn filter(kept: Result<Vec<u32>, Reason>) -> Slot<dyn Filter> {
    slot(Arc::new(Says(kept)), OnError::Default)
}

pub(crate) fn lane_of(roles: &[Role]) -> Arc<Lane> {
    lane_in(RouteMode::Follow, roles)
}

fn lane_in(mode: RouteMode, roles: &[Role]) -> Arc<Lane> {
    let endpoints = roles.iter().zip(1..).map(|(role, port)| EndpointSpec {
        role: *role,
        ..EndpointSpec::new(Url::parse(&format!("http://127.0.0.1:{port}")).unwrap())
    });
    let spec = PoolSpec {
        name: "p".into(),
        chain: "default".into(),
        models: vec!["m".into()],
        aliases: Vec::new(),
        engine: None,
        dialect: None,
        endpoints: endpoints.collect(),
        ..PoolSpec::default()
    };
    Arc::new(Lane {
        pool: Arc::new(Pool::new(spec)),
        index: Arc::new(Index::new(1 << 20)),
        measure: Arc::default(),
        exact: Arc::new(Exact::new(1 << 20)),
        sessions: Arc::new(Sessions::new(16, u64::MAX)),
        windows: Arc::default(),
        registry: Arc::default(),
        mode,
        shadows: None,
        clock: ManualClock::at(1),
    })
}

pub(crate) fn lane(endpoints: usize) -> Arc<Lane> {
    lane_of(&vec![Role::Both; endpoints])
}

pub(crate) fn request(id: &str, prompt: &str) -> Arc<Request> {
    let prompt = Prompt::Text(prompt.as_bytes().to_vec());
    Arc::new(Request {
        model: "m".into(),
        prompt_tokens: prompt.tokens(),
        prefix: Some(PrefixSource::new(prompt, 0, 16)),
        ..Request::unremarkable(id)
    })
}

pub(crate) fn chosen(
    lane: &Arc<Lane>,
    chain: &Chain,
    request: &Arc<Request>,
) -> (Result<Choice, Refusal>, serde_json::Value) {
    let mut trace = Trace::new(Arc::clone(request), "p", "default", 1);
    let serving = Serving::plain(Arc::new(chain.clone()));
    let candidates = lane.candidates(&serving, request, Profile::Decode);
    let choice = choose(lane, &serving, request, &candidates, &Budget::default(), &mut trace);
    (choice, trace.finish(200).to_json(&Registry::default()))
}

pub(crate) fn ports(choice: &Choice) -> Vec<u16> {
    choice.order.iter().map(|endpoint| endpoint.url.port).collect()
}

#[test]
fn the_highest_weighted_sum_is_first_and_the_rest_is_the_retry_order() {
    let chain = Chain {
        scorers: vec![
            scorer(Ok(vec![0.1, 0.2, 0.9]), OnError::Default),
            Slot { weight: 3.0, ..scorer(Ok(vec![0.0, 1.0, 0.5]), OnError::Default) },
        ],
        ..Chain::default()
    };
    let (choice, explained) = chosen(&lane(3), &chain, &request("r", "x"));
    assert_eq!(ports(&choice.unwrap()), [2, 3, 1]);
    assert_eq!(explained["picked"], "127.0.0.1:2");
    assert_eq!(explained["answers"][1]["weight"], 3.0);
}

#[test]
fn an_unusable_answer_adds_nothing_and_is_counted() {
    let bad = [Ok(vec![f32::NAN, 0.0, 0.0]), Ok(vec![1.0]), Err(Reason::Trap)];
    for scores in bad {
        let chain = Chain {
            scorers: vec![
                scorer(scores, OnError::Default),
                scorer(Ok(vec![0.0, 1.0, 0.0]), OnError::Default),
            ],
            ..Chain::default()
        };
        let (choice, explained) = chosen(&lane(3), &chain, &request("r", "x"));
        assert_eq!(ports(&choice.unwrap())[0], 2);
        assert!(explained["answers"][0]["error"]["reason"].is_string());
        assert_eq!(chain.scorers[0].plugin.health.failures().map(|(_, count)| count).sum::<u64>(), 1);
    }
}

#[test]
fn a_policy_that_must_not_be_skipped_refuses_the_request() {
    let chain = Chain { scorers: vec![scorer(Err(Reason::Deadline), OnError::Reject)], ..Chain::default() };
    let (choice, _) = chosen(&lane(2), &chain, &request("r", "x"));
    assert!(matches!(choice.unwrap_err(), Refusal::Policy { reason: Reason::Deadline, .. }));
}

#[test]
fn scores_outside_are_clamped() {
    let chain =
        Chain { scorers: vec![scorer(Ok(vec![5.0, 1.0, -3.0]), OnError::Default)], ..Chain::default() };
    let (choice, explained) = chosen(&lane(3), &chain, &request("r", "x"));
    assert_eq!(ports(&choice.unwrap())[2], 3);
    assert_eq!(explained["scores"], serde_json::json!([1.0, 1.0, 0.0]));
    assert_eq!(chain.scorers[0].plugin.health.clamped_scores(), 2);
}

#[test]
fn filters_judge_what_the_one_before_kept() {
    let chain = Chain { filters: vec![filter(Ok(vec![1, 2, 3])), filter(Ok(vec![2]))], ..Chain::default() };
    let (choice, explained) = chosen(&lane(4), &chain, &request("r", "x"));
    assert_eq!(ports(&choice.unwrap()), [4]);
    assert_eq!(explained["candidates"].as_array().unwrap().len(), 4);
    assert_eq!(explained["scores"], serde_json::json!([null, null, null, 0.0]));
}

#[test]
fn a_filter_that_keeps_nobody_refuses_unless_it_may_be_ignored() {
    let empty = filter(Ok(Vec::new()));
    let chain = Chain { filters: vec![empty.clone()], ..Chain::default() };
    let (choice, _) = chosen(&lane(2), &chain, &request("r", "x"));
    assert_eq!(choice.unwrap_err(), Refusal::Filtered("scripted".into()));
    let ignored = Slot { plugin: plugin(OnError::Default, OnEmpty::Ignore), ..empty };
    let chain = Chain { filters: vec![ignored], ..Chain::default() };
    let (choice, _) = chosen(&lane(2), &chain, &request("r", "x"));
    assert_eq!(choice.unwrap().order.len(), 2);
}

#[test]
fn a_picker_leads_and_the_rest_follows_by_score() {
    let picker: Slot<dyn Picker> = slot(Arc::new(Says(Ok(vec![2]))), OnError::Default);
    let chain = Chain {
        scorers: vec![scorer(Ok(vec![0.2, 0.9, 0.0]), OnError::Default)],
        picker: Some(picker),
        ..Chain::default()
    };
    let (choice, _) = chosen(&lane(3), &chain, &request("r", "x"));
    assert_eq!(ports(&choice.unwrap()), [3, 2, 1]);
}

#[test]
fn a_burst_without_scores_spreads_by_load() {
    let lane = lane(4);
    let held: Vec<_> =
        (0..8).map(|n| chosen(&lane, &Chain::default(), &request(&n.to_string(), "x")).0.unwrap()).collect();
    assert!(lane.pool.endpoints().iter().all(|endpoint| endpoint.load.requests() == 2));
    drop(held);
    assert!(lane.pool.endpoints().iter().all(|endpoint| endpoint.load.requests() == 0));
}

#[test]
fn equal_endpoints_are_not_taken_in_the_order_of_the_list() {
    let lane = lane(4);
    let firsts: std::collections::BTreeSet<_> = (0..40)
        .map(|n| ports(&chosen(&lane, &Chain::default(), &request(&n.to_string(), "x")).0.unwrap())[0])
        .collect();
    assert_eq!(firsts.len(), 4);
}

#[test]
fn what_was_sent_is_believed_to_be_cached() {
    let lane = lane(2);
    lane.registry.resolve("prefix.tokens").unwrap();
    let prompt = "a long system prompt ".repeat(40);
    let request = request("r", &prompt);
    let endpoint = Arc::clone(&lane.pool.endpoints()[1]);
    assert_eq!(lane.cached_tokens(&request, &endpoint), 0);
    lane.sent(&request, &endpoint);
    let cached = lane.cached_tokens(&request, &endpoint);
    assert!(cached >= request.prompt_tokens - 16, "{cached}");
    assert_eq!(
        lane.reserve(&request, &endpoint).endpoint().load.prefill_tokens(),
        u64::from(request.prompt_tokens - cached)
    );
    lane.unsent(&request, &endpoint, 0);
    assert_eq!(lane.cached_tokens(&request, &endpoint), 0);
}

#[test]
fn legs_go_to_other_endpoints_only_and_dedicated_prefill_endpoints_do_not_decode() {
    let lane = lane_of(&[Role::Prefill, Role::Decode, Role::Prefill]);
    let legs = vec![Leg { stage: LegStage::Prefill, candidates: vec![2, 1, 0] }];
    let split: Slot<dyn Disaggregation> = slot(Arc::new(Says(Ok(legs))), OnError::Default);
    let chain = Chain { disaggregation: Some(split), ..Chain::default() };
    let (choice, _) = chosen(&lane, &chain, &request("r", "x"));
    let choice = choice.unwrap();
    assert_eq!(ports(&choice), [2]);
    let legs: Vec<u16> =
        choice.legs.as_ref().unwrap()[0].order.iter().map(|endpoint| endpoint.url.port).collect();
    assert_eq!(legs, [3, 1]);
}

#[test]
fn nobody_is_asked_to_split_where_no_endpoint_has_a_role_of_its_own() {
    let split: Slot<dyn Disaggregation> = slot(Arc::new(Says(Err(Reason::Trap))), OnError::Reject);
    let chain = Chain { disaggregation: Some(split), ..Chain::default() };
    assert!(chosen(&lane(3), &chain, &request("r", "x")).0.unwrap().legs.unwrap_or_default().is_empty());
}

#[test]
fn policies_that_are_observed_are_recorded_and_not_followed() {
    let lane = lane_in(RouteMode::Observe, &[Role::Both; 2]);
    let _busy = lane.pool.endpoints()[1].reserve(1, 1);
    let chain = Chain {
        filters: vec![filter(Ok(Vec::new()))],
        scorers: vec![scorer(Ok(vec![0.0, 1.0]), OnError::Reject)],
        ..Chain::default()
    };
    let (choice, explained) = chosen(&lane, &chain, &request("r", "x"));
    assert_eq!(ports(&choice.unwrap())[0], 1);
    assert_eq!(explained["answers"][0]["values"], serde_json::json!([]));
}

proptest! {
    #[test]
    fn every_candidate_is_tried_once_whatever_policies_say(
        len in 1_usize..9,
        scores in proptest::collection::vec(proptest::num::f32::ANY, 0..10),
        picked in proptest::collection::vec(0_u32..12, 0..10),
    ) {
        let picker: Slot<dyn Picker> = slot(Arc::new(Says(Ok(picked))), OnError::Default);
        let chain = Chain {
            scorers: vec![scorer(Ok(scores), OnError::Default)],
            picker: Some(picker),
            ..Chain::default()
        };
        let mut ports = ports(&chosen(&lane(len), &chain, &request("r", "x")).0.unwrap());
        ports.sort_unstable();
        prop_assert!(ports.into_iter().eq((1..).take(len)));
    }
}
