//! Connectors of vLLM whose legs run at once, under an id that the router makes up.

use super::{Export, Holds, Leg, Remote, fault, field, flag, only, port, text};
use crate::engine::error::ApiError;
use serde_json::{Map, Value};

/// `MooncakeConnector`.
pub(super) fn mooncake(map: &Map<String, Value>) -> Result<Leg, ApiError> {
    const BOTH: [&str; 3] = ["do_remote_decode", "do_remote_prefill", "transfer_id"];
    const DECODE: [&str; 5] =
        ["do_remote_decode", "do_remote_prefill", "transfer_id", "remote_engine_id", "remote_bootstrap_addr"];
    match (flag(map, "do_remote_decode")?, flag(map, "do_remote_prefill")?) {
        (true, true) => Err(fault("do_remote_prefill", "cannot be true together with do_remote_decode")),
        (false, false) => Ok(Leg::Whole),
        (true, false) => {
            only(map, &BOTH)?;
            Ok(Leg::Prefill(Export::Given(text(map, "transfer_id")?)))
        }
        (false, true) => {
            only(map, &DECODE)?;
            let address = text(map, "remote_bootstrap_addr")?;
            let wrong = || fault("remote_bootstrap_addr", "should be http://HOST:PORT");
            let (host, port) =
                address.strip_prefix("http://").and_then(|rest| rest.rsplit_once(':')).ok_or_else(wrong)?;
            Ok(Leg::Decode(vec![Remote {
                engine: Some(text(map, "remote_engine_id")?),
                id: text(map, "transfer_id")?,
                host: host.to_owned(),
                port: port.parse().map_err(|_| wrong())?,
                holds: Holds::Soon,
            }]))
        }
    }
}

/// `OffloadingConnector` between hosts.
pub(super) fn offloading(map: &Map<String, Value>) -> Result<Leg, ApiError> {
    only(map, &["remote_decoder", "remote_prefiller"])?;
    let part = |name: &str| {
        let part = field(map, name)?;
        part.as_object().ok_or_else(|| fault(name, "should be an object"))
    };
    match (map.contains_key("remote_decoder"), map.contains_key("remote_prefiller")) {
        (true, false) => {
            let other = part("remote_decoder")?;
            only(other, &["kv_request_id"])?;
            Ok(Leg::Prefill(Export::Given(text(other, "kv_request_id")?)))
        }
        (false, true) => {
            let other = part("remote_prefiller")?;
            only(other, &["kv_request_id", "remote_host", "remote_port"])?;
            Ok(Leg::Decode(vec![Remote {
                engine: None,
                id: text(other, "kv_request_id")?,
                host: text(other, "remote_host")?,
                port: port(other, "remote_port")?,
                holds: Holds::Soon,
            }]))
        }
        _ => Err(fault("remote_decoder", "or remote_prefiller is required, not both")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    type Parse = fn(&Map<String, Value>) -> Result<Leg, ApiError>;

    fn of(parse: Parse, value: &Value) -> Result<Leg, ApiError> {
        parse(value.as_object().unwrap())
    }

    fn decode_leg() -> Value {
        json!({"do_remote_decode": false, "do_remote_prefill": true, "transfer_id": "t",
            "remote_engine_id": "e", "remote_bootstrap_addr": "http://127.0.0.1:1"})
    }

    #[test]
    fn each_field_of_mooncake_is_missed_by_name() {
        assert!(matches!(of(mooncake, &decode_leg()), Ok(Leg::Decode(_))));
        for name in decode_leg().as_object().unwrap().keys() {
            let mut leg = decode_leg();
            leg.as_object_mut().unwrap().remove(name);
            let error = of(mooncake, &leg).unwrap_err();
            assert_eq!(error.param, Some(format!("kv_transfer_params.{name}")));
        }
        let prefill = json!({"do_remote_decode": true, "do_remote_prefill": false, "transfer_id": "t"});
        assert_eq!(of(mooncake, &prefill), Ok(Leg::Prefill(Export::Given("t".into()))));
        let more = json!({"do_remote_decode": true, "do_remote_prefill": false, "transfer_id": "t", "x": 1});
        assert!(of(mooncake, &more).unwrap_err().message.contains("x is unknown"));
    }

    #[test]
    fn offloading_is_told_of_one_side() {
        let prefill = json!({"remote_decoder": {"kv_request_id": "k"}});
        assert_eq!(of(offloading, &prefill), Ok(Leg::Prefill(Export::Given("k".into()))));
        let decode =
            json!({"remote_prefiller": {"kv_request_id": "k", "remote_host": "h", "remote_port": 7}});
        assert!(matches!(of(offloading, &decode), Ok(Leg::Decode(_))));
        for wrong in [
            json!({}),
            json!({"remote_decoder": {}}),
            json!({"remote_prefiller": {"kv_request_id": "k", "remote_host": "h"}}),
            json!({"remote_decoder": {"kv_request_id": "k"}, "remote_prefiller": {}}),
        ] {
            assert!(of(offloading, &wrong).is_err(), "{wrong}");
        }
    }
}
