//! vLLM's NixlConnector: the prefill leg carries `do_remote_decode`, and its answer names the blocks; the decode leg
//! carries that answer back verbatim.

use super::{Export, Holds, Leg, Remote, fault, field, flag, only, port, text};
use crate::engine::error::ApiError;
use crate::engine::node::Node;
use crate::scheduler::{LeaseState, Pinned};
use http::StatusCode;
use serde_json::{Map, Value, json};

const FIELDS: [&str; 13] = [
    "do_remote_prefill",
    "do_remote_decode",
    "remote_block_ids",
    "remote_engine_id",
    "remote_request_id",
    "remote_host",
    "remote_port",
    "tp_size",
    "dcp_size",
    "pp_size",
    "remote_num_tokens",
    "remote_blocks_expiry_time",
    "transfer_mode",
];

/// Reads `kv_transfer_params`.
pub(super) fn parse(map: &Map<String, Value>) -> Result<Leg, ApiError> {
    only(map, &FIELDS)?;
    match (flag(map, "do_remote_decode")?, flag(map, "do_remote_prefill")?) {
        (true, true) => Err(fault("do_remote_prefill", "cannot be true together with do_remote_decode")),
        (false, false) => Ok(Leg::Whole),
        (true, false) => match map.iter().find(|(key, value)| !key.starts_with("do_") && !value.is_null()) {
            Some((key, _)) => Err(fault(key, "should be null in a prefill leg")),
            None => Ok(Leg::Prefill(Export::Own)),
        },
        (false, true) => remote(map).map(|remote| Leg::Decode(vec![remote])),
    }
}

fn remote(map: &Map<String, Value>) -> Result<Remote, ApiError> {
    let number = |name: &str| field(map, name)?.as_u64().ok_or_else(|| fault(name, "should be a number"));
    for size in ["tp_size", "dcp_size", "pp_size"] {
        if number(size)? != 1 {
            return Err(fault(size, "should be 1, as on this engine"));
        }
    }
    if text(map, "transfer_mode")? != "pull" {
        return Err(fault("transfer_mode", "should be \"pull\""));
    }
    if field(map, "remote_blocks_expiry_time")?.as_f64().is_none() {
        return Err(fault("remote_blocks_expiry_time", "should be a number"));
    }
    let blocks = serde_json::from_value(field(map, "remote_block_ids")?.clone())
        .map_err(|_| fault("remote_block_ids", "should be a list of lists of block numbers"))?;
    let tokens = usize::try_from(number("remote_num_tokens")?).unwrap_or(usize::MAX);
    Ok(Remote {
        engine: Some(text(map, "remote_engine_id")?),
        id: text(map, "remote_request_id")?,
        host: text(map, "remote_host")?,
        port: port(map, "remote_port")?,
        holds: Holds::Blocks { blocks, tokens },
    })
}

/// What the prefill leg answers.
pub(in crate::engine) fn handover(node: &Node, request: &str, pinned: &Pinned) -> Value {
    json!({
        "do_remote_prefill": true,
        "do_remote_decode": false,
        "remote_block_ids": [pinned.blocks],
        "remote_engine_id": node.engine_id,
        "remote_request_id": request,
        "remote_host": node.host,
        "remote_port": node.port,
        "tp_size": 1,
        "dcp_size": 1,
        "pp_size": 1,
        "remote_num_tokens": pinned.tokens,
        "remote_blocks_expiry_time": node.unix_seconds(pinned.expires),
        "transfer_mode": "pull",
    })
}

/// What `GET /sim/kv/ID` answers to a decode engine.
pub(in crate::engine) fn describe(node: &Node, id: &str) -> (StatusCode, Value) {
    let (status, state) = match node.lease(id) {
        LeaseState::Held(pinned) => {
            return (
                StatusCode::OK,
                json!({
                    "engine_id": node.engine_id,
                    "block_ids": [pinned.blocks],
                    "tokens": pinned.tokens,
                    "prompt": format!("{:016x}", pinned.prompt),
                }),
            );
        }
        LeaseState::Expired => (StatusCode::GONE, "its lease ran out"),
        LeaseState::Released => (StatusCode::GONE, "its blocks were fetched before"),
        LeaseState::Unknown => (StatusCode::NOT_FOUND, "it is unknown"),
    };
    (status, json!({"engine_id": node.engine_id, "error": state}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &Value) -> Result<Leg, ApiError> {
        parse(value.as_object().unwrap())
    }

    fn decode_leg() -> Value {
        json!({
            "do_remote_prefill": true, "do_remote_decode": false, "remote_block_ids": [[1, 2]],
            "remote_engine_id": "e", "remote_request_id": "r", "remote_host": "127.0.0.1", "remote_port": 1,
            "tp_size": 1, "dcp_size": 1, "pp_size": 1, "remote_num_tokens": 20,
            "remote_blocks_expiry_time": 1.5, "transfer_mode": "pull",
        })
    }

    #[test]
    fn each_field_of_a_decode_leg_is_missed_by_name() {
        assert!(matches!(of(&decode_leg()), Ok(Leg::Decode(_))));
        for name in FIELDS {
            let mut leg = decode_leg();
            leg.as_object_mut().unwrap().remove(name);
            let error = of(&leg).unwrap_err();
            assert_eq!(error.param, Some(format!("kv_transfer_params.{name}")), "{error}");
        }
    }

    #[test]
    fn each_wrong_field_is_named() {
        for name in FIELDS {
            let mut leg = decode_leg();
            leg[name] = json!({"wrong": true});
            assert_eq!(of(&leg).unwrap_err().param, Some(format!("kv_transfer_params.{name}")));
        }
        let mut leg = decode_leg();
        leg["remote_blocks"] = json!(1);
        assert!(of(&leg).unwrap_err().message.contains("remote_blocks is unknown"));
    }

    #[test]
    fn a_prefill_leg_has_nothing_remote() {
        let short = json!({"do_remote_decode": true, "do_remote_prefill": false});
        assert_eq!(of(&short), Ok(Leg::Prefill(Export::Own)));
        let long = json!({"do_remote_decode": true, "do_remote_prefill": false, "remote_engine_id": null,
            "remote_block_ids": null, "remote_host": null, "remote_port": null});
        assert_eq!(of(&long), Ok(Leg::Prefill(Export::Own)));
        let wrong = json!({"do_remote_decode": true, "do_remote_prefill": false, "remote_port": 3});
        assert!(of(&wrong).unwrap_err().message.contains("remote_port"));
    }
}
