//! What a test asks of the engine itself: `/sim/state`, `/sim/faults`, `/sim/reset`.

use super::error::ApiError;
use super::faults::Fault;
use super::node::Node;
use serde_json::{Value, json};

/// `GET /sim/state`.
pub(super) fn state(node: &Node) -> Value {
    let (gauges, stats) = node.snapshot();
    let config = node.args.sizes.scheduler();
    let records = node.records.lock();
    json!({
        "name": node.args.name,
        "role": node.args.role.as_str(),
        "engine_id": node.engine_id,
        "running": gauges.running,
        "waiting": gauges.waiting,
        "fetching": gauges.fetching,
        "received": records.received(),
        "finished": stats.finished_stop + stats.finished_length,
        "aborted": stats.aborted,
        "preemptions": stats.preemptions,
        "generation_tokens": stats.generation_tokens,
        "steps": stats.steps,
        "cache": {
            "block_size": config.block_size,
            "blocks": config.num_blocks,
            "blocks_free": gauges.blocks_free,
            "blocks_cached": gauges.blocks_cached,
            "usage": gauges.kv_usage,
            "query_tokens": stats.prefix_queries,
            "hit_tokens": stats.prefix_hits,
            "external_tokens": stats.external_kv_transfer,
        },
        "leases": {"held": gauges.leases, "expired": stats.leases_expired},
        "fault": *node.fault.lock(),
        "records": records.kept(),
    })
}

/// `POST /sim/faults`.
pub(super) fn set_fault(node: &Node, body: &[u8]) -> Result<Value, ApiError> {
    let fault: Fault =
        serde_json::from_slice(body).map_err(|error| ApiError::bad("body", error.to_string()))?;
    if !(400..=599).contains(&fault.status) {
        return Err(ApiError::bad("status", "status should be 400 to 599"));
    }
    *node.fault.lock() = fault.clone();
    Ok(json!(fault))
}

/// `POST /sim/kv-events`: `{"lose": N}` numbers the next messages and does not send them.
pub(super) fn lose_events(node: &Node, body: &[u8]) -> Result<Value, ApiError> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Lose {
        lose: u64,
    }
    let Lose { lose } =
        serde_json::from_slice(body).map_err(|error| ApiError::bad("body", error.to_string()))?;
    node.kv_events.lose(lose);
    Ok(json!({ "lose": lose }))
}

/// `POST /sim/reset`: no fault, no records, nothing cached that is not in use.
pub(super) fn reset(node: &Node) -> Value {
    *node.fault.lock() = Fault::default();
    node.records.lock().clear();
    node.clear_cache();
    json!({})
}
