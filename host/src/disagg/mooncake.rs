//! vLLM's `MooncakeConnector`.
//!
//! The router makes up a transfer's id and tells both engines, which then meet at the prefill engine's bootstrap
//! server. Decode has to know that engine's id, which the same server says at `/query`.

use serde_json::json;

use super::nixl::PARAMS;
use super::{Ask, DialectError, Leg, Pair, one_token};
use crate::types::host_port;

pub(super) fn prefill(ask: Ask<'_>) -> Result<Leg, DialectError> {
    let params =
        json!({"do_remote_decode": true, "do_remote_prefill": false, "transfer_id": transfer_id(ask.pair)});
    one_token::body(ask, &[(PARAMS, &params.to_string())]).map(Leg::of)
}

pub(super) fn decode(ask: Ask<'_>) -> Result<Leg, DialectError> {
    let Pair { prefill_host, prefill_port, engine_id, .. } = ask.pair;
    if engine_id.is_empty() {
        return Err(DialectError::NothingHandedOver("engine_id"));
    }
    let params = json!({
        "do_remote_decode": false, "do_remote_prefill": true, "transfer_id": transfer_id(ask.pair),
        "remote_engine_id": engine_id, "remote_bootstrap_addr": format!("http://{}", host_port(prefill_host, *prefill_port)),
    });
    one_token::with(ask, &[(PARAMS, &params.to_string())]).map(Leg::of)
}

fn transfer_id(pair: &Pair) -> String {
    format!("xfer-{:016x}", pair.room)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::disagg::{DialectError, Pair, decode, fixtures, prefill};
    use crate::types::{Api, Dialect};

    #[test]
    fn both_legs_carry_the_same_id() {
        let body = fixtures::body(r#"{"messages":[],"max_tokens":9,"big":12345678901234567890}"#);
        let pair = fixtures::pair();
        let ask = fixtures::ask(Api::Chat, &body, &pair);
        let leg: Value = serde_json::from_slice(&prefill(Dialect::Mooncake, ask).unwrap().body).unwrap();
        assert_eq!(
            leg["kv_transfer_params"],
            json!({"do_remote_decode":true,"do_remote_prefill":false,"transfer_id":"xfer-000000000000002a"})
        );
        assert_eq!((&leg["max_tokens"], &leg["stream"]), (&json!(1), &json!(false)));
        let leg = decode(Dialect::Mooncake, ask, b"").unwrap().body;
        let text = std::str::from_utf8(&leg).unwrap();
        assert!(text.ends_with(r#""messages":[],"max_tokens":9,"big":12345678901234567890}"#), "{text}");
        let leg: Value = serde_json::from_slice(&leg).unwrap();
        assert_eq!(
            leg["kv_transfer_params"],
            json!({"do_remote_decode":false,"do_remote_prefill":true,"transfer_id":"xfer-000000000000002a",
                "remote_engine_id":"engine-1","remote_bootstrap_addr":"http://10.0.0.1:8998"})
        );
    }

    #[test]
    fn without_the_engines_id_nothing_can_be_fetched() {
        let body = fixtures::body("{}");
        let pair = Pair { engine_id: "".into(), ..fixtures::pair() };
        let error = decode(Dialect::Mooncake, fixtures::ask(Api::Chat, &body, &pair), b"").unwrap_err();
        assert_eq!(error, DialectError::NothingHandedOver("engine_id"));
    }
}
