//! From a request's bytes to what policies see of it.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use super::headers::Said;
use super::outcome::Failure;
use super::{Proxy, Service};
use crate::api::{self, Facts};
use crate::policy::{PrefixSource, Request};
use crate::prefix;
use crate::types::Api;

/// Reads a whole body, up to `limit` bytes and for `timeout` between two pieces of it.
pub(super) async fn read(mut body: Incoming, limit: usize, timeout: Duration) -> Result<Bytes, Failure> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > limit {
        return Err(Failure::TooLarge(limit));
    }
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    loop {
        let frame =
            tokio::time::timeout(timeout, body.frame()).await.map_err(|_| Failure::BodyTimeout(timeout))?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|error| Failure::body_lost(&error))?;
        let Ok(data) = frame.into_data() else { continue };
        let held = rest.len() + first.as_ref().map_or(0, Bytes::len);
        if held + data.len() > limit {
            return Err(Failure::TooLarge(limit));
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
}

/// Parses a body and finds the pool that serves its model.
pub(super) fn take(proxy: &Proxy, head: Head, body: Bytes) -> Result<Taken, Failure> {
    let facts = api::facts::parse(head.api, &body).map_err(api::ApiError::from)?;
    let (service, model) = find(proxy, &facts.model)?;
    let sent = rewrite(&body, &facts, &model)?;
    let request = request(proxy, &service, head, facts, model, body);
    Ok(Taken { service, request, sent })
}

/// The pool that serves a model, and the model's name there.
fn find(proxy: &Proxy, model: &str) -> Result<(Arc<Service>, Box<str>), Failure> {
    let served = proxy
        .pools
        .iter()
        .find_map(|service| service.lane.pool.model(model).map(|name| (Arc::clone(service), name.into())));
    // A pool that does not know yet what it serves takes what nobody else does: its engines will say.
    let unknown = || {
        let open = proxy.pools.iter().find(|service| model.is_empty() || !service.lane.pool.models_known());
        open.map(|service| (Arc::clone(service), Box::from(model)))
    };
    served.or_else(unknown).ok_or_else(|| {
        let served: Vec<_> = proxy.pools.iter().flat_map(|service| service.lane.pool.models()).collect();
        Failure::UnknownModel { model: model.into(), served: served.join(", ") }
    })
}

/// The body for the engine: the client's, byte for byte, unless a field has to go or to change.
fn rewrite(body: &Bytes, facts: &Facts, model: &str) -> Result<Bytes, Failure> {
    let dropped: &[&str] = if facts.internal { api::splice::INTERNAL } else { &[] };
    if facts.model.is_empty() || *facts.model == *model {
        if dropped.is_empty() {
            return Ok(body.clone());
        }
        return api::splice::remove(body, dropped).map_err(splice_failed);
    }
    let model = serde_json::Value::from(model).to_string();
    api::splice::edit(body, &[("model", &model)], dropped).map_err(splice_failed)
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
    let Head { api, path, said, headers } = head;
    let now = proxy.clock.now();
    let session = said.session.or(facts.session);
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
        tenant: None,
        flow: said.flow,
        priority: said.priority,
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

/// A request about which only its path is known; the first pool takes it.
pub(super) fn bare(proxy: &Proxy, head: Head) -> Option<(Arc<Service>, Arc<Request>)> {
    let service = Arc::clone(proxy.pools.first()?);
    let facts = Facts::default();
    let request = request(proxy, &service, head, facts, "".into(), Bytes::new());
    Some((service, Arc::new(request)))
}
