//! Paths that are no inference API: passed on as they are, with the same accounting.
//!
//! The first pool takes them, at the endpoint that its policies choose. The body streams through, so it can be
//! sent only once: another endpoint is tried only while no connection could be made.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper::Response;
use hyper::body::{Body, Incoming};

use super::Proxy;
use super::attempt::Job;
use super::body::{Answer, Sent};
use super::infer::{Dispatched, dispatch, refuse};
use super::intake::{self, Head};
use super::outcome::Failure;
use super::service::Line;
use crate::route::{Refusal, Trace};

/// Serves a request of which only the path is known.
pub(super) async fn serve(
    proxy: &Arc<Proxy>,
    head: Head,
    body: Incoming,
    peer: IpAddr,
    line: Line,
) -> Response<Answer> {
    let (api, id) = (head.api, head.said.id.clone());
    let Some((service, request)) = intake::bare(proxy, head) else {
        return Failure::Refused(Refusal::NoEndpoints).answer(api, &id);
    };
    service.retries.deposit();
    let set = proxy.catalog.current();
    let mut trace =
        Trace::new(Arc::clone(&request), &service.config.name, &service.config.chain, set.generation);
    let budget = proxy.policy_budget();
    let dispatched = dispatch(proxy, &service, &request, set, &budget, &mut trace).await;
    trace.policies_took(budget.used());
    let Dispatched { pass, choice } = match dispatched {
        Ok(dispatched) => dispatched,
        Err(failure) => return refuse(proxy, &service, &request, trace, &failure),
    };
    let job = Job::new(Arc::clone(proxy), service, request, peer, line, pass, trace);
    if body.is_end_stream() {
        return job.run(choice, Bytes::new(), Bytes::new()).await;
    }
    job.run_once(choice, Sent::Stream(body)).await
}
