//! Paths that are no inference API: passed on as they are, with the same accounting.
//!
//! The first pool takes them, at the endpoint that its policies choose. The body streams through, so it can be
//! sent only once: another endpoint is tried only while no connection could be made. A request without a body may ask
//! for another protocol on its connection (see [`tunnel`]).

use std::sync::Arc;

use bytes::Bytes;
use hyper::Response;
use hyper::body::{Body, Incoming};

use super::arrival::Arrival;
use super::attempt::Ran;
use super::body::{Answer, Sent};
use super::idle::Upload;
use super::infer::{decide, turned_away};
use super::intake::{self, Head};
use super::outcome::Failure;
use super::{Proxy, callers, tunnel};
use crate::route::Refusal;

/// Serves a request of which only the path is known.
pub(super) async fn serve(
    proxy: &Arc<Proxy>,
    head: Head,
    body: Incoming,
    arrival: Arrival,
) -> Response<Answer> {
    let (api, id) = (head.api, head.said.id.clone());
    let Some((service, request)) = intake::bare(proxy, head) else {
        return Failure::Refused(Refusal::NoEndpoints).answer(api, &id);
    };
    let quota = match callers::enter(proxy, &request) {
        Ok(quota) => quota,
        Err(failure) => return turned_away(proxy, &service, request, &failure),
    };
    let upgrade = arrival.exchange.as_ref().and_then(|_| tunnel::wanted(&request.headers));
    let (mut job, choice) = match decide(proxy, service, Arc::new(request), arrival, quota).await {
        Ok(decided) => decided,
        Err(refusal) => return *refusal,
    };
    if body.is_end_stream() {
        job.upgrade = upgrade;
        return match job.run(choice, Bytes::new()).await {
            Ran::Answered(answer) => answer,
            Ran::Unreached(job) => job.fail_unreached(),
        };
    }
    let body = Upload::new(body, proxy.limits.body_timeout);
    job.run_once(choice, Sent::Coming(body)).await
}
