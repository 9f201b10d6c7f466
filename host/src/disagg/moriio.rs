//! vLLM's `MoRIIOConnector` in its reading mode.
//!
//! As with NIXL decode fetches what prefill's answer names. The engines take each other's addresses from the request
//! id, which is why a client's own id must never carry any, and the ports of the hand-shake from the parameters.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Ask, DialectError, Leg, Pair, nixl, one_token};
use crate::api::splice;

/// Where engines are notified. Source: the connector's default.
const NOTIFY_PORT: u16 = 61_005;

pub(super) fn prefill(ask: Ask<'_>) -> Result<Leg, DialectError> {
    let Pair { decode_host, decode_port, .. } = ask.pair;
    let params = json!({
        "do_remote_decode": true, "do_remote_prefill": false, "transfer_id": transfer_id(ask.pair),
        "remote_engine_id": null, "remote_block_ids": null, "remote_host": decode_host, "remote_port": null,
        "remote_handshake_port": decode_port, "remote_notify_port": NOTIFY_PORT,
    });
    let body = one_token::body(ask, &[(nixl::PARAMS, &params.to_string())])?;
    Ok(Leg { body, request_id: Some(request_id(ask.pair)) })
}

pub(super) fn decode(ask: Ask<'_>, answer: &[u8]) -> Result<Leg, DialectError> {
    let Pair { prefill_host, prefill_port, .. } = ask.pair;
    let host = Value::from(&**prefill_host).to_string();
    let id = Value::from(transfer_id(ask.pair)).to_string();
    let (handshake, notify) = (prefill_port.to_string(), NOTIFY_PORT.to_string());
    let own = [
        ("do_remote_decode", "false"),
        ("do_remote_prefill", "true"),
        ("transfer_id", id.as_str()),
        ("remote_host", host.as_str()),
        ("remote_handshake_port", handshake.as_str()),
        ("remote_notify_port", notify.as_str()),
    ];
    let handed_over = Bytes::copy_from_slice(nixl::handed_over(answer)?.as_bytes());
    let params = splice::set(&handed_over, &own).map_err(DialectError::Answer)?;
    let params = std::str::from_utf8(&params).unwrap_or("{}");
    let body = one_token::with(ask, &[(nixl::PARAMS, params)])?;
    Ok(Leg { body, request_id: Some(request_id(ask.pair)) })
}

fn transfer_id(pair: &Pair) -> String {
    format!("tx-{:016x}", pair.room)
}

/// The id under which both legs go.
fn request_id(pair: &Pair) -> String {
    let address = |host: &str, port: u16| format!("host:{host},handshake:{port},notify:{NOTIFY_PORT}");
    format!(
        "___prefill_addr_{}___decode_addr_{}_{:032x}",
        address(&pair.prefill_host, pair.prefill_port),
        address(&pair.decode_host, pair.decode_port),
        pair.room
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::disagg::{decode, fixtures, prefill};
    use crate::types::{Api, Dialect};

    #[test]
    fn both_legs_go_under_an_id_with_both_addresses() {
        let body = fixtures::body(r#"{"prompt":"x"}"#);
        let pair = fixtures::pair();
        let ask = fixtures::ask(Api::Completions, &body, &pair);
        let leg = prefill(Dialect::Moriio, ask).unwrap();
        let id = "___prefill_addr_host:10.0.0.1,handshake:8998,notify:61005___decode_addr_host:10.0.0.2,handshake:8999,\
                  notify:61005_0000000000000000000000000000002a";
        assert_eq!(leg.request_id.as_deref(), Some(id));
        let sent: Value = serde_json::from_slice(&leg.body).unwrap();
        assert_eq!(sent["kv_transfer_params"]["remote_host"], "10.0.0.2");
        assert_eq!(sent["kv_transfer_params"]["transfer_id"], "tx-000000000000002a");

        let answer =
            br#"{"kv_transfer_params":{"remote_block_ids":[1,2],"remote_engine_id":"e","remote_dp_rank":0}}"#;
        let leg = decode(Dialect::Moriio, ask, answer).unwrap();
        assert_eq!(leg.request_id.as_deref(), Some(id));
        let sent: Value = serde_json::from_slice(&leg.body).unwrap();
        assert_eq!(
            sent["kv_transfer_params"],
            json!({"do_remote_decode":false,"do_remote_prefill":true,"transfer_id":"tx-000000000000002a",
                "remote_host":"10.0.0.1","remote_handshake_port":8998,"remote_notify_port":61005,
                "remote_block_ids":[1,2],"remote_engine_id":"e","remote_dp_rank":0})
        );
    }
}
