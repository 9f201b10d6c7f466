//! One inference request, from admission to the head of its answer.

use std::sync::Arc;

use bytes::Bytes;
use hyper::Response;

use super::arrival::Arrival;
use super::attempt::Ran;
use super::body::Answer;
use super::headers::explain;
use super::intake::Taken;
use super::job::{Job, Spent};
use super::outcome::Failure;
use super::turn::{Dispatched, Turn};
use super::{Proxy, Service, callers, keep_alive, priority, record, tokenize};
use crate::clock::Nanos;
use crate::policy::{Budget, PolicySet, Request};
use crate::pool::window::Ended;
use crate::route::{self, Choice, Trace};
use crate::tenants::Held;
use crate::types::Profile;

/// Serves a request whose body has been read.
pub(super) async fn serve(proxy: &Arc<Proxy>, taken: Taken, arrival: Arrival) -> Response<Answer> {
    let Taken { service, mut request, sent } = taken;
    // Before anything is done for it: a tenant that is over its limits costs nothing.
    let quota = match callers::enter(proxy, &request) {
        Ok(quota) => quota,
        Err(failure) => return turned_away(proxy, &service, request, &failure),
    };
    tokenize::learn(proxy, &service, &mut request).await;
    let request = Arc::new(request);
    let Some(every) = keep_alive::wanted(&service, &request) else {
        return run(Arc::clone(proxy), service, request, sent, arrival, quota).await;
    };
    let answer = run(Arc::clone(proxy), service, Arc::clone(&request), sent, arrival, quota);
    keep_alive::within(Box::pin(answer), &request, every).await
}

/// Takes a request to an answer. One that nobody could be sent waits for the pool to come back.
async fn run(
    proxy: Arc<Proxy>,
    service: Arc<Service>,
    request: Arc<Request>,
    sent: Bytes,
    arrival: Arrival,
    quota: Option<Held>,
) -> Response<Answer> {
    let (mut job, mut choice) = match decide(&proxy, service, request, arrival, quota).await {
        Ok(decided) => decided,
        Err(refusal) => return *refusal,
    };
    let sent = priority::splice(&job, sent);
    loop {
        let unreached = match job.run(choice, sent.clone()).await {
            Ran::Answered(answer) => return answer,
            Ran::Unreached(job) => job,
        };
        (job, choice) = match again(*unreached).await {
            Ok(again) => again,
            Err(refusal) => return *refusal,
        };
    }
}

/// Takes a request through its policies and the queue: ready to be sent, with where to, or refused.
pub(super) async fn decide(
    proxy: &Arc<Proxy>,
    service: Arc<Service>,
    request: Arc<Request>,
    arrival: Arrival,
    quota: Option<Held>,
) -> Result<(Job, Choice), Box<Response<Answer>>> {
    service.retries.deposit();
    let set = proxy.catalog.current();
    let mut trace =
        Trace::new(Arc::clone(&request), &service.config.name, &service.config.chain, set.generation);
    let budget = proxy.policy_budget();
    let dispatched = dispatch(proxy, &service, &request, set, &budget, &mut trace).await;
    trace.policies_took(budget.used());
    match dispatched {
        Ok((Dispatched { pass, choice, waited }, placement)) => {
            let mut job = Job::new(Arc::clone(proxy), service, request, arrival, pass, trace, placement);
            job.waited = waited;
            job.quota = quota;
            Ok((job, choice))
        }
        Err(failure) => Err(Box::new(refuse(proxy, &service, &request, trace, &failure))),
    }
}

/// Admission, placement, and the first turn. From its dispatch on the request keeps its policy set.
async fn dispatch(
    proxy: &Proxy,
    service: &Service,
    request: &Arc<Request>,
    set: Arc<PolicySet>,
    budget: &Budget,
    trace: &mut Trace,
) -> Result<(Dispatched, crate::policy::Placement), Failure> {
    let lane = &service.lane;
    lane.windows.arrived(request.arrived, request.prompt_tokens);
    let serving = set.serving(lane.facts(), request);
    trace.belongs_to(serving.arm);
    let candidates = lane.candidates(&serving, request, Profile::Decode);
    route::admit(lane, &serving.chain, request, &candidates, budget, trace)?;
    let mut placement = route::place(lane, &serving.chain, request, &candidates, budget, trace)?;
    placement.weight = callers::weight(proxy, request, placement.weight);
    let turn = Turn { proxy, service, request, placement: &placement, budget };
    let dispatched = turn.first(set.generation, serving, candidates, trace).await?;
    Ok((dispatched, placement))
}

/// Takes a request that no endpoint could be sent to through the queue again.
async fn again(mut job: Job) -> Result<(Job, Choice), Box<Response<Answer>>> {
    let (proxy, service) = (Arc::clone(&job.proxy), Arc::clone(&job.service));
    let (request, placement) = (Arc::clone(&job.request), job.placement.clone());
    let budget = proxy.policy_budget();
    let turn =
        Turn { proxy: &proxy, service: &service, request: &request, placement: &placement, budget: &budget };
    match turn.when_somebody_is_back(&mut job.trace).await {
        Ok(Dispatched { pass, choice, waited }) => {
            job.pass = pass;
            job.waited = waited.or(job.waited);
            Ok((job, choice))
        }
        Err(failure) => Err(Box::new(job.refuse(&failure))),
    }
}

/// Answers a request that no policy is asked about.
pub(super) fn turned_away(
    proxy: &Proxy,
    service: &Service,
    request: Request,
    failure: &Failure,
) -> Response<Answer> {
    let request = Arc::new(request);
    let generation = proxy.catalog.current().generation;
    let trace = Trace::new(Arc::clone(&request), &service.config.name, &service.config.chain, generation);
    refuse(proxy, service, &request, trace, failure)
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
