//! The flows that wait, as `select` sees them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::columns::Builtin;

/// Flows shown to one `select` at most (contract: 1,024).
pub const MAX_FLOWS: usize = 1_024;

/// One waiting flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowRow {
    /// Handle, stable while the flow exists.
    pub id: u32,
    /// Name, as `place` gave it.
    pub name: Arc<str>,
    /// Band of the flow's waiting requests.
    pub band: i32,
    /// Requests that wait.
    pub length: u32,
    /// Milliseconds that the head has waited.
    pub head_age_ms: u64,
    /// Cost of the head, tokens.
    pub head_cost: u32,
    /// Rank of the head.
    pub head_rank: f64,
    /// Milliseconds until the head expires.
    pub head_deadline_ms: Option<u64>,
    /// The flow's weight.
    pub weight: f32,
    /// Tokens of its requests that run.
    pub inflight_tokens: u64,
    /// Tokens served since the flow exists.
    pub served_tokens: u64,
}

/// A snapshot of the waiting flows: each band's first, then the oldest.
#[derive(Debug, Clone, Default)]
pub struct Flows {
    /// One row a flow, [`MAX_FLOWS`] at most.
    pub rows: Vec<FlowRow>,
}

impl FlowRow {
    /// The flow's value in a `flow.*` column; none where it is not known.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "columns are f32 by contract"
    )]
    pub fn value(&self, column: Builtin) -> Option<f32> {
        match column {
            Builtin::FlowBand => Some(self.band as f32),
            Builtin::FlowLength => Some(self.length as f32),
            Builtin::FlowHeadAgeMs => Some(self.head_age_ms as f32),
            Builtin::FlowHeadCost => Some(self.head_cost as f32),
            Builtin::FlowHeadRank => Some(self.head_rank as f32),
            Builtin::FlowHeadDeadlineMs => self.head_deadline_ms.map(|ms| ms as f32),
            Builtin::FlowWeight => Some(self.weight),
            Builtin::FlowInflightTokens => Some(self.inflight_tokens as f32),
            Builtin::FlowServedTokens => Some(self.served_tokens as f32),
            _ => None,
        }
    }
}
