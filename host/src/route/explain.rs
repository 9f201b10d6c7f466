//! What every policy said of a request, kept for `GET /decisions/REQUEST-ID`.
//!
//! A [`Trace`] is filled on the way and holds the request's candidates; [`Trace::finish`] lets go of the
//! request (and so of its body) and keeps numbers and names alone. Rendering to JSON waits until somebody
//! asks.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::columns::Columns;
use super::{Candidates, Order};
use crate::policy::{CallError, Leg, LegStage, Placement, Plugin, Registry, Request, Slot, Stage, Verdict};
use crate::pool::Endpoint;
use crate::types::{Api, Arm, EndpointId, Profile};

/// Candidates of one judgement that are kept, and as many of its order.
const MAX_KEPT: usize = 256;

/// A usable answer of a policy.
#[derive(Debug, Clone)]
pub enum Given {
    /// One score a candidate.
    Scores(Vec<f32>),
    /// Endpoints kept or picked, in order.
    Endpoints(Vec<Arc<Endpoint>>),
    /// Of admission.
    Verdict(Verdict),
    /// Of flow control.
    Placement(Placement),
    /// Of disaggregation: each leg with its endpoints.
    Legs(Vec<(LegStage, Vec<Arc<Endpoint>>)>),
}

impl Given {
    pub(super) fn verdict(verdict: &Verdict) -> Self {
        Self::Verdict(verdict.clone())
    }

    pub(super) fn placement(placement: &Placement) -> Self {
        Self::Placement(placement.clone())
    }

    pub(super) fn kept(candidates: &Candidates, positions: &[u32]) -> Self {
        Self::Endpoints(at(candidates, positions))
    }

    pub(super) fn legs(candidates: &Candidates, legs: &[Leg]) -> Self {
        Self::Legs(legs.iter().map(|leg| (leg.stage, at(candidates, &leg.candidates))).collect())
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Scores(scores) => numbers(scores),
            Self::Endpoints(endpoints) => names(endpoints),
            Self::Verdict(Verdict::Accept) => json!("accept"),
            Self::Verdict(Verdict::Reject(rejection)) => {
                json!({"status": rejection.status, "reason": rejection.reason, "retry_after_ms": rejection.retry_after_ms})
            }
            Self::Placement(placement) => json!({
                "flow": placement.flow, "band": placement.band, "weight": placement.weight,
                "cost": placement.cost, "rank": placement.rank, "ceiling": placement.ceiling,
                "ttl_ms": placement.ttl_ms,
            }),
            Self::Legs(legs) => {
                let legs =
                    legs.iter().map(|(stage, order)| json!({"stage": stage, "candidates": names(order)}));
                Value::Array(legs.collect())
            }
        }
    }
}

fn at(candidates: &Candidates, positions: &[u32]) -> Vec<Arc<Endpoint>> {
    positions.iter().filter_map(|position| candidates.at(*position)).cloned().collect()
}

/// What one policy said.
#[derive(Debug, Clone)]
pub struct Answer {
    plugin: Arc<Plugin>,
    stage: Stage,
    profile: Option<Profile>,
    weight: f32,
    given: Result<Given, CallError>,
}

impl Answer {
    fn to_json(&self) -> Value {
        let (values, error) = match &self.given {
            Ok(given) => (given.to_json(), Value::Null),
            Err(error) => (Value::Null, json!({"reason": error.reason, "message": error.message})),
        };
        json!({
            "plugin": self.plugin.name, "digest": self.plugin.digest, "generation": self.plugin.generation,
            "stage": self.stage.as_str(), "profile": self.profile, "weight": self.weight,
            "values": values, "error": error,
        })
    }
}

/// How the candidates of one profile were judged.
#[derive(Debug)]
struct Judgement {
    profile: Profile,
    endpoints: Arc<Vec<Arc<Endpoint>>>,
    columns: Columns,
    /// Those that the filters left, with their sums.
    left: Arc<Vec<Arc<Endpoint>>>,
    scores: Vec<f32>,
    order: Vec<Arc<Endpoint>>,
}

/// An endpoint that was tried and did not answer.
#[derive(Debug)]
struct Tried {
    endpoint: Arc<Endpoint>,
    why: String,
}

/// The record of a request under way.
#[derive(Debug)]
pub struct Trace {
    request: Arc<Request>,
    pool: Box<str>,
    chain: Box<str>,
    generation: u64,
    arm: Arm,
    answers: Vec<Answer>,
    judging: Vec<(Profile, Arc<Candidates>)>,
    judgements: Vec<Judgement>,
    tried: Vec<Tried>,
    served: Option<Arc<Endpoint>>,
    prefill: Option<Arc<Endpoint>>,
    queued_ms: f64,
    policy_us: f64,
}

impl Trace {
    /// A record for a request that a pool serves with a chain of the policy set of this generation.
    #[must_use]
    pub fn new(request: Arc<Request>, pool: &str, chain: &str, generation: u64) -> Self {
        Self {
            request,
            pool: pool.into(),
            chain: chain.into(),
            generation,
            arm: Arm::BASE,
            answers: Vec::new(),
            judging: Vec::new(),
            judgements: Vec::new(),
            tried: Vec::new(),
            served: None,
            prefill: None,
            queued_ms: 0.0,
            policy_us: 0.0,
        }
    }

    /// The request has left the queue and keeps this policy set from now on.
    pub fn dispatched(&mut self, generation: u64, queued_ms: f64) {
        self.generation = generation;
        self.queued_ms = queued_ms;
    }

    /// The request belongs to this arm of an experiment; without a word, to the versions in force.
    pub fn belongs_to(&mut self, arm: Arm) {
        self.arm = arm;
    }

    /// The arm that the request belongs to.
    #[must_use]
    pub fn arm(&self) -> Arm {
        self.arm
    }

    /// The endpoint that the policies would have answer the client, whoever did in the end.
    #[must_use]
    pub fn picked(&self) -> Option<EndpointId> {
        let decode = self.judgements.iter().find(|judgement| judgement.profile == Profile::Decode);
        decode.and_then(|judgement| judgement.order.first()).map(|endpoint| endpoint.id)
    }

    /// An endpoint was tried and did not answer.
    pub fn tried(&mut self, endpoint: &Arc<Endpoint>, why: impl Into<String>) {
        self.tried.push(Tried { endpoint: Arc::clone(endpoint), why: why.into() });
    }

    /// The endpoint that answers, else the last one tried.
    #[must_use]
    pub fn endpoint(&self) -> Option<EndpointId> {
        self.served
            .as_ref()
            .or_else(|| self.tried.last().map(|tried| &tried.endpoint))
            .map(|endpoint| endpoint.id)
    }

    /// The endpoints that were tried, with why each did not answer.
    #[must_use]
    pub fn attempts(&self) -> String {
        let tried = self.tried.iter().map(|tried| format!("{} ({})", tried.endpoint.name, tried.why));
        tried.collect::<Vec<_>>().join(", ")
    }

    /// A leg before decode was served there.
    pub fn prefilled(&mut self, endpoint: &Arc<Endpoint>) {
        self.prefill = Some(Arc::clone(endpoint));
    }

    /// The endpoint that answers.
    pub fn served(&mut self, endpoint: &Arc<Endpoint>) {
        self.served = Some(Arc::clone(endpoint));
    }

    /// Microseconds that all policies of the request took together.
    pub fn policies_took(&mut self, nanos: u64) {
        #[expect(clippy::cast_precision_loss, reason = "shown to people")]
        let micros = nanos as f64 / 1_000.0;
        self.policy_us = micros;
    }

    pub(super) fn note<P: ?Sized>(
        &mut self,
        slot: &Slot<P>,
        stage: Stage,
        profile: Option<Profile>,
        given: Result<Given, &CallError>,
    ) {
        let given = given.map_err(Clone::clone);
        self.answers.push(Answer {
            plugin: Arc::clone(&slot.plugin),
            stage,
            profile,
            weight: slot.weight,
            given,
        });
    }

    pub(super) fn judge(&mut self, profile: Profile, candidates: &Arc<Candidates>) {
        self.judging.push((profile, Arc::clone(candidates)));
    }

    pub(super) fn judged(
        &mut self,
        profile: Profile,
        all: &Arc<Candidates>,
        left: &Candidates,
        scores: Vec<f32>,
        order: &Order,
    ) {
        self.judging.retain(|(judging, _)| *judging != profile);
        if left.endpoints().len() != all.endpoints().len() {
            all.read_like(left);
        }
        let columns = all.take_columns();
        let (endpoints, left) = (Arc::clone(all.endpoints()), Arc::clone(left.endpoints()));
        let order = order.iter().take(MAX_KEPT).cloned().collect();
        self.judgements.push(Judgement { profile, endpoints, columns, left, scores, order });
    }

    /// The finished record, with the status that the client got.
    #[must_use]
    pub fn finish(&mut self, status: u16) -> Explanation {
        for (profile, candidates) in std::mem::take(&mut self.judging) {
            let (endpoints, columns) = (Arc::clone(candidates.endpoints()), candidates.take_columns());
            self.judgements.push(Judgement {
                profile,
                endpoints,
                columns,
                left: Arc::default(),
                scores: Vec::new(),
                order: Vec::new(),
            });
        }
        for judgement in &mut self.judgements {
            judgement.shorten();
        }
        for answer in &mut self.answers {
            if let Ok(Given::Scores(scores)) = &mut answer.given {
                scores.truncate(MAX_KEPT);
            }
        }
        Explanation {
            id: Arc::clone(&self.request.id),
            api: self.request.api,
            model: self.request.model.clone(),
            prompt_tokens: self.request.prompt_tokens,
            pool: self.pool.clone(),
            chain: self.chain.clone(),
            generation: self.generation,
            arm: self.arm,
            answers: std::mem::take(&mut self.answers),
            judgements: std::mem::take(&mut self.judgements),
            tried: std::mem::take(&mut self.tried),
            served: self.served.take(),
            prefill: self.prefill.take(),
            queued_ms: self.queued_ms,
            policy_us: self.policy_us,
            status,
        }
    }
}

impl Judgement {
    fn shorten(&mut self) {
        if self.endpoints.len() <= MAX_KEPT {
            return;
        }
        self.endpoints = Arc::new(self.endpoints.iter().take(MAX_KEPT).cloned().collect());
        self.left = Arc::new(self.left.iter().take(MAX_KEPT).cloned().collect());
        self.scores.truncate(MAX_KEPT);
        self.columns = self.columns.shortened(MAX_KEPT);
    }
}

/// The record of a finished request.
#[derive(Debug)]
pub struct Explanation {
    id: Arc<str>,
    api: Api,
    model: Box<str>,
    prompt_tokens: u32,
    pool: Box<str>,
    chain: Box<str>,
    generation: u64,
    arm: Arm,
    answers: Vec<Answer>,
    judgements: Vec<Judgement>,
    tried: Vec<Tried>,
    served: Option<Arc<Endpoint>>,
    prefill: Option<Arc<Endpoint>>,
    queued_ms: f64,
    policy_us: f64,
    status: u16,
}

impl Explanation {
    /// The request's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The record as the admin API shows it.
    #[must_use]
    pub fn to_json(&self, registry: &Registry) -> Value {
        let decode = self.judgements.iter().find(|judgement| judgement.profile == Profile::Decode);
        let retried = self.tried.iter().map(|tried| &*tried.endpoint.name).collect::<Vec<_>>();
        let attempts =
            self.tried.iter().map(|tried| json!({"endpoint": tried.endpoint.name, "why": tried.why}));
        json!({
            "request_id": self.id,
            "api": self.api,
            "model": self.model,
            "prompt_tokens": self.prompt_tokens,
            "pool": self.pool,
            "chain": self.chain,
            "generation": self.generation,
            "arm": if self.arm == Arm::BASE { "base" } else { "candidate" },
            "candidates": decode.map_or(json!([]), |judgement| names(&judgement.endpoints)),
            "columns": decode.map_or(json!({}), |judgement| columns(&judgement.columns, registry)),
            "answers": self.answers.iter().map(Answer::to_json).collect::<Vec<_>>(),
            "scores": decode.map_or(json!([]), Judgement::scores_json),
            "order": decode.map_or(json!([]), |judgement| names(&judgement.order)),
            "picked": decode.and_then(|judgement| judgement.order.first()).map(|endpoint| &endpoint.name),
            "retried": retried,
            "attempts": attempts.collect::<Vec<_>>(),
            "endpoint": self.served.as_ref().map(|endpoint| &endpoint.name),
            "prefill": self.prefill.as_ref().map(|endpoint| &endpoint.name),
            "queued_ms": self.queued_ms,
            "policy_us": self.policy_us,
            "status": self.status,
        })
    }
}

impl Judgement {
    fn scores_json(&self) -> Value {
        let score = |endpoint: &Arc<Endpoint>| {
            let position = self.left.iter().position(|left| left.id == endpoint.id);
            position.and_then(|position| self.scores.get(position)).copied().unwrap_or(f32::NAN)
        };
        let scores: Vec<f32> = self.endpoints.iter().map(score).collect();
        numbers(&scores)
    }
}

fn columns(columns: &Columns, registry: &Registry) -> Value {
    let named =
        columns.shown().filter_map(|(id, values)| Some((registry.name(id)?.to_string(), numbers(values))));
    Value::Object(named.collect::<Map<_, _>>())
}

fn names(endpoints: &[Arc<Endpoint>]) -> Value {
    endpoints.iter().map(|endpoint| Value::from(&*endpoint.name)).collect()
}

/// Numbers, null where one is not known.
fn numbers(values: &[f32]) -> Value {
    values.iter().map(|value| if value.is_finite() { Value::from(*value) } else { Value::Null }).collect()
}
