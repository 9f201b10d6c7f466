//! `GET /endpoints`, `POST /endpoints/ID/drain`, `POST /endpoints/ID/undrain`

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::answer::{Answer, error, number, ok};
use super::health::pool_lacks;
use super::kv_events;
use super::router::Call;
use super::{Admin, AdminPool};
use crate::clock::{MILLI, Nanos};
use crate::pool::{Endpoint, Passage, Status, Why};
use crate::route::Lane;

/// All endpoints, and the queues in front of their pools.
pub(super) fn endpoints(admin: &Admin, _: &Call) -> Answer {
    let now = admin.clock.now();
    let mut endpoints = Vec::new();
    for AdminPool { lane, .. } in &admin.lanes {
        endpoints.extend(lane.pool.endpoints().iter().map(|endpoint| shown(lane, endpoint, now)));
    }
    let pools: Vec<_> = admin.lanes.iter().map(|pool| pool_shown(pool, now)).collect();
    ok(&json!({"endpoints": endpoints, "pools": pools}))
}

/// Nothing new goes there; what runs there goes on.
pub(super) fn drain(admin: &Admin, call: &Call) -> Answer {
    set_draining(admin, &call.name, true)
}

/// Requests may go there again.
pub(super) fn undrain(admin: &Admin, call: &Call) -> Answer {
    set_draining(admin, &call.name, false)
}

fn set_draining(admin: &Admin, name: &str, draining: bool) -> Answer {
    let mut changed = Vec::new();
    for AdminPool { lane, .. } in &admin.lanes {
        if let Some(endpoint) = lane.pool.endpoint(name) {
            endpoint.drain(draining);
            tracing::info!(endpoint = name, pool = &*lane.pool.name, draining, "by the admin API");
            changed.push(shown(lane, &endpoint, admin.clock.now()));
        }
    }
    if changed.is_empty() {
        return error(StatusCode::NOT_FOUND, format!("no endpoint is named `{name}`; names are HOST:PORT"));
    }
    ok(&json!({"endpoints": changed}))
}

fn shown(lane: &Lane, endpoint: &Endpoint, now: Nanos) -> Value {
    let pool = &lane.pool;
    let report = endpoint.report();
    let (status, reason, since) = match endpoint.health.status() {
        Status::Unknown => ("unknown", None, None),
        Status::Up => ("up", None, None),
        Status::Down { since, why } => {
            ("down", Some(why_down(why, &endpoint.health.last_error())), Some(since))
        }
    };
    let labels: Map<_, _> =
        endpoint.labels.iter().map(|(key, value)| (key.to_string(), Value::from(&**value))).collect();
    let (load, engine, latency) = (&endpoint.load, &endpoint.engine, &endpoint.latency);
    json!({
        "id": endpoint.name,
        "pool": pool.name,
        "url": endpoint.url,
        "status": status,
        "reason": reason,
        "down_for_ms": since.map(|since| now.saturating_sub(since) / MILLI),
        "last_error": endpoint.health.last_error(),
        "success_ratio": number(endpoint.health.success_ratio()),
        "engine": report.engine.or(pool.engine),
        "role": endpoint.role,
        "weight": number(endpoint.weight),
        "labels": labels,
        "models": &*report.models,
        "lora_active": report.lora_active,
        "draining": endpoint.draining(),
        "circuit": circuit(lane, endpoint, now),
        "load": {
            "requests": load.requests(),
            "prefill_tokens": load.prefill_tokens(),
            "decode_tokens": load.decode_tokens(),
            "limit": number(endpoint.limit.requests()),
        },
        "reported": {
            "waiting": number(engine.waiting()),
            "running": number(engine.running()),
            "kv_usage": number(engine.kv_usage()),
            "preemptions": number(engine.preemptions()),
            "age_ms": number(engine.age_ms(now)),
        },
        "kv_events": kv_events::shown(&lane.exact, endpoint, now),
        "latency": {
            "ttft_ms": number(latency.ttft_ms()),
            "tpot_ms": number(latency.tpot_ms()),
            "prefill_tokens_per_s": number(latency.prefill_tokens_per_s()),
        },
    })
}

fn circuit(lane: &Lane, endpoint: &Endpoint, now: Nanos) -> Value {
    let circuit = &endpoint.circuit;
    let (state, ejected_for) = match circuit.passage(now) {
        Passage::Closed => ("closed", 0),
        Passage::Open(until) => ("open", until.saturating_sub(now)),
        Passage::HalfOpen => ("half_open", 0),
    };
    json!({
        "state": state,
        "ejected_for_ms": ejected_for / MILLI,
        "ejections": circuit.ejections(),
        "busy_for_ms": circuit.paused_for(now) / MILLI,
        "share": circuit.share(now, lane.pool.ejection.slow_start),
    })
}

fn why_down(why: Why, error: &str) -> String {
    let why = match why {
        Why::Refused => "its port refuses connections",
        Why::Probes => "it does not answer when asked for its metrics",
        Why::Connect => "a request could not be sent to it",
    };
    if error.is_empty() { why.into() } else { format!("{why}: {error}") }
}

fn pool_shown(admin: &AdminPool, now: Nanos) -> Value {
    let AdminPool { lane, gate } = admin;
    let queue = gate.status();
    let waiting = queue.waiting.iter().map(|(band, requests)| json!({"band": band, "requests": requests}));
    json!({
        "name": lane.pool.name,
        "chain": lane.pool.chain,
        "models": lane.pool.models(),
        "lacks": pool_lacks(admin, now),
        "queue": {
            "waiting": waiting.collect::<Vec<_>>(),
            "bytes": queue.bytes,
            "tokens": queue.tokens,
            "flows": queue.waiting_flows,
            "per_second": queue.per_second,
            "jain_index": queue.jain,
            "sessions": queue.sessions,
            "session_tokens": queue.session_tokens,
            "saturation": number(queue.saturation),
            "running": queue.running,
        },
        "prefix_index": {
            "bytes": lane.index.bytes(),
            "blocks": lane.index.blocks(),
            "evictions": lane.index.evictions(),
        },
    })
}
