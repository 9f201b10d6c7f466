//! One inference request, from admission to the head of its answer.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::Response;

use super::attempt::Job;
use super::attempt::Spent;
use super::body::Answer;
use super::headers::explain;
use super::intake::Taken;
use super::legs;
use super::outcome::Failure;
use super::record;
use super::service::Line;
use super::{Proxy, Service, tokenize};
use crate::clock::{MILLI, Nanos};
use crate::flow::{Entered, Outcome, Pass, Place};
use crate::policy::{Budget, PolicySet, Request};
use crate::pool::window::Ended;
use crate::route::{self, Choice, Trace};
use crate::types::Profile;

/// What a request has come to when it has left the queue and its endpoints are chosen.
struct Dispatched {
    pass: Pass,
    choice: Choice,
}

/// Serves a request whose body has been read.
pub(super) async fn serve(proxy: &Arc<Proxy>, taken: Taken, peer: IpAddr, line: Line) -> Response<Answer> {
    let Taken { service, mut request, sent } = taken;
    tokenize::learn(proxy, &service, &mut request).await;
    let (mut job, mut choice) = match decide(proxy, service, Arc::new(request), peer, line).await {
        Ok(decided) => decided,
        Err(refusal) => return *refusal,
    };
    let body = legs::run(&mut job, &mut choice, &sent).await;
    job.run(choice, body, sent).await
}

/// Takes a request through its policies and the queue: ready to be sent, with where to, or refused.
pub(super) async fn decide(
    proxy: &Arc<Proxy>,
    service: Arc<Service>,
    request: Arc<Request>,
    peer: IpAddr,
    line: Line,
) -> Result<(Job, Choice), Box<Response<Answer>>> {
    service.retries.deposit();
    let set = proxy.catalog.current();
    let mut trace =
        Trace::new(Arc::clone(&request), &service.config.name, &service.config.chain, set.generation);
    let budget = proxy.policy_budget();
    let dispatched = dispatch(proxy, &service, &request, set, &budget, &mut trace).await;
    trace.policies_took(budget.used());
    match dispatched {
        Ok(Dispatched { pass, choice }) => {
            Ok((Job::new(Arc::clone(proxy), service, request, peer, line, pass, trace), choice))
        }
        Err(failure) => Err(Box::new(refuse(proxy, &service, &request, trace, &failure))),
    }
}

/// Admission, placement, the queue, and the choice of endpoints. From here on the request keeps its policy set.
async fn dispatch(
    proxy: &Proxy,
    service: &Service,
    request: &Arc<Request>,
    set: Arc<PolicySet>,
    budget: &Budget,
    trace: &mut Trace,
) -> Result<Dispatched, Failure> {
    let lane = &service.lane;
    lane.windows.arrived(request.arrived, request.prompt_tokens);
    let mut serving = set.serving(lane.facts(), request);
    trace.belongs_to(serving.arm);
    let mut candidates = lane.candidates(&serving, request, Profile::Decode);
    route::admit(lane, &serving.chain, request, &candidates, budget, trace)?;
    let placement = route::place(lane, &serving.chain, request, &candidates, budget, trace)?;
    let open = !candidates.endpoints().is_empty();
    let deadline = request.arrived + patience(service, request, placement.ttl_ms, open);
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let place = Place { placement: &placement, bytes: request.body.len(), deadline, open };
    let entered = service.controller.gate().enter(place, proxy.clock.now(), || {
        Box::new(move |outcome| {
            let _ = sender.send(outcome);
        })
    });
    let (mut pass, set) = match entered {
        Entered::Go(pass) => (pass, set),
        Entered::Full(full) => return Err(Failure::QueueFull(full)),
        Entered::Waits(_leaves_when_dropped) => {
            let outcome = receiver.await.unwrap_or(Outcome::ShuttingDown);
            let pass = passed(outcome, proxy, service, request)?;
            let set = proxy.catalog.current();
            serving = set.serving(lane.facts(), request);
            trace.belongs_to(serving.arm);
            candidates = lane.candidates(&serving, request, Profile::Decode);
            (pass, set)
        }
    };
    let queued = proxy.clock.now().saturating_sub(request.arrived);
    service.metrics.queued(seconds(queued));
    trace.dispatched(set.generation, seconds(queued) * 1_000.0);
    let choice = route::choose(lane, &serving, request, &candidates, budget, trace)?;
    pass.settled();
    Ok(Dispatched { pass, choice })
}

/// How long a request may wait: what its client and its placement say, within what the pool allows.
fn patience(service: &Service, request: &Request, placed_ms: Option<u32>, open: bool) -> Nanos {
    let queue = &service.config.queue;
    let allowed = if open { queue.ttl } else { queue.empty_ttl };
    let allowed = u64::try_from(allowed.as_millis()).unwrap_or(u64::MAX);
    let wished = [request.ttl_ms, placed_ms].into_iter().flatten().map(u64::from).min().unwrap_or(u64::MAX);
    allowed.min(wished).saturating_mul(MILLI)
}

fn passed(outcome: Outcome, proxy: &Proxy, service: &Service, request: &Request) -> Result<Pass, Failure> {
    match outcome {
        Outcome::Go(pass) => Ok(pass),
        Outcome::Displaced => Err(Failure::Displaced),
        Outcome::ShuttingDown => Err(Failure::ShuttingDown),
        Outcome::Expired => {
            let pool = &service.lane.pool;
            let now = proxy.clock.now();
            if pool.endpoints().iter().any(|endpoint| endpoint.usable(now) && endpoint.role.decodes()) {
                Err(Failure::Expired { waited_ms: now.saturating_sub(request.arrived) / MILLI })
            } else {
                Err(Failure::NobodyUp { pool: service.config.name.clone(), why: why_down(service) })
            }
        }
    }
}

/// The endpoints of a pool with what is wrong with each, for the error that a client gets.
fn why_down(service: &Service) -> String {
    let endpoints = service.lane.pool.endpoints();
    if endpoints.is_empty() {
        return "it has no endpoints".into();
    }
    let why = endpoints.iter().map(|endpoint| {
        let error = endpoint.health.last_error();
        let state = match &*error {
            _ if endpoint.draining() => "draining",
            "" => "not reached yet",
            error => error,
        };
        format!("{} ({state})", endpoint.name)
    });
    why.collect::<Vec<_>>().join(", ")
}

/// Answers a request that no engine will.
fn refuse(
    proxy: &Proxy,
    service: &Service,
    request: &Request,
    mut trace: Trace,
    failure: &Failure,
) -> Response<Answer> {
    if let Some(reason) = failure.dropped_reason() {
        service.metrics.refused(reason);
    }
    let status = failure.status();
    service.metrics.request(request.api, status, seconds(proxy.clock.now().saturating_sub(request.arrived)));
    record::note(&service.lane, request, &trace, Ended::Refused, None, Spent::default());
    let mut answer = failure.answer(request.api, &request.id);
    explain(&request.headers, answer.headers_mut(), &trace);
    proxy.decisions.push(trace.finish(status));
    answer
}

/// Seconds of a duration.
#[expect(clippy::cast_precision_loss, reason = "durations of requests")]
pub(super) fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / 1e9
}
