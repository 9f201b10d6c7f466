//! In which order legs run, and how engines are introduced to each other.

use serde_json::Value;

use crate::types::Dialect;

/// In which order the legs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Decode is asked when prefill has answered.
    Serial,
    /// Both are asked at once; decode waits for prefill by itself.
    Together,
}

/// In which order the legs of a dialect run.
#[must_use]
pub fn order(dialect: Dialect) -> Order {
    match dialect {
        Dialect::Nixl | Dialect::Storage | Dialect::Trtllm | Dialect::Moriio => Order::Serial,
        Dialect::Mooncake | Dialect::Sglang | Dialect::Offloading => Order::Together,
    }
}

/// The port at which a prefill engine meets decode engines when none is configured.
///
/// Sources: SGLang's `--disaggregation-bootstrap-port` and vLLM's `VLLM_MOONCAKE_BOOTSTRAP_PORT` are 8998, the
/// `OffloadingConnector` of several hosts listens at 7777, MoRI-IO's hand-shake at 6301.
#[must_use]
pub fn bootstrap_port(dialect: Dialect) -> u16 {
    match dialect {
        Dialect::Offloading => 7_777,
        Dialect::Moriio => 6_301,
        _ => 8_998,
    }
}

/// What has to be asked of a prefill engine before its first leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Introduction {
    /// Nothing.
    None,
    /// Its id, at `/query` of its bootstrap port.
    EngineId,
}

impl Introduction {
    /// The engine's id in the answer to `/query`, which has an entry for each data-parallel rank; the first counts.
    #[must_use]
    pub fn engine_id(answer: &[u8]) -> Option<Box<str>> {
        let ranks: Value = serde_json::from_slice(answer).ok()?;
        let id = ranks.as_object()?.values().next()?.get("engine_id")?.as_str()?;
        (!id.is_empty()).then(|| id.into())
    }
}

/// What a dialect has to ask first.
#[must_use]
pub fn introduces(dialect: Dialect) -> Introduction {
    match dialect {
        Dialect::Mooncake => Introduction::EngineId,
        _ => Introduction::None,
    }
}

/// Whether a stream begins with an error in the place of an answer: engines send the head of a stream before they
/// know whether the cache arrives.
#[must_use]
pub fn is_error_event(first: &[u8]) -> bool {
    let line = first.trim_ascii_start();
    if line.starts_with(b"event: error") {
        return true;
    }
    let Some(data) = line.strip_prefix(b"data:") else { return false };
    let Some(inner) = data.trim_ascii_start().strip_prefix(b"{") else { return false };
    let inner = inner.trim_ascii_start();
    inner.starts_with(br#""error""#) || inner.starts_with(br#""object":"error""#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_says_its_id_for_each_rank() {
        let answer = br#"{"0":{"engine_id":"e-1","worker_addr":{}},"1":{"engine_id":"e-2"}}"#;
        assert_eq!(Introduction::engine_id(answer).as_deref(), Some("e-1"));
        for nonsense in
            ["", "[]", "{}", r#"{"0":{}}"#, r#"{"0":{"engine_id":""}}"#, r#"{"0":{"engine_id":7}}"#]
        {
            assert_eq!(Introduction::engine_id(nonsense.as_bytes()), None, "{nonsense}");
        }
    }

    #[test]
    fn errors_in_the_place_of_an_answer_are_seen() {
        for error in [
            "data: {\"error\": {\"message\": \"KV transfer failed\"}}\n\n",
            "data:{ \"error\":1}",
            "event: error\ndata: {}\n\n",
            "data: {\"object\":\"error\",\"message\":\"\"}",
        ] {
            assert!(is_error_event(error.as_bytes()), "{error}");
        }
        for answer in ["data: {\"id\":\"error\"}", "{\"error\":1}", "", "data: [DONE]", ": ping\n\n"] {
            assert!(!is_error_event(answer.as_bytes()), "{answer}");
        }
    }
}
