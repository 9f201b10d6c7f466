//! `GET /v1/models`: what all pools serve, merged.

use std::collections::BTreeSet;

use http::header::{CONTENT_TYPE, HeaderValue};
use hyper::Response;
use serde_json::json;

use super::Proxy;
use super::body::Answer;
use super::headers::mark;

/// Lists every model once, aliases included.
pub(super) fn answer(proxy: &Proxy, id: &str) -> Response<Answer> {
    let mut names = BTreeSet::new();
    for service in &proxy.pools {
        names.extend(service.lane.pool.models());
        names.extend(service.config.aliases.iter().map(|(alias, _)| alias.clone()));
    }
    let data: Vec<_> = names
        .iter()
        .map(|name| json!({"id": name, "object": "model", "created": 0, "owned_by": "sluicegate"}))
        .collect();
    let body = json!({"object": "list", "data": data}).to_string();
    let mut response = Response::new(Answer::whole(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    mark(response.headers_mut(), id);
    response
}
