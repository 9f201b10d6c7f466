//! vLLM's `NixlConnector`.
//!
//! Prefill makes one token and keeps its blocks; its answer's `kv_transfer_params` say where. That object
//! goes to decode as it came: its members change between versions of vLLM. The blocks are kept for a lease
//! (30 s by default), so decode has to be asked at once.

use super::{Ask, DialectError, Leg, one_token};
use crate::api::splice;

pub(super) const PARAMS: &str = "kv_transfer_params";

/// What tells vLLM to keep the blocks for somebody else. All members are named: older versions index them.
const KEEP: &str = r#"{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}"#;

pub(super) fn prefill(ask: Ask<'_>) -> Result<Leg, DialectError> {
    one_token::body(ask, &[(PARAMS, KEEP)]).map(Leg::of)
}

/// The client's body with what prefill handed over.
pub(super) fn decode(ask: Ask<'_>, answer: &[u8]) -> Result<Leg, DialectError> {
    one_token::with(ask, &[(PARAMS, handed_over(answer)?)]).map(Leg::of)
}

/// The object that prefill's answer hands over, as it came.
pub(super) fn handed_over(answer: &[u8]) -> Result<&str, DialectError> {
    let params = splice::get(answer, PARAMS).map_err(DialectError::Answer)?;
    params.filter(|params| params.starts_with('{')).ok_or(DialectError::NothingHandedOver(PARAMS))
}

#[cfg(test)]
#[path = "nixl_tests.rs"]
mod tests;
