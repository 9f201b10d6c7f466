//! Whose a request is, and whether its tenant has room for it.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use xxhash_rust::xxh3::xxh3_64;

use super::Proxy;
use super::outcome::Failure;
use crate::policy::Request;
use crate::tenants::{Held, Share, Tenant};
use crate::types::Api;

/// Who sent a request. What it shows of that is taken out of its headers.
pub(super) fn identify(
    proxy: &Proxy,
    headers: &mut HeaderMap,
    peer: IpAddr,
    api: Api,
    path: &str,
) -> Result<Option<Arc<Tenant>>, Failure> {
    let tenant = proxy.tenants.identify(headers, peer)?;
    match &tenant {
        Some(tenant) if api == Api::Other && path != super::models::PATH && !tenant.may_call(path) => {
            Err(Failure::PathNotAllowed(path.into()))
        }
        _ => Ok(tenant),
    }
}

/// Takes a request's part of what its tenant may use.
pub(super) fn enter(proxy: &Proxy, request: &Request) -> Result<Option<Held>, Failure> {
    let Some(tenant) = request.tenant.as_deref().and_then(|name| proxy.tenants.named(name)) else {
        return Ok(None);
    };
    let no_tokens = matches!(request.api, Api::Other | Api::Embeddings);
    let max_output = if no_tokens { Some(0) } else { request.max_output_tokens };
    let flow = xxh3_64(request.flow.as_bytes());
    let share = Share { prompt: request.prompt_tokens, max_output, flow };
    Ok(Some(tenant.enter(share, proxy.clock.now())?))
}

/// The weight of a request's flow that was given `weight` by flow control, as its tenant's share has it.
pub(super) fn weight(proxy: &Proxy, request: &Request, weight: f32) -> f32 {
    let tenant = request.tenant.as_deref().and_then(|name| proxy.tenants.named(name));
    tenant.map_or(weight, |tenant| weight * tenant.weight())
}
