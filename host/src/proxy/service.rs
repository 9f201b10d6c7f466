//! Where a request goes by its method and path.

use std::net::IpAddr;
use std::sync::Arc;

use http::Method;
use http::uri::{PathAndQuery, Uri};
use hyper::body::Incoming;
use hyper::{Request, Response};

use super::body::Answer;
use super::headers::said;
use super::intake::{self, Head};
use super::outcome::Failure;
use super::{Proxy, framing, infer, malformed, models, passthrough};
use crate::api;
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

/// Answers one request, of whose head `framed` was seen. Never fails: what goes wrong becomes an answer in the
/// API's shape.
pub(super) async fn answer(
    proxy: Arc<Proxy>,
    request: Request<Incoming>,
    framed: framing::Head,
    peer: IpAddr,
) -> Response<Answer> {
    let (parts, body) = request.into_parts();
    let target = parts.uri.into_parts().path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/"));
    let path = target.path();
    let path: Box<str> = if path.len() > 1 { path.trim_end_matches('/').into() } else { path.into() };
    let api = api::of(&parts.method, &path);
    let said = said(&parts.headers);
    if let Some(error) = malformed::framing(framed, &parts.headers) {
        return refuse(&proxy, api, &said.id, &Failure::Malformed(error));
    }
    let line = Line { method: parts.method, target };
    if line.method == Method::GET && &*path == "/v1/models" {
        return models::answer(&proxy, &said.id);
    }
    let head = Head { api, path, said, headers: parts.headers };
    if api == Api::Other {
        return passthrough::serve(&proxy, head, body, peer, line).await;
    }
    let id = head.said.id.clone();
    let taken = match intake::read(body, proxy.limits.body_bytes, proxy.limits.body_timeout).await {
        Ok(body) => intake::take(&proxy, head, body),
        Err(failure) => Err(failure),
    };
    match taken {
        Ok(taken) => infer::serve(&proxy, taken, peer, line).await,
        Err(failure) => refuse(&proxy, api, &id, &failure),
    }
}

/// Answers what no pool was found for.
fn refuse(proxy: &Proxy, api: Api, id: &str, failure: &Failure) -> Response<Answer> {
    proxy.unrouted.request(api, failure.status(), 0.0);
    failure.answer(api, id)
}
