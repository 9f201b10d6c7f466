//! What every policy said of a request, kept for `GET /decisions/REQUEST-ID`.
//!
//! A [`Trace`] is filled on the way and holds the request's candidates; [`Trace::finish`] lets go of the
//! request (and so of its body) and keeps numbers and names alone. Rendering to JSON waits until somebody
//! asks.

mod asked;
mod brief;
mod given;
mod handover;
mod record;

use std::sync::Arc;

pub use asked::Asked;
pub use given::Given;
pub use record::Explanation;

use handover::Handover;

use super::columns::Columns;
use super::shadow::Draft;
use super::{Candidates, Order};
use crate::clock::Nanos;
use crate::policy::{Budget, Builtin, CallError, Facts, Plugin, Request, Slot, Stage};
use crate::pool::{Endpoint, OutOfUse};
use crate::prefix::exact::Known;
use crate::types::{Arm, Dialect, EndpointId, Profile};

/// Candidates of one judgement that are kept, and as many of its order.
const MAX_KEPT: usize = 256;

/// What one policy said.
#[derive(Debug, Clone)]
pub struct Answer {
    pub(super) plugin: Arc<Plugin>,
    pub(super) stage: Stage,
    pub(super) profile: Option<Profile>,
    pub(super) weight: f32,
    /// CPU time of the call.
    pub(super) used: Nanos,
    pub(super) given: Result<Given, CallError>,
}

/// Candidates as policies saw them.
#[derive(Debug)]
struct Seen {
    now: Nanos,
    /// How many there were; fewer may be kept.
    of: usize,
    endpoints: Arc<Vec<Arc<Endpoint>>>,
    columns: Columns,
    /// On what the columns of the prefix rest; empty when nobody read any.
    known: Vec<Known>,
}

impl Seen {
    fn of(candidates: &Candidates) -> Self {
        let endpoints = Arc::clone(candidates.endpoints());
        let columns = candidates.take_columns();
        let prefix = Builtin::ALL.iter().filter(|builtin| builtin.reads_prefix());
        let read = columns.ids_read();
        let known = if prefix.map(|column| column.id()).any(|id| read.contains(&id)) {
            candidates.known()
        } else {
            Vec::new()
        };
        Self { now: candidates.at_time(), of: endpoints.len(), endpoints, columns, known }
    }

    fn shorten(&mut self) {
        if self.endpoints.len() > MAX_KEPT {
            self.endpoints = Arc::new(self.endpoints.iter().take(MAX_KEPT).cloned().collect());
            self.columns = self.columns.shortened(MAX_KEPT);
            self.known.truncate(MAX_KEPT);
        }
    }
}

/// How the candidates of one profile were judged.
#[derive(Debug)]
struct Judgement {
    profile: Profile,
    seen: Seen,
    /// Those that the filters left, with their sums.
    left: Arc<Vec<Arc<Endpoint>>>,
    left_of: usize,
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
    pub(super) request: Arc<Request>,
    pool: Box<str>,
    chain: Box<str>,
    generation: u64,
    arm: Arm,
    pub(super) answers: Vec<Answer>,
    /// CPU time of all calls so far.
    spent: Nanos,
    /// What shadows are going to be asked about; none where nobody is.
    pub(super) draft: Option<Box<Draft>>,
    judging: Vec<(Profile, Arc<Candidates>)>,
    judgements: Vec<Judgement>,
    /// What admission and placement saw, unless the same candidates were judged afterwards.
    asked: Option<Arc<Candidates>>,
    /// What disaggregation saw, and the position of the decode endpoint.
    split: Option<(Arc<Candidates>, u32)>,
    tried: Vec<Tried>,
    out_of_use: Vec<(Arc<Endpoint>, OutOfUse)>,
    served: Option<Arc<Endpoint>>,
    handover: Handover,
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
            spent: 0,
            draft: None,
            judging: Vec::new(),
            judgements: Vec::new(),
            asked: None,
            split: None,
            tried: Vec::new(),
            out_of_use: Vec::new(),
            served: None,
            handover: Handover::default(),
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

    /// These endpoints were out of use when the request was dispatched, or got less than others.
    pub fn out_of_use(&mut self, mut endpoints: Vec<(Arc<Endpoint>, OutOfUse)>) {
        endpoints.truncate(MAX_KEPT);
        self.out_of_use = endpoints;
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

    /// The prompt was prefilled there; in this time, where it is known.
    pub fn prefilled(&mut self, endpoint: &Arc<Endpoint>, took: Option<Nanos>) {
        self.handover.prefilled(endpoint, took);
    }

    /// What came of splitting the request.
    pub fn split(&mut self, dialect: Dialect, outcome: &'static str) {
        self.handover.came_to(dialect, outcome);
    }

    /// The first token came so long after decode was asked.
    pub fn transferred(&mut self, took: Nanos) {
        self.handover.transferred(took);
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

    /// Notes an answer that was asked for within `budget`, right after it came.
    pub(super) fn note<P: ?Sized>(
        &mut self,
        slot: &Slot<P>,
        stage: Stage,
        profile: Option<Profile>,
        budget: &Budget,
        given: Result<Given, &CallError>,
    ) {
        let given = given.map_err(Clone::clone);
        let before = std::mem::replace(&mut self.spent, budget.used());
        self.answers.push(Answer {
            plugin: Arc::clone(&slot.plugin),
            stage,
            profile,
            weight: slot.weight,
            used: self.spent.saturating_sub(before),
            given,
        });
    }

    /// Admission or placement is asked about these.
    pub(super) fn asked_of(&mut self, candidates: &Arc<Candidates>) {
        self.asked = Some(Arc::clone(candidates));
    }

    /// Disaggregation was asked about these.
    pub(super) fn split_of(&mut self, candidates: &Arc<Candidates>, decode: u32) {
        self.split = Some((Arc::clone(candidates), decode));
    }

    pub(super) fn judge(&mut self, profile: Profile, candidates: &Arc<Candidates>) {
        if let Some(draft) = &mut self.draft {
            draft.judging(profile, candidates);
        }
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
        if let Some(draft) = &mut self.draft {
            draft.judged(profile, left.endpoints(), order);
        }
        self.judging.retain(|(judging, _)| *judging != profile);
        if left.endpoints().len() != all.endpoints().len() {
            all.read_like(left);
        }
        self.asked.take_if(|asked| Arc::ptr_eq(asked, all));
        let (seen, left) = (Seen::of(all), Arc::clone(left.endpoints()));
        let order = order.iter().take(MAX_KEPT).cloned().collect();
        self.judgements.push(Judgement { profile, seen, left_of: left.len(), left, scores, order });
    }

    /// The finished record, with the status that the client got.
    #[must_use]
    pub fn finish(&mut self, status: u16) -> Explanation {
        // Of a request that never came to a choice.
        self.hand_over();
        for (profile, candidates) in std::mem::take(&mut self.judging) {
            self.asked.take_if(|asked| Arc::ptr_eq(asked, &candidates));
            self.judgements.push(Judgement {
                profile,
                seen: Seen::of(&candidates),
                left: Arc::default(),
                left_of: 0,
                scores: Vec::new(),
                order: Vec::new(),
            });
        }
        let shortened = |candidates: &Candidates| {
            let mut seen = Seen::of(candidates);
            seen.shorten();
            seen
        };
        let asked = self.asked.take().map(|candidates| shortened(&candidates));
        let split = self.split.take().map(|(candidates, decode)| (shortened(&candidates), decode));
        for judgement in &mut self.judgements {
            judgement.shorten();
        }
        for answer in &mut self.answers {
            if let Ok(Given::Scores(scores)) = &mut answer.given {
                scores.truncate(MAX_KEPT);
            }
        }
        Explanation {
            facts: Facts::of(&self.request, self.request.arrived),
            arrived: self.request.arrived,
            asked,
            split,
            pool: self.pool.clone(),
            chain: self.chain.clone(),
            generation: self.generation,
            arm: self.arm,
            answers: std::mem::take(&mut self.answers),
            judgements: std::mem::take(&mut self.judgements),
            tried: std::mem::take(&mut self.tried),
            out_of_use: std::mem::take(&mut self.out_of_use),
            served: self.served.take(),
            handover: std::mem::take(&mut self.handover),
            queued_ms: self.queued_ms,
            policy_us: self.policy_us,
            status,
        }
    }
}

impl Judgement {
    fn shorten(&mut self) {
        if self.left.len() > MAX_KEPT {
            self.left = Arc::new(self.left.iter().take(MAX_KEPT).cloned().collect());
            self.scores.truncate(MAX_KEPT);
        }
        self.seen.shorten();
    }
}
