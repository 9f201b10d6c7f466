//! From a request's bytes to what policies see of it.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::{Instant, timeout_at};

use super::arrival::Holds;
use super::headers::Said;
use super::outcome::Failure;
use super::{Proxy, Service};
use crate::api::{self, Facts};
use crate::policy::{PrefixSource, Request};
use crate::prefix;
use crate::route::Refusal;
use crate::telemetry::Resource;
use crate::tenants::Tenant;
use crate::types::Api;

/// Bytes that a client must send within its time, or the end: a body that drips keeps nobody waiting.
const PACE: usize = 1_024;

/// Reads a whole body within the bounds of the proxy; what it takes up is noted in `holds`.
pub(super) async fn read(proxy: &Proxy, mut body: Incoming, holds: &mut Holds) -> Result<Bytes, Failure> {
    let (limit, pause) = (proxy.limits.body_bytes, proxy.limits.body_timeout);
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > limit {
        return Err(Failure::TooLarge(limit));
    }
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    let (mut due, mut paced) = (Instant::now() + pause, 0);
    loop {
        let frame = timeout_at(due, body.frame()).await.map_err(|_| Failure::BodyTimeout(pause))?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|error| Failure::body_lost(&error))?;
        let Ok(data) = frame.into_data() else { continue };
        let held = rest.len() + first.as_ref().map_or(0, Bytes::len);
        if held + data.len() > limit {
            return Err(Failure::TooLarge(limit));
        }
        hold(proxy, holds, data.len())?;
        paced += data.len();
        if paced >= PACE {
            (due, paced) = (Instant::now() + pause, 0);
        }
        match first.take() {
            None if rest.is_empty() => first = Some(data),
            None => rest.extend_from_slice(&data),
            Some(first) => {
                rest.reserve(announced.max(first.len() + data.len()));
                rest.extend_from_slice(&first);
                rest.extend_from_slice(&data);
            }
        }
    }
    // Most bodies come in one piece, and then nothing is copied.
    Ok(first.unwrap_or_else(|| rest.freeze()))
}

/// Takes room for so many more bytes.
fn hold(proxy: &Proxy, holds: &mut Holds, bytes: usize) -> Result<(), Failure> {
    let limit = proxy.limits.buffered_bytes;
    let fits = match &mut holds.body {
        Some(held) => held.grow(bytes),
        none => {
            *none = proxy.usage.take(Resource::BufferedBytes, bytes, limit);
            none.is_some()
        }
    };
    if fits { Ok(()) } else { Err(Failure::TooMuchBuffered(limit)) }
}

/// A request, the pool that serves it, and the body that its engine gets.
pub(super) struct Taken {
    pub(super) service: Arc<Service>,
    pub(super) request: Request,
    pub(super) sent: Bytes,
}

/// What of a request is not in its body.
pub(super) struct Head {
    pub(super) api: Api,
    pub(super) path: Box<str>,
    pub(super) said: Said,
    pub(super) headers: http::HeaderMap,
    /// Who sent it; none where there are no tenants.
    pub(super) tenant: Option<Arc<Tenant>>,
}

/// Parses a body and finds the pool that serves its model.
pub(super) fn take(proxy: &Proxy, head: Head, body: Bytes) -> Result<Taken, Failure> {
    let facts = api::facts::parse(head.api, &body).map_err(api::ApiError::from)?;
    let (service, model) = find(proxy, &facts.model, head.tenant.as_deref())?;
    let salt = head.tenant.as_ref().and_then(|tenant| tenant.salt(facts.cache_salt.as_deref()));
    let sent = rewrite(&body, &facts, &model, salt.as_deref())?;
    let facts = Facts { cache_salt: salt.or(facts.cache_salt), ..facts };
    if facts.internal {
        service.metrics.split.removed("body");
    }
    count_removed(&service, &head);
    let request = request(proxy, &service, head, facts, model, body);
    Ok(Taken { service, request, sent })
}

/// Counts what of a request's head steers engines from within; the engine does not get it.
fn count_removed(service: &Service, head: &Head) {
    if super::headers::has_internal(&head.headers) {
        service.metrics.split.removed("header");
    }
    if head.said.had_addresses {
        service.metrics.split.removed("request_id");
    }
}

/// The pool that serves a model, and the model's name there.
fn find(proxy: &Proxy, model: &str, tenant: Option<&Tenant>) -> Result<(Arc<Service>, Box<str>), Failure> {
    let allowed = |name: &str| tenant.is_none_or(|tenant| tenant.may_use(model, name));
    let served = proxy
        .pools
        .iter()
        .find_map(|service| service.lane.pool.model(model).map(|name| (Arc::clone(service), name.into())));
    // A pool that does not know yet what it serves takes what nobody else does: its engines will say.
    let unknown = || {
        let open = proxy.pools.iter().find(|service| model.is_empty() || !service.lane.pool.models_known());
        open.map(|service| (Arc::clone(service), Box::from(model)))
    };
    // What a tenant may not use does not exist for it.
    served.or_else(unknown).filter(|(_, name)| allowed(name)).ok_or_else(|| {
        let served = proxy.pools.iter().flat_map(|service| service.lane.pool.models());
        let served: Vec<_> =
            served.filter(|name| tenant.is_none_or(|tenant| tenant.may_use(name, name))).collect();
        Failure::UnknownModel { model: model.into(), served: served.join(", ") }
    })
}

/// The body for the engine: the client's, byte for byte, unless a field has to go or to change.
fn rewrite(body: &Bytes, facts: &Facts, model: &str, salt: Option<&str>) -> Result<Bytes, Failure> {
    let own = if facts.internal { api::splice::strip(body).map_err(splice_failed)? } else { body.clone() };
    let renamed = !facts.model.is_empty() && *facts.model != *model;
    let model = renamed.then(|| ("model", serde_json::Value::from(model).to_string()));
    let salt = salt.map(|salt| ("cache_salt", serde_json::Value::from(salt).to_string()));
    let fields: Vec<_> = [&model, &salt].into_iter().flatten().map(|(key, value)| (*key, &**value)).collect();
    if fields.is_empty() {
        return Ok(own);
    }
    api::splice::set(&own, &fields).map_err(splice_failed)
}

fn splice_failed(error: api::splice::SpliceError) -> Failure {
    Failure::Client(api::ApiError::new(http::StatusCode::BAD_REQUEST, "invalid_json", error.to_string()))
}

fn request(
    proxy: &Proxy,
    service: &Service,
    head: Head,
    facts: Facts,
    model: Box<str>,
    body: Bytes,
) -> Request {
    let Head { api, path, said, headers, tenant } = head;
    let now = proxy.clock.now();
    let session = said.session.or(facts.session);
    let session = match &tenant {
        Some(tenant) => session.map(|session| tenant.session(&session)),
        None => session,
    };
    let objective = said.objective.as_deref().and_then(|name| proxy.tenants.objective(name));
    let asked = said.priority.or(objective);
    let known_turns = session.as_deref().and_then(|session| service.lane.sessions.get(session, now));
    let known_turns = known_turns.map_or(0, |(_, turns)| turns).max(u32::from(facts.continues.is_some()));
    let turn = known_turns.max(facts.turn);
    let prompt_tokens = facts.prompt.as_ref().map_or(0, crate::types::Prompt::tokens);
    let prompt_tokens_exact = facts.prompt.as_ref().is_some_and(crate::types::Prompt::exact);
    let salt = facts.cache_salt.as_deref().unwrap_or_default();
    let seed = prefix::seed(&[model.as_bytes(), salt.as_bytes()]);
    Request {
        id: said.id,
        api,
        path,
        model,
        adapter: None,
        priority: tenant.as_ref().map_or(asked.unwrap_or(0), |tenant| tenant.priority(asked)),
        tenant: tenant.map(|tenant| tenant.config.name.clone()),
        flow: said.flow,
        session,
        continues: facts.continues,
        turn,
        prompt_tokens,
        prompt_tokens_exact,
        tokenizer: None,
        max_output_tokens: facts.max_output_tokens,
        streaming: facts.stream,
        ttft_target_ms: said.ttft_target_ms,
        tpot_target_ms: said.tpot_target_ms,
        ttl_ms: said.ttl_ms,
        arrived: now,
        headers,
        body,
        prefix: facts
            .prompt
            .map(|prompt| PrefixSource::new(prompt, seed, service.config.block_tokens).salted(salt)),
    }
}

/// A request of which only the path is known, and the model if its body names one; and the body that its engine gets.
pub(super) struct Bare {
    pub(super) service: Arc<Service>,
    pub(super) request: Request,
    pub(super) sent: Bytes,
}

/// Finds the pool that takes such a request: the one of its model, or the first. `body` is none where it was not read.
pub(super) fn bare(proxy: &Proxy, head: Head, body: Option<Bytes>) -> Result<Bare, Failure> {
    let body = body.unwrap_or_default();
    let own = own(&body)?;
    let asked = model_of(&own);
    let (service, model) = match find(proxy, &asked, head.tenant.as_deref()) {
        Ok(found) => found,
        // Who may not use every model is told so; to anybody else it may mean something else here.
        Err(failure) if head.tenant.is_some() && !asked.is_empty() => return Err(failure),
        Err(_) => {
            let first = proxy.pools.first().ok_or(Failure::Refused(Refusal::NoEndpoints))?;
            (Arc::clone(first), asked.clone())
        }
    };
    if own.len() != body.len() {
        service.metrics.split.removed("body");
    }
    count_removed(&service, &head);
    let sent = match &*model {
        same if *same == *asked => own,
        renamed => {
            let model = serde_json::Value::from(renamed).to_string();
            api::splice::set(&own, &[("model", &model)]).map_err(splice_failed)?
        }
    };
    let request = request(proxy, &service, head, Facts::default(), "".into(), Bytes::new());
    Ok(Bare { service, request, sent })
}

/// The body without what steers engines from inside. What is no object has no such members; what looks like one has to be
/// one, or it could not be told.
fn own(body: &Bytes) -> Result<Bytes, Failure> {
    let is_object = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    if is_object { api::splice::strip(body).map_err(splice_failed) } else { Ok(body.clone()) }
}

fn model_of(body: &Bytes) -> Box<str> {
    let named = api::splice::get(body, "model").ok().flatten();
    named.and_then(|named| serde_json::from_str(named).ok()).unwrap_or_default()
}
