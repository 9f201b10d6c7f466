//! Paths that are no inference API: passed on as they are, with the same accounting.
//!
//! A body of JSON is read first: it names the model whose pool takes the request, and members that steer engines from
//! inside are taken out of it as everywhere. Any other goes to the first pool and streams through, so it can be sent only
//! once: another endpoint is tried only while no connection could be made. A request without a body may ask for another
//! protocol on its connection (see [`tunnel`]).

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderValue};
use hyper::Response;
use hyper::body::{Body, Incoming};

use super::arrival::Arrival;
use super::attempt::Ran;
use super::body::{Answer, Sent};
use super::idle::Upload;
use super::infer::{decide, turned_away};
use super::intake::{self, Bare, Head};
use super::{Proxy, callers, service, tunnel};

/// Serves a request of which only the path is known.
pub(super) async fn serve(
    proxy: &Arc<Proxy>,
    mut head: Head,
    body: Incoming,
    mut arrival: Arrival,
) -> Response<Answer> {
    let (api, id) = (head.api, head.said.id.clone());
    let refuse = |failure| service::refuse(proxy, api, &id, &failure);
    let (whole, coming) = if body.is_end_stream() {
        (Some(Bytes::new()), None)
    } else if is_json(&head.headers) {
        match intake::read(proxy, body, &mut arrival.holds).await {
            Ok(body) => (Some(body), None),
            Err(failure) => return refuse(failure),
        }
    } else {
        // Some engines take what is not said to be anything for JSON, which nobody would have read.
        head.headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/octet-stream"));
        (None, Some(body))
    };
    let (service, request, whole) = match intake::bare(proxy, head, whole) {
        Ok(Bare { service, request, sent }) => (service, request, sent),
        Err(failure) => return refuse(failure),
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
    if let Some(body) = coming {
        let body = Upload::new(body, proxy.limits.body_timeout);
        return job.run_once(choice, Sent::Coming(body)).await;
    }
    job.upgrade = upgrade.filter(|_| whole.is_empty());
    match job.run(choice, whole).await {
        Ran::Answered(answer) => answer,
        Ran::Unreached(job) => job.fail_unreached(),
    }
}

/// Whether the body is said to be JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.to_ascii_lowercase().contains("json"))
}
