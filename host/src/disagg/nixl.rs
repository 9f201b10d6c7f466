//! vLLM's `NixlConnector`.
//!
//! Prefill makes one token and keeps its blocks; its answer's `kv_transfer_params` say where. That object
//! goes to decode as it came: its members change between versions of vLLM. The blocks are kept for a lease
//! (30 s by default), so decode has to be asked at once.

use bytes::Bytes;

use super::DialectError;
use crate::api::splice;
use crate::types::Api;

const PARAMS: &str = "kv_transfer_params";

/// What tells vLLM to keep the blocks for somebody else. All members are named: older versions index them.
const KEEP: &str = r#"{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}"#;

/// The client's body, made to yield one token, and not as a stream.
pub(super) fn prefill(api: Api, body: &Bytes) -> Result<Bytes, DialectError> {
    let has = |key: &str| splice::get(body, key).map(|value| value.is_some()).map_err(DialectError::Body);
    let mut fields = vec![(PARAMS, KEEP), ("stream", "false")];
    // A least number of tokens above the limit of one would be refused.
    let mut gone = vec!["stream_options", "min_tokens"];
    let sampling;
    match api {
        Api::Chat | Api::Completions | Api::Messages => {
            fields.push(("max_tokens", "1"));
            if has("max_completion_tokens")? {
                fields.push(("max_completion_tokens", "1"));
            }
            // Every further choice would prefill again and keep blocks that nobody fetches.
            if has("n")? {
                fields.push(("n", "1"));
            }
            gone.push("best_of");
        }
        Api::Responses => {
            fields.push(("max_output_tokens", "1"));
            // The answer of this leg is nobody's: it is waited for, and not stored.
            fields.push(("store", "false"));
            gone.push("background");
        }
        Api::Generate => {
            let given = splice::get(body, "sampling_params").map_err(DialectError::Body)?;
            let given = Bytes::copy_from_slice(given.filter(|raw| *raw != "null").unwrap_or("{}").as_bytes());
            let one = splice::edit(&given, &[("max_tokens", "1")], &["min_tokens", "n"]);
            sampling = one.map_err(DialectError::Body)?;
            fields.push(("sampling_params", std::str::from_utf8(&sampling).unwrap_or("{}")));
            if has("max_tokens")? {
                fields.push(("max_tokens", "1"));
            }
        }
        Api::Embeddings | Api::Other => return Err(DialectError::Api),
    }
    splice::edit(body, &fields, &gone).map_err(DialectError::Body)
}

/// The client's body with what prefill handed over.
pub(super) fn decode(api: Api, body: &Bytes, prefill_answer: &[u8]) -> Result<Bytes, DialectError> {
    if matches!(api, Api::Embeddings | Api::Other) {
        return Err(DialectError::Api);
    }
    let params = splice::get(prefill_answer, PARAMS).map_err(DialectError::Answer)?;
    match params {
        Some(params) if params.starts_with('{') => {
            splice::set(body, &[(PARAMS, params)]).map_err(DialectError::Body)
        }
        _ => Err(DialectError::NothingHandedOver(PARAMS)),
    }
}

#[cfg(test)]
#[path = "nixl_tests.rs"]
mod tests;
