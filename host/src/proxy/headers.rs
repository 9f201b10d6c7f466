//! Headers: what is understood of a client's, what goes on to an engine, what comes back.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue};

use crate::route::Trace;

/// The request id, in and out.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The endpoint that answered.
pub(super) const ENDPOINT: HeaderName = HeaderName::from_static("x-sluicegate-endpoint");
/// Why a request was refused, in llm-d's values.
pub(super) const DROPPED_REASON: HeaderName = HeaderName::from_static("x-llm-d-request-dropped-reason");
/// Asks that the answer carries its decision.
const EXPLAIN: HeaderName = HeaderName::from_static("x-sluicegate-explain");
/// The decision, as one line of JSON.
const DECISION: HeaderName = HeaderName::from_static("x-sluicegate-decision");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The agents' own names for a session, the first found counts.
const SESSION: [&str; 5] =
    ["x-session-id", "x-claude-code-session-id", "x-session-affinity", "session-id", "session_id"];
const FLOW: [&str; 2] = ["x-llm-d-inference-fairness-id", "x-gateway-inference-fairness-id"];
const TTFT: [&str; 2] = ["x-llm-d-slo-ttft-ms", "x-slo-ttft-ms"];
const TPOT: [&str; 2] = ["x-llm-d-slo-tpot-ms", "x-slo-tpot-ms"];
const PRIORITY: [&str; 1] = ["x-sluicegate-priority"];
const TTL: [&str; 1] = ["x-sluicegate-ttl-ms"];

/// Headers that steer engines and their sidecars from within: never taken from a client.
const INTERNAL: [&str; 8] = [
    "x-prefiller-host-port",
    "x-encoder-hosts-ports",
    "x-kv-cache-source-host-port",
    "x-data-parallel-host-port",
    "x-data-parallel-rank",
    "x-gateway-destination-endpoint",
    "x-gateway-destination-endpoint-subset",
    "epp-profile",
];

/// Headers of one connection (RFC 9110, 7.6.1), and those that each side writes for itself.
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Longest text that is taken from a header as a name.
const MAX_NAME: usize = 256;

/// What a client says about its request beside the body.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Said {
    pub(super) id: Arc<str>,
    pub(super) session: Option<Box<str>>,
    pub(super) flow: Box<str>,
    pub(super) priority: i32,
    pub(super) ttl_ms: Option<u32>,
    pub(super) ttft_target_ms: Option<f32>,
    pub(super) tpot_target_ms: Option<f32>,
}

/// Reads the headers that are understood; values that make no sense are as good as absent.
pub(super) fn said(headers: &HeaderMap) -> Said {
    Said {
        id: text(headers, &["x-request-id"]).filter(|id| is_sane_id(id)).map_or_else(new_id, Arc::from),
        session: text(headers, &SESSION).map(Box::from),
        flow: text(headers, &FLOW).unwrap_or_default().into(),
        priority: text(headers, &PRIORITY).and_then(|value| value.parse().ok()).unwrap_or(0),
        ttl_ms: text(headers, &TTL).and_then(|value| value.parse().ok()),
        ttft_target_ms: target(headers, &TTFT),
        tpot_target_ms: target(headers, &TPOT),
    }
}

fn target(headers: &HeaderMap, names: &[&str]) -> Option<f32> {
    text(headers, names)?.parse::<f32>().ok().filter(|ms| ms.is_finite() && *ms > 0.0)
}

fn text<'a>(headers: &'a HeaderMap, names: &[&str]) -> Option<&'a str> {
    let value = names.iter().find_map(|name| headers.get(*name))?.to_str().ok()?.trim();
    (!value.is_empty() && value.len() <= MAX_NAME).then_some(value)
}

/// Some engines read addresses out of request ids: such an id is not a client's to give.
fn is_sane_id(id: &str) -> bool {
    id.len() <= 128 && !id.contains("_addr_") && id.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A request id of our own: 128 bits of the process's random seed and a counter, hex.
pub(super) fn new_id() -> Arc<str> {
    use std::hash::{BuildHasher, RandomState};
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let count = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{:016x}{:016x}", SEED.hash_one(count), SEED.hash_one((count, "low"))).into()
}

/// The headers of a request to an engine.
pub(super) fn to_engine(client: &HeaderMap, id: &str, authority: &str, peer: IpAddr) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(client.len() + 3);
    for (name, value) in client {
        if passes(client, name) && *name != CONTENT_LENGTH && !is_ours(name) {
            headers.append(name.clone(), value.clone());
        }
    }
    if let Ok(host) = HeaderValue::from_str(authority) {
        headers.insert(HOST, host);
    }
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
    let chain = match client.get(FORWARDED_FOR).and_then(|value| value.to_str().ok()) {
        Some(before) => format!("{before}, {peer}"),
        None => peer.to_string(),
    };
    if let Ok(chain) = HeaderValue::from_str(&chain) {
        headers.insert(FORWARDED_FOR, chain);
    }
    headers
}

fn is_ours(name: &HeaderName) -> bool {
    let name = name.as_str();
    name.starts_with("x-sluicegate-") || INTERNAL.contains(&name) || name == "expect"
}

/// The headers of an answer to a client.
pub(super) fn to_client(engine: &HeaderMap, id: &str, endpoint: &str) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(engine.len() + 2);
    for (name, value) in engine {
        if passes(engine, name) && *name != REQUEST_ID {
            headers.append(name.clone(), value.clone());
        }
    }
    mark(&mut headers, id);
    if let Ok(endpoint) = HeaderValue::from_str(endpoint) {
        headers.insert(ENDPOINT, endpoint);
    }
    headers
}

/// Puts the request id on an answer.
pub(super) fn mark(headers: &mut HeaderMap, id: &str) {
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
}

/// Puts the decision on an answer whose request asks for it.
pub(super) fn explain(client: &HeaderMap, answer: &mut HeaderMap, trace: &Trace) {
    if client.contains_key(EXPLAIN)
        && let Ok(decision) = HeaderValue::try_from(trace.brief())
    {
        answer.insert(DECISION, decision);
    }
}

/// Whether a header goes beyond the connection that it came on.
fn passes(all: &HeaderMap, name: &HeaderName) -> bool {
    if HOP_BY_HOP.contains(&name.as_str()) {
        return false;
    }
    let named = all.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    !named.flat_map(|value| value.split(',')).any(|listed| listed.trim().eq_ignore_ascii_case(name.as_str()))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn what_steers_engines_is_dropped() {
        let client = headers(&[
            ("x-prefiller-host-port", "10.0.0.9:1"),
            ("x-sluicegate-priority", "3"),
            ("connection", "x-private"),
            ("x-private", "1"),
            ("authorization", "Bearer k"),
            ("x-forwarded-for", "192.0.2.1"),
        ]);
        let sent = to_engine(&client, "id", "engine:1", IpAddr::V4(Ipv4Addr::LOCALHOST));
        let mut names: Vec<_> = sent.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["authorization", "host", "x-forwarded-for", "x-request-id"]);
        assert_eq!(sent["x-forwarded-for"], "192.0.2.1, 127.0.0.1");
    }

    #[test]
    fn ids_that_carry_addresses_are_replaced() {
        let said_by = |id| said(&headers(&[("x-request-id", id)])).id;
        assert_eq!(&*said_by("abc"), "abc");
        assert_ne!(
            &*said_by("___prefill_addr_10.0.0.1:1___decode_addr_10.0.0.2:1_x"),
            "___prefill_addr_10.0.0.1:1___decode_addr_10.0.0.2:1_x"
        );
        assert_ne!(said(&HeaderMap::new()).id, said(&HeaderMap::new()).id);
    }

    #[test]
    fn senseless_values_are_absent() {
        let said = said(&headers(&[("x-sluicegate-priority", "high"), ("x-llm-d-slo-ttft-ms", "-1")]));
        assert_eq!((said.priority, said.ttft_target_ms), (0, None));
    }
}
