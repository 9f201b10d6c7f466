//! The stages in order.

use std::sync::Arc;

use super::ask::{ask, default_allowed};
use super::explain::{Given, Trace};
use super::{Candidates, Lane, Order, RouteMode, pick};
use crate::policy::{
    Budget, Call, Chain, EndpointView, LegStage, OnEmpty, Placement, Reason, Rejection, Request, Serving,
    Slot, Stage, Verdict, clean,
};
use crate::pool::{Endpoint, Reservation};
use crate::types::{Profile, Role};

/// Why a request is not served.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// An admission policy said no.
    #[error("{}", .0.reason)]
    Rejected(Rejection),
    /// No endpoint of the pool can take it.
    #[error("no endpoint is available")]
    NoEndpoints,
    /// A filter kept nobody.
    #[error("the filter `{0}` keeps no endpoint")]
    Filtered(Box<str>),
    /// A policy that must not be skipped gave no usable answer.
    #[error("the policy `{plugin}` must not be skipped and its {} stage failed: {}", stage.as_str(), reason.as_str())]
    Policy {
        /// Who failed.
        plugin: Box<str>,
        /// At what.
        stage: Stage,
        /// How.
        reason: Reason,
    },
}

/// Where a leg before decode may go, best first.
#[derive(Debug)]
pub struct PlannedLeg {
    /// What is done.
    pub stage: LegStage,
    /// Endpoints in the order in which they are tried.
    pub order: Order,
}

/// Where a request goes.
#[derive(Debug)]
pub struct Choice {
    /// Endpoints in the order in which they are tried; never empty.
    pub order: Order,
    /// Of the first of them.
    pub reservation: Reservation,
    /// Legs to run before decode; none when nobody was asked for any.
    pub legs: Option<Vec<PlannedLeg>>,
    /// Who is asked, should there be anything to ask again.
    pub serving: Serving,
}

/// Asks every admission policy.
///
/// # Errors
/// The first refusal.
pub fn admit(
    lane: &Lane,
    chain: &Chain,
    request: &Arc<Request>,
    candidates: &Arc<Candidates>,
    budget: &Budget,
    trace: &mut Trace,
) -> Result<(), Refusal> {
    trace.arrives(lane, chain, budget, candidates);
    let view = Arc::clone(candidates) as Arc<dyn EndpointView>;
    let call = Call { request, endpoints: &view, budget };
    if !chain.admission.is_empty() {
        trace.asked_of(candidates);
    }
    for slot in &chain.admission {
        let answer = ask(slot, Stage::Admission, &*lane.clock, budget, |policy| {
            let cleaned = |said| clean::verdict(said).inspect_err(|error| policy.unusable(call, error));
            policy.admit(call).and_then(cleaned)
        });
        trace.note(slot, Stage::Admission, None, budget, answer.as_ref().map(Given::verdict));
        match answer {
            Ok(Verdict::Accept) => {}
            _ if lane.mode == RouteMode::Observe => {}
            Ok(Verdict::Reject(rejection)) => return Err(Refusal::Rejected(rejection)),
            Err(error) => default_allowed(&slot.plugin, Stage::Admission, &error)?,
        }
    }
    Ok(())
}

/// Asks where the request waits if it has to. Without an answer: one flow for all, first come first served.
///
/// # Errors
/// When the flow-control policy must not be skipped.
pub fn place(
    lane: &Lane,
    chain: &Chain,
    request: &Arc<Request>,
    candidates: &Arc<Candidates>,
    budget: &Budget,
    trace: &mut Trace,
) -> Result<Placement, Refusal> {
    let Some(slot) = &chain.flow else { return Ok(first_come(request)) };
    trace.asked_of(candidates);
    let view = Arc::clone(candidates) as Arc<dyn EndpointView>;
    let call = Call { request, endpoints: &view, budget };
    let answer = ask(slot, Stage::FlowControl, &*lane.clock, budget, |policy| {
        let cleaned = |said| clean::placement(said).inspect_err(|error| policy.unusable(call, error));
        policy.place(call).and_then(cleaned)
    });
    trace.note(slot, Stage::FlowControl, None, budget, answer.as_ref().map(Given::placement));
    match answer {
        // Nobody waits for a policy that is not followed.
        _ if lane.mode == RouteMode::Observe => Ok(Placement { ceiling: f32::MAX, ..first_come(request) }),
        Ok(placement) => Ok(placement),
        Err(error) => {
            default_allowed(&slot.plugin, Stage::FlowControl, &error)?;
            Ok(first_come(request))
        }
    }
}

pub(super) fn first_come(request: &Request) -> Placement {
    Placement::of(request.prompt_tokens)
}

/// Filters, scores, picks, reserves and asks whether to split. The candidates are those that placement saw, unless
/// the request has waited since.
///
/// # Errors
/// When nobody can serve the request.
pub fn choose(
    lane: &Arc<Lane>,
    serving: &Serving,
    request: &Arc<Request>,
    candidates: &Arc<Candidates>,
    budget: &Budget,
    trace: &mut Trace,
) -> Result<Choice, Refusal> {
    trace.decides(lane, &serving.chain, budget);
    let judging = Judging { lane, serving, request, budget };
    let choice = judging.choose(candidates, trace);
    trace.hand_over();
    choice
}

/// Asks whether to split, for another decode endpoint than the one that was chosen: what was prefilled for that one is
/// good for it alone. Where the policy fails it is not split.
#[must_use]
pub fn split_again(
    lane: &Arc<Lane>,
    serving: &Serving,
    request: &Arc<Request>,
    decode: &Arc<Endpoint>,
    budget: &Budget,
) -> Option<Vec<PlannedLeg>> {
    // The explanation keeps the question that was asked first.
    let mut aside = Trace::new(Arc::clone(request), &lane.pool.name, &lane.pool.chain, 0);
    Judging { lane, serving, request, budget }.split(decode, &mut aside).unwrap_or_default()
}

/// A prefill leg at any endpoint that prefills, the least loaded first: for engines that do nothing but split.
#[must_use]
pub fn any_prefill(
    lane: &Arc<Lane>,
    serving: &Serving,
    request: &Arc<Request>,
    decode: &Endpoint,
) -> Vec<PlannedLeg> {
    let all = lane.candidates(serving, request, Profile::Prefill);
    let unscored = vec![0.0; all.len()];
    let positions = pick::by_score(all.endpoints(), request, &unscored, pick::load);
    let mut order = Order::new(&all, positions).without(decode);
    lane.trusted_first(&mut order, &request.id);
    if order.is_empty() { Vec::new() } else { vec![PlannedLeg { stage: LegStage::Prefill, order }] }
}

struct Judging<'a> {
    lane: &'a Arc<Lane>,
    serving: &'a Serving,
    request: &'a Arc<Request>,
    budget: &'a Budget,
}

impl Judging<'_> {
    fn choose(&self, candidates: &Arc<Candidates>, trace: &mut Trace) -> Result<Choice, Refusal> {
        let order = self.order(candidates, Profile::Decode, trace)?;
        let reservation = self.lane.reserve_first(self.request, &order).ok_or(Refusal::NoEndpoints)?;
        let legs = self.split(reservation.endpoint(), trace)?;
        Ok(Choice { order, reservation, legs, serving: self.serving.clone() })
    }

    /// The endpoints of a profile in the order in which they are to be tried.
    fn order(&self, all: &Arc<Candidates>, profile: Profile, trace: &mut Trace) -> Result<Order, Refusal> {
        let judged = self.judge(all, profile, trace);
        match self.lane.mode {
            RouteMode::Follow => judged,
            RouteMode::Observe if all.is_empty() => judged,
            RouteMode::Observe => {
                let unscored = vec![0.0; all.len()];
                let by_load = pick::by_score(all.endpoints(), self.request, &unscored, pick::load);
                let mut order = Order::new(all, by_load);
                self.trusted_first(&mut order, trace);
                Ok(order)
            }
        }
    }

    /// Whatever policies say, what fails or is busy comes last.
    fn trusted_first(&self, order: &mut Order, trace: &mut Trace) {
        if self.lane.trusted_first(order, &self.request.id) {
            trace.out_of_use(self.lane.out_of_use(self.lane.clock.now()));
        }
    }

    /// The same, as the policies say.
    fn judge(&self, all: &Arc<Candidates>, profile: Profile, trace: &mut Trace) -> Result<Order, Refusal> {
        if all.is_empty() {
            return Err(Refusal::NoEndpoints);
        }
        trace.judge(profile, all);
        let left = self.filter(all, profile, trace)?;
        let scores = self.score(&left, profile, trace)?;
        let positions = self.pick(&left, profile, &scores, trace)?;
        let mut order = Order::new(&left, positions);
        self.trusted_first(&mut order, trace);
        trace.judged(profile, all, &left, scores, &order);
        Ok(order)
    }

    fn filter(
        &self,
        all: &Arc<Candidates>,
        profile: Profile,
        trace: &mut Trace,
    ) -> Result<Arc<Candidates>, Refusal> {
        let mut left = Arc::clone(all);
        for slot in judges(&self.serving.chain.filters, profile) {
            let view = Arc::clone(&left) as Arc<dyn EndpointView>;
            let call = self.call(&view);
            let answer = ask(slot, Stage::Filter, &*self.lane.clock, self.budget, |policy| {
                let kept = policy.keep(call)?;
                clean::positions(kept, view.len()).inspect_err(|error| policy.unusable(call, error))
            });
            trace.note(
                slot,
                Stage::Filter,
                Some(profile),
                self.budget,
                answer.as_ref().map(|kept| Given::kept(&left, kept)),
            );
            match answer {
                Ok(kept) if kept.is_empty() && slot.plugin.on_empty == OnEmpty::Ignore => {}
                Ok(kept) if kept.is_empty() => return Err(Refusal::Filtered(slot.plugin.name.clone())),
                Ok(kept) if kept.len() == left.len() => {}
                Ok(kept) => left = left.subset(&kept),
                Err(error) => default_allowed(&slot.plugin, Stage::Filter, &error)?,
            }
        }
        Ok(left)
    }

    fn score(
        &self,
        left: &Arc<Candidates>,
        profile: Profile,
        trace: &mut Trace,
    ) -> Result<Vec<f32>, Refusal> {
        let mut sums = vec![0.0; left.len()];
        let view = Arc::clone(left) as Arc<dyn EndpointView>;
        let call = self.call(&view);
        for slot in judges(&self.serving.chain.scorers, profile) {
            let answer = ask(slot, Stage::Scorer, &*self.lane.clock, self.budget, |policy| {
                let scores = policy.score(call)?;
                clean::scores(scores, view.len()).inspect_err(|error| policy.unusable(call, error))
            });
            match answer {
                Ok(scores) => {
                    slot.plugin.health.clamped(scores.clamped);
                    for (sum, score) in sums.iter_mut().zip(&scores.values) {
                        *sum += slot.weight * score;
                    }
                    trace.note(
                        slot,
                        Stage::Scorer,
                        Some(profile),
                        self.budget,
                        Ok(Given::Scores(scores.values)),
                    );
                }
                Err(error) => {
                    trace.note(slot, Stage::Scorer, Some(profile), self.budget, Err(&error));
                    default_allowed(&slot.plugin, Stage::Scorer, &error)?;
                }
            }
        }
        Ok(sums)
    }

    fn pick(
        &self,
        left: &Arc<Candidates>,
        profile: Profile,
        scores: &[f32],
        trace: &mut Trace,
    ) -> Result<Vec<u32>, Refusal> {
        let by_score = pick::by_score(left.endpoints(), self.request, scores, |endpoint| {
            trace.saw_load(pick::load(endpoint))
        });
        let Some(slot) = judges(self.serving.chain.picker.as_slice(), profile).next() else {
            return Ok(by_score);
        };
        let view = Arc::clone(left) as Arc<dyn EndpointView>;
        let call = self.call(&view);
        let count = u32::try_from(left.len()).unwrap_or(u32::MAX);
        let answer = ask(slot, Stage::Picker, &*self.lane.clock, self.budget, |policy| {
            let picked = policy.pick(call, scores, count)?;
            let cleaned = clean::positions(picked, view.len());
            cleaned.inspect_err(|error| policy.unusable(call, scores, count, error))
        });
        trace.note(
            slot,
            Stage::Picker,
            Some(profile),
            self.budget,
            answer.as_ref().map(|picked| Given::kept(left, picked)),
        );
        match answer {
            Ok(picked) => Ok(pick::completed(picked, by_score)),
            Err(error) => {
                default_allowed(&slot.plugin, Stage::Picker, &error)?;
                Ok(by_score)
            }
        }
    }

    fn split(&self, decode: &Arc<Endpoint>, trace: &mut Trace) -> Result<Option<Vec<PlannedLeg>>, Refusal> {
        let slot = self.serving.chain.disaggregation.as_ref();
        if !decode.role.decodes() || (slot.is_none() && !trace.shadows_split()) {
            return Ok(None);
        }
        let everyone = self.lane.everyone(self.serving, self.request);
        // Engines hand KV over only when they were set up for it, and a pool says so by its dialect or by roles: where
        // neither is given and every endpoint does everything there is nothing to ask.
        let all = everyone.endpoints();
        let set_up =
            self.lane.pool.dialect.is_some() || all.iter().any(|endpoint| endpoint.role != Role::Both);
        let elsewhere = set_up && all.iter().any(|other| other.id != decode.id && other.role.prefills());
        let Some(position) = everyone.position(decode).filter(|_| elsewhere) else { return Ok(None) };
        trace.splits(&everyone, position);
        let Some(slot) = slot else { return Ok(None) };
        let view = Arc::clone(&everyone) as Arc<dyn EndpointView>;
        let call = self.call(&view);
        let answer = ask(slot, Stage::Disaggregation, &*self.lane.clock, self.budget, |policy| {
            let legs = policy.split(call, position)?;
            clean::legs(legs, view.len()).inspect_err(|error| policy.unusable(call, position, error))
        });
        trace.note(
            slot,
            Stage::Disaggregation,
            Some(Profile::Prefill),
            self.budget,
            answer.as_ref().map(|legs| Given::legs(&everyone, legs)),
        );
        trace.split_of(&everyone, position);
        let legs = match answer {
            Ok(legs) => legs,
            Err(error) => {
                if self.lane.mode == RouteMode::Follow {
                    default_allowed(&slot.plugin, Stage::Disaggregation, &error)?;
                }
                return Ok(Some(Vec::new()));
            }
        };
        let mut planned = Vec::with_capacity(legs.len());
        for leg in legs {
            let order = if leg.candidates.is_empty() {
                let candidates = self.lane.candidates(self.serving, self.request, Profile::Prefill);
                self.order(&candidates, Profile::Prefill, trace).ok()
            } else {
                let mut order = Order::new(&everyone, leg.candidates);
                self.trusted_first(&mut order, trace);
                Some(order)
            };
            if let Some(order) = order.map(|order| order.without(decode)).filter(|order| !order.is_empty()) {
                planned.push(PlannedLeg { stage: leg.stage, order });
            }
        }
        if self.lane.mode == RouteMode::Observe {
            planned.clear();
        }
        Ok(Some(planned))
    }

    fn call<'b>(&'b self, endpoints: &'b Arc<dyn EndpointView>) -> Call<'b> {
        Call { request: self.request, endpoints, budget: self.budget }
    }
}

/// The slots whose plugin judges candidates of this profile.
fn judges<P: ?Sized>(slots: &[Slot<P>], profile: Profile) -> impl Iterator<Item = &Slot<P>> {
    slots.iter().filter(move |slot| slot.plugin.profiles.contains(&profile))
}
