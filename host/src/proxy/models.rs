//! `GET /v1/models`: what all pools serve, merged.

use std::collections::BTreeSet;

use http::header::{CONTENT_TYPE, HeaderValue};
use hyper::Response;
use serde_json::json;

use super::Proxy;
use super::body::Answer;
use super::headers::mark;
use crate::tenants::Tenant;

/// Where they are listed.
pub(super) const PATH: &str = "/v1/models";

/// Lists every model once, aliases included: those that the caller may use.
pub(super) fn answer(proxy: &Proxy, id: &str, tenant: Option<&Tenant>) -> Response<Answer> {
    let mut names = BTreeSet::new();
    for service in &proxy.pools {
        names.extend(service.lane.pool.models());
        names.extend(service.config.aliases.iter().map(|(alias, _)| alias.clone()));
    }
    if let Some(tenant) = tenant {
        names.retain(|name| may_use(proxy, tenant, name));
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

/// Whether a tenant may use what is called so, by this name or by that of the model behind it.
fn may_use(proxy: &Proxy, tenant: &Tenant, name: &str) -> bool {
    let mut behind = proxy.pools.iter().filter_map(|service| service.lane.pool.model(name));
    tenant.may_use(name, behind.next().unwrap_or(name))
}
