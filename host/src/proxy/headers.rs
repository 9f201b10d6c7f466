//! Headers: what is understood of a client's, what goes on to an engine, what comes back.

use std::sync::Arc;

use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, FORWARDED, HOST, HeaderMap, HeaderName,
    HeaderValue, TE,
};

use super::arrival::Origin;
use crate::clock::{MILLI, Nanos};
use crate::config::Forwarded;
use crate::flow::Standing;
use crate::net::Peer;
use crate::pool::Endpoint;
use crate::route::Trace;
use crate::types::CREDENTIALS;

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
/// The place in the queue, when that will be over, and how long it took.
const QUEUE_POSITION: HeaderName = HeaderName::from_static("x-sluicegate-queue-position");
const QUEUE_ESTIMATE: HeaderName = HeaderName::from_static("x-sluicegate-queue-estimate-ms");
const QUEUED: HeaderName = HeaderName::from_static("x-sluicegate-queued-ms");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The agents' own names for a session, the first found counts.
const SESSION: [&str; 5] =
    ["x-session-id", "x-claude-code-session-id", "x-session-affinity", "session-id", "session_id"];
const FLOW: [&str; 2] = ["x-llm-d-inference-fairness-id", "x-gateway-inference-fairness-id"];
const TTFT: [&str; 2] = ["x-llm-d-slo-ttft-ms", "x-slo-ttft-ms"];
const TPOT: [&str; 2] = ["x-llm-d-slo-tpot-ms", "x-slo-tpot-ms"];
const PRIORITY: [&str; 1] = ["x-sluicegate-priority"];
const OBJECTIVE: [&str; 2] = ["x-llm-d-inference-objective", "x-gateway-inference-objective"];
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
const HOP_BY_HOP: [&str; 7] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// The greatest priority, and the least with a minus: what is beyond counts as this.
const MAX_PRIORITY: i64 = 1_000;

/// Longest text that is taken from a header as a name.
const MAX_NAME: usize = 256;

/// What a client says about its request beside the body.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Said {
    pub(super) id: Arc<str>,
    /// Whether the id was replaced because engines would have read addresses out of it.
    pub(super) had_addresses: bool,
    pub(super) session: Option<Box<str>>,
    pub(super) flow: Box<str>,
    /// What it asks for itself, in the place of its objective's.
    pub(super) priority: Option<i32>,
    pub(super) objective: Option<Box<str>>,
    pub(super) ttl_ms: Option<u32>,
    pub(super) ttft_target_ms: Option<f32>,
    pub(super) tpot_target_ms: Option<f32>,
}

/// Reads the headers that are understood; values that make no sense are as good as absent.
pub(super) fn said(headers: &HeaderMap) -> Said {
    Said {
        id: text(headers, &["x-request-id"]).filter(|id| is_sane_id(id)).map_or_else(new_id, Arc::from),
        had_addresses: headers.get(REQUEST_ID).is_some_and(has_addresses),
        session: text(headers, &SESSION).map(Box::from),
        flow: text(headers, &FLOW).unwrap_or_default().into(),
        priority: text(headers, &PRIORITY).and_then(priority),
        objective: text(headers, &OBJECTIVE).map(Box::from),
        ttl_ms: text(headers, &TTL).and_then(|value| value.parse().ok()),
        ttft_target_ms: target(headers, &TTFT),
        tpot_target_ms: target(headers, &TPOT),
    }
}

fn priority(text: &str) -> Option<i32> {
    let value: i64 = text.parse().ok()?;
    i32::try_from(value.clamp(-MAX_PRIORITY, MAX_PRIORITY)).ok()
}

fn target(headers: &HeaderMap, names: &[&str]) -> Option<f32> {
    text(headers, names)?.parse::<f32>().ok().filter(|ms| ms.is_finite() && *ms > 0.0)
}

fn text<'a>(headers: &'a HeaderMap, names: &[&str]) -> Option<&'a str> {
    let value = names.iter().find_map(|name| headers.get(*name))?.to_str().ok()?.trim();
    (!value.is_empty() && value.len() <= MAX_NAME).then_some(value)
}

/// Whether an answer is a stream of events.
pub(super) fn is_stream(answer: &HeaderMap) -> bool {
    let kind = answer.get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().to_ascii_lowercase().starts_with(b"text/event-stream"))
}

/// Whether any header steers engines from within.
pub(super) fn has_internal(headers: &HeaderMap) -> bool {
    INTERNAL.iter().any(|name| headers.contains_key(*name))
}

/// Some engines read addresses out of request ids: such an id is not a client's to give.
fn has_addresses(id: &HeaderValue) -> bool {
    id.as_bytes().windows(b"_addr_".len()).any(|part| part == b"_addr_")
}

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
pub(super) fn to_engine(client: &HeaderMap, id: &str, endpoint: &Endpoint, origin: Origin) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(client.len() + 5);
    for (name, value) in client {
        let replaced = endpoint.authorization.is_some() && CREDENTIALS.contains(name);
        if passes(client, name) && *name != CONTENT_LENGTH && !is_ours(name) && !replaced {
            headers.append(name.clone(), value.clone());
        }
    }
    if let Some(key) = &endpoint.authorization {
        headers.insert(AUTHORIZATION, key.clone());
    }
    if let Ok(host) = HeaderValue::from_str(&endpoint.url.authority()) {
        headers.insert(HOST, host);
    }
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
    if takes_trailers(client) {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    join_cookies(&mut headers);
    forward(&mut headers, client.get(HOST), origin);
    headers
}

/// Says whom the request comes from and how. Of several proxies in a row each adds itself; scheme and host are those
/// that the first one saw.
fn forward(headers: &mut HeaderMap, host: Option<&HeaderValue>, origin: Origin) {
    if origin.forwarded != Forwarded::Append {
        for name in [FORWARDED_FOR, FORWARDED_PROTO, FORWARDED_HOST, FORWARDED] {
            headers.remove(name);
        }
    }
    if origin.forwarded == Forwarded::Off {
        return;
    }
    add(headers, &FORWARDED_FOR, origin.peer.to_string());
    if headers.contains_key(FORWARDED) {
        let node = match origin.peer {
            Peer::At(address) if address.is_ipv6() => format!("\"[{address}]\""),
            Peer::At(address) => address.to_string(),
            Peer::Local => "_unix".into(),
        };
        add(headers, &FORWARDED, format!("for={node};proto={}", origin.scheme()));
    }
    headers.entry(FORWARDED_PROTO).or_insert_with(|| HeaderValue::from_static(origin.scheme()));
    if let Some(host) = host {
        headers.entry(FORWARDED_HOST).or_insert_with(|| host.clone());
    }
}

/// Adds an item to the end of a list, which may be spread over several headers of the name.
fn add(headers: &mut HeaderMap, name: &HeaderName, mut item: String) {
    if headers.contains_key(name) {
        let before = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        item = before.chain([&*item]).collect::<Vec<_>>().join(", ");
    }
    if let Ok(list) = HeaderValue::try_from(item) {
        headers.insert(name, list);
    }
}

/// Whether trailers are wanted.
fn takes_trailers(headers: &HeaderMap) -> bool {
    let wanted = headers.get_all(TE).iter().filter_map(|value| value.to_str().ok());
    wanted.flat_map(|value| value.split(',')).any(|item| {
        item.split(';').next().is_some_and(|coding| coding.trim().eq_ignore_ascii_case("trailers"))
    })
}

/// HTTP/2 sends cookies one by one, HTTP/1.1 together (RFC 9113, 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let cookies: Vec<_> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if cookies.len() < 2 {
        return;
    }
    if let Ok(all) = HeaderValue::from_bytes(&cookies.join(&b"; "[..])) {
        headers.insert(COOKIE, all);
    }
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

/// Puts on an answer where the request stood in the queue.
pub(super) fn queued(headers: &mut HeaderMap, standing: Standing, took: Option<Nanos>) {
    headers.insert(QUEUE_POSITION, HeaderValue::from(standing.position));
    if let Some(estimate) = standing.estimate {
        headers.insert(
            QUEUE_ESTIMATE,
            HeaderValue::from(u64::try_from(estimate.as_millis()).unwrap_or(u64::MAX)),
        );
    }
    if let Some(took) = took {
        headers.insert(QUEUED, HeaderValue::from(took / MILLI));
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
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::pool::{EndpointSpec, Url};

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
            ("x-api-key", "k"),
            ("x-forwarded-for", "192.0.2.1"),
        ]);
        let mut spec = EndpointSpec::new(Url::parse("engine:1").unwrap());
        let sent = to_engine(&client, "id", &Endpoint::new(spec.clone()), from(Forwarded::Append));
        let mut names: Vec<_> = sent.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        let expected =
            ["authorization", "host", "x-api-key", "x-forwarded-for", "x-forwarded-proto", "x-request-id"];
        assert_eq!(names, expected);
        assert_eq!(sent["x-forwarded-for"], "192.0.2.1, 127.0.0.1");
        assert_eq!(sent["authorization"], "Bearer k");
        spec.authorization = Some(HeaderValue::from_static("Bearer ours"));
        let sent = to_engine(&client, "id", &Endpoint::new(spec), from(Forwarded::Append));
        assert_eq!(sent["authorization"], "Bearer ours");
        assert!(!sent.contains_key("x-api-key"));
    }

    fn engine() -> Endpoint {
        Endpoint::new(EndpointSpec::new(Url::parse("engine:1").unwrap()))
    }

    fn from(forwarded: Forwarded) -> Origin {
        Origin { peer: Peer::At(IpAddr::V4(Ipv4Addr::LOCALHOST)), tls: true, forwarded }
    }

    #[test]
    fn engines_are_told_of_clients_as_it_is_configured() {
        let client = headers(&[
            ("host", "models.example"),
            ("x-forwarded-for", "192.0.2.1"),
            ("x-forwarded-for", "192.0.2.2"),
            ("x-forwarded-proto", "http"),
            ("forwarded", "for=192.0.2.1"),
        ]);
        let sent = to_engine(&client, "id", &engine(), from(Forwarded::Append));
        for (name, value) in [
            ("host", "engine:1"),
            ("x-forwarded-for", "192.0.2.1, 192.0.2.2, 127.0.0.1"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-host", "models.example"),
            ("forwarded", "for=192.0.2.1, for=127.0.0.1;proto=https"),
        ] {
            assert_eq!(sent.get_all(name).iter().collect::<Vec<_>>(), [value], "{name}");
        }
        let sent = to_engine(&client, "id", &engine(), from(Forwarded::Replace));
        assert_eq!(sent["x-forwarded-for"], "127.0.0.1");
        assert_eq!(sent["x-forwarded-proto"], "https");
        assert!(!sent.contains_key("forwarded"));
        let sent = to_engine(&client, "id", &engine(), from(Forwarded::Off));
        assert!(!sent.keys().any(|name| name.as_str().contains("forwarded")), "{sent:?}");
    }

    #[test]
    fn cookies_and_the_wish_for_trailers_go_on_in_one_piece() {
        let client = headers(&[("cookie", "a=1"), ("cookie", "b=2"), ("te", "gzip, trailers;q=0.5")]);
        let sent = to_engine(&client, "id", &engine(), from(Forwarded::Off));
        assert_eq!(sent["cookie"], "a=1; b=2");
        assert_eq!(sent["te"], "trailers");
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
        assert_eq!((said.priority, said.ttft_target_ms), (None, None));
        for (text, priority) in
            [("7", Some(7)), ("99999999999", Some(1_000)), ("-2147483648", Some(-1_000)), ("1e9", None)]
        {
            assert_eq!(super::said(&headers(&[("x-sluicegate-priority", text)])).priority, priority);
        }
    }
}
