//! Where a request goes by its method and path.

use std::sync::Arc;

use http::header::{CONNECTION, HOST, HeaderValue};
use http::request::Parts;
use http::uri::{PathAndQuery, Uri};
use http::{Method, Version};
use hyper::body::{Body as _, Incoming};
use hyper::{Request, Response};

use super::arrival::{Arrival, Holds, Origin};
use super::body::Answer;
use super::headers::said;
use super::intake::{self, Head};
use super::outcome::Failure;
use super::wire::Exchange;
use super::{Proxy, callers, framing, infer, malformed, models, passthrough, trace_context};
use crate::api;
use crate::telemetry::Resource;
use crate::types::Api;

/// Method and target, as the client sent them.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) method: Method,
    pub(super) target: PathAndQuery,
}

impl Line {
    /// The target below an endpoint's own path.
    pub(super) fn to(&self, base: &str) -> Option<Uri> {
        if base.is_empty() {
            return Some(Uri::from(self.target.clone()));
        }
        format!("{base}{}", self.target).parse().ok()
    }
}

/// How a request came.
pub(super) struct Conversation {
    /// What was seen of its head.
    pub(super) framed: framing::Head,
    pub(super) origin: Origin,
    /// The connection that may become another protocol's; none where it cannot.
    pub(super) exchange: Option<Arc<Exchange>>,
}

/// Answers one request. Never fails: what goes wrong becomes an answer in the API's shape.
pub(super) async fn answer(
    proxy: Arc<Proxy>,
    request: Request<Incoming>,
    conversation: Conversation,
) -> Response<Answer> {
    let Conversation { framed, origin, exchange } = conversation;
    let (mut parts, body) = request.into_parts();
    name_host(&mut parts);
    trace_context::settle(&mut parts.headers, proxy.traceparent);
    let pathless = parts.version == Version::HTTP_2 && parts.uri.path_and_query().is_none();
    let target = parts.uri.into_parts().path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/"));
    let path = target.path();
    let path: Box<str> = if path.len() > 1 { path.trim_end_matches('/').into() } else { path.into() };
    let api = api::of(&parts.method, &path);
    let said = said(&parts.headers);
    if let Some(error) = malformed::framing(framed, &parts.headers) {
        return refuse(&proxy, api, &said.id, &Failure::Malformed(error));
    }
    if parts.method == Method::CONNECT {
        return refuse(&proxy, api, &said.id, &Failure::NoForwardProxy);
    }
    if pathless {
        return refuse(&proxy, api, &said.id, &Failure::Malformed(malformed::pathless()));
    }
    if let Some(plain) = api::path::disguised(&parts.method, &path) {
        return refuse(&proxy, api, &said.id, &Failure::Malformed(malformed::disguised(&plain)));
    }
    let Some(held) = proxy.usage.take(Resource::Requests, 1, proxy.limits.requests) else {
        let failure = Failure::TooManyRequests(proxy.limits.requests);
        return unheard(refuse(&proxy, api, &said.id, &failure), &body);
    };
    let tenant = match callers::identify(&proxy, &mut parts.headers, origin.peer.address(), api, &path) {
        Ok(tenant) => tenant,
        Err(failure) => return unheard(refuse(&proxy, api, &said.id, &failure), &body),
    };
    let line = Line { method: parts.method, target };
    if line.method == Method::GET && &*path == models::PATH {
        return models::answer(&proxy, &said.id, tenant.as_deref());
    }
    let head = Head { api, path, said, headers: parts.headers, tenant };
    let mut arrival = Arrival { line, origin, holds: Holds { _request: held, body: None }, exchange };
    if api == Api::Other {
        return passthrough::serve(&proxy, head, body, arrival).await;
    }
    let id = head.said.id.clone();
    let taken = match intake::read(&proxy, body, &mut arrival.holds).await {
        Ok(body) => intake::take(&proxy, head, body),
        Err(failure) => Err(failure),
    };
    match taken {
        Ok(taken) => infer::serve(&proxy, taken, arrival).await,
        Err(failure) => refuse(&proxy, api, &id, &failure),
    }
}

/// An answer that is given without the body: what of it is still to come ends the connection.
fn unheard(mut answer: Response<Answer>, body: &Incoming) -> Response<Answer> {
    if !body.is_end_stream() {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// HTTP/2 says in the target what HTTP/1.1 says in `host`.
fn name_host(parts: &mut Parts) {
    if let Some(authority) = parts.uri.authority().filter(|_| parts.version == Version::HTTP_2)
        && !parts.headers.contains_key(HOST)
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        parts.headers.insert(HOST, host);
    }
}

/// Answers what no pool was found for.
pub(super) fn refuse(proxy: &Proxy, api: Api, id: &str, failure: &Failure) -> Response<Answer> {
    proxy.refused(api, failure);
    failure.answer(api, id)
}
