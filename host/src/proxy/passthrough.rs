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
use super::body::{Answer, Sent};
use super::idle::Upload;
use super::infer::decide;
use super::intake::{self, Head};
use super::outcome::Failure;
use super::service::Line;
use crate::route::Refusal;

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
    let (job, choice) = match decide(proxy, service, request, peer, line).await {
        Ok(decided) => decided,
        Err(refusal) => return *refusal,
    };
    if body.is_end_stream() {
        return job.run(choice, Bytes::new(), Bytes::new()).await;
    }
    let body = Upload::new(body, proxy.limits.body_timeout);
    job.run_once(choice, Sent::Coming(body)).await
}
