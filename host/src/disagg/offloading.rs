//! vLLM's `OffloadingConnector` between hosts.
//!
//! Each leg is told of the other by the member that names the other's part, under an id that the router makes up.

use serde_json::json;

use super::nixl::PARAMS;
use super::{Ask, DialectError, Leg, Pair, one_token};

pub(super) fn prefill(ask: Ask<'_>) -> Result<Leg, DialectError> {
    let params = json!({"remote_decoder": {"kv_request_id": id(ask.pair)}});
    one_token::body(ask, &[(PARAMS, &params.to_string())]).map(Leg::of)
}

pub(super) fn decode(ask: Ask<'_>) -> Result<Leg, DialectError> {
    let Pair { prefill_host, prefill_port, .. } = ask.pair;
    let params = json!({"remote_prefiller": {
        "kv_request_id": id(ask.pair), "remote_host": prefill_host, "remote_port": prefill_port,
    }});
    one_token::with(ask, &[(PARAMS, &params.to_string())]).map(Leg::of)
}

fn id(pair: &Pair) -> String {
    format!("kv-{:016x}", pair.room)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::disagg::{decode, fixtures, prefill};
    use crate::types::{Api, Dialect};

    #[test]
    fn each_leg_is_told_of_the_other() {
        let body = fixtures::body(r#"{"prompt":"x","max_tokens":9}"#);
        let pair = fixtures::pair();
        let ask = fixtures::ask(Api::Completions, &body, &pair);
        let leg: Value = serde_json::from_slice(&prefill(Dialect::Offloading, ask).unwrap().body).unwrap();
        assert_eq!(
            leg,
            json!({"kv_transfer_params":{"remote_decoder":{"kv_request_id":"kv-000000000000002a"}},
                "stream":false,"prompt":"x","max_tokens":1})
        );
        let leg: Value =
            serde_json::from_slice(&decode(Dialect::Offloading, ask, b"").unwrap().body).unwrap();
        assert_eq!(
            leg["kv_transfer_params"],
            json!({"remote_prefiller":{"kv_request_id":"kv-000000000000002a","remote_host":"10.0.0.1",
                "remote_port":8998}})
        );
    }
}
