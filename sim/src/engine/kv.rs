//! The hand-over of a prompt's cache between engines: vLLM's NixlConnector as a router sees it.
//!
//! The prefill leg carries `do_remote_decode`, and its answer names the blocks; the decode leg carries that answer back
//! verbatim. Here every field is checked, so that a router that alters one is found out.

use super::error::ApiError;
use super::node::Node;
use crate::scheduler::{BlockId, LeaseState, Pinned};
use crate::web::{self, Http};
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// How long a decode engine waits for a prefill engine's word.
const PATIENCE: Duration = Duration::from_secs(10);
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

/// Which leg a request is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Leg {
    /// None: the engine does all.
    Whole,
    /// Prefill for another engine.
    Prefill,
    /// Decode after another engine's prefill.
    Decode(Remote),
}

/// Where the cache of a prompt is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Remote {
    pub(super) engine: String,
    pub(super) request: String,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) blocks: Vec<Vec<BlockId>>,
    pub(super) tokens: usize,
}

/// Reads `kv_transfer_params`.
pub(super) fn parse(params: Option<&Value>) -> Result<Leg, ApiError> {
    let map = match params {
        None | Some(Value::Null) => return Ok(Leg::Whole),
        Some(Value::Object(map)) => map,
        Some(_) => return Err(ApiError::bad("kv_transfer_params", "kv_transfer_params should be an object")),
    };
    if let Some(unknown) = map.keys().find(|key| !FIELDS.contains(&key.as_str())) {
        return Err(fault(unknown, "is unknown"));
    }
    let decode_elsewhere = flag(map, "do_remote_decode")?;
    let prefilled_elsewhere = flag(map, "do_remote_prefill")?;
    match (decode_elsewhere, prefilled_elsewhere) {
        (true, true) => Err(fault("do_remote_prefill", "cannot be true together with do_remote_decode")),
        (false, false) => Ok(Leg::Whole),
        (true, false) => match map.iter().find(|(key, value)| !key.starts_with("do_") && !value.is_null()) {
            Some((key, _)) => Err(fault(key, "should be null in a prefill leg")),
            None => Ok(Leg::Prefill),
        },
        (false, true) => remote(map).map(Leg::Decode),
    }
}

fn remote(map: &Map<String, Value>) -> Result<Remote, ApiError> {
    let number = |name: &str| field(map, name)?.as_u64().ok_or_else(|| fault(name, "should be a number"));
    let text = |name: &str| match field(map, name)?.as_str() {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        _ => Err(fault(name, "should be text")),
    };
    for size in ["tp_size", "dcp_size", "pp_size"] {
        if number(size)? != 1 {
            return Err(fault(size, "should be 1, as on this engine"));
        }
    }
    if text("transfer_mode")? != "pull" {
        return Err(fault("transfer_mode", "should be \"pull\""));
    }
    if field(map, "remote_blocks_expiry_time")?.as_f64().is_none() {
        return Err(fault("remote_blocks_expiry_time", "should be a number"));
    }
    let blocks = serde_json::from_value(field(map, "remote_block_ids")?.clone())
        .map_err(|_| fault("remote_block_ids", "should be a list of lists of block numbers"))?;
    Ok(Remote {
        engine: text("remote_engine_id")?,
        request: text("remote_request_id")?,
        host: text("remote_host")?,
        port: u16::try_from(number("remote_port")?).map_err(|_| fault("remote_port", "should be a port"))?,
        tokens: usize::try_from(number("remote_num_tokens")?).unwrap_or(usize::MAX),
        blocks,
    })
}

fn field<'a>(map: &'a Map<String, Value>, name: &str) -> Result<&'a Value, ApiError> {
    map.get(name).ok_or_else(|| fault(name, "is required"))
}

fn flag(map: &Map<String, Value>, name: &str) -> Result<bool, ApiError> {
    field(map, name)?.as_bool().ok_or_else(|| fault(name, "should be true or false"))
}

fn fault(name: &str, what: &str) -> ApiError {
    ApiError::bad(format!("kv_transfer_params.{name}"), format!("kv_transfer_params.{name} {what}"))
}

/// What the prefill leg answers.
pub(super) fn handover(node: &Node, request: &str, pinned: &Pinned) -> Value {
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
pub(super) fn describe(node: &Node, id: &str) -> (StatusCode, Value) {
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

/// Asks the prefill engine whether it holds what the decode leg says it holds.
pub(super) async fn validate(http: &Http, remote: &Remote, prompt: u64) -> Result<(), ApiError> {
    let failed = |what: String| {
        let text = format!(
            "KV transfer failed for remote request {} on engine {} at {}:{}: {what}",
            remote.request, remote.engine, remote.host, remote.port
        );
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    };
    let (status, answer) = web::json(http, Method::GET, &url(remote), None, PATIENCE)
        .await
        .map_err(|error| failed(error.to_string()))?;
    let engine = answer.get("engine_id").and_then(Value::as_str).unwrap_or_default();
    if engine != remote.engine {
        return Err(failed(format!("remote_engine_id is not that engine's, which is {engine:?}")));
    }
    if status != StatusCode::OK {
        let why = answer.get("error").and_then(Value::as_str).unwrap_or("no reason given");
        return Err(failed(why.to_owned()));
    }
    if answer.get("block_ids") != Some(&json!(remote.blocks)) {
        return Err(failed("remote_block_ids are not those that it holds".into()));
    }
    if answer.get("tokens") != Some(&json!(remote.tokens)) {
        return Err(failed("remote_num_tokens is not what it holds".into()));
    }
    if answer.get("prompt").and_then(Value::as_str) != Some(&format!("{prompt:016x}")) {
        return Err(failed("the prompt is not the one that was prefilled".into()));
    }
    Ok(())
}

/// Tells the prefill engine that its blocks have been fetched. When that fails they stay until their lease ends.
pub(super) async fn release(http: Http, remote: Remote) {
    let _until_the_lease_ends = web::json(&http, Method::DELETE, &url(&remote), None, PATIENCE).await;
}

fn url(remote: &Remote) -> String {
    let mut url = format!("http://{}:{}/sim/kv/", remote.host, remote.port);
    for byte in remote.request.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => url.push(char::from(byte)),
            _ => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(matches!(parse(Some(&decode_leg())), Ok(Leg::Decode(_))));
        for name in FIELDS {
            let mut leg = decode_leg();
            leg.as_object_mut().unwrap().remove(name);
            let error = parse(Some(&leg)).unwrap_err();
            assert_eq!(error.param, Some(format!("kv_transfer_params.{name}")), "{error}");
        }
    }

    #[test]
    fn each_wrong_field_is_named() {
        for name in FIELDS {
            let mut leg = decode_leg();
            leg[name] = json!({"wrong": true});
            assert_eq!(parse(Some(&leg)).unwrap_err().param, Some(format!("kv_transfer_params.{name}")));
        }
        let mut leg = decode_leg();
        leg["remote_blocks"] = json!(1);
        assert!(parse(Some(&leg)).unwrap_err().message.contains("remote_blocks is unknown"));
    }

    #[test]
    fn a_prefill_leg_has_nothing_remote() {
        let short = json!({"do_remote_decode": true, "do_remote_prefill": false});
        assert_eq!(parse(Some(&short)), Ok(Leg::Prefill));
        let long = json!({"do_remote_decode": true, "do_remote_prefill": false, "remote_engine_id": null,
            "remote_block_ids": null, "remote_host": null, "remote_port": null});
        assert_eq!(parse(Some(&long)), Ok(Leg::Prefill));
        let wrong = json!({"do_remote_decode": true, "do_remote_prefill": false, "remote_port": 3});
        assert!(parse(Some(&wrong)).unwrap_err().message.contains("remote_port"));
        assert_eq!(parse(None), Ok(Leg::Whole));
    }
}
