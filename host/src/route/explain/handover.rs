//! How a request was split, for its explanation.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::clock::{MILLI, Nanos};
use crate::pool::Endpoint;
use crate::types::Dialect;

/// What came of splitting a request.
#[derive(Debug, Default)]
pub(super) struct Handover {
    dialect: Option<Dialect>,
    outcome: Option<&'static str>,
    /// Who prefilled, and for how long; no time is known of legs that ran beside decode.
    prefill: Option<(Arc<Endpoint>, Option<Nanos>)>,
    transfer: Option<Nanos>,
}

impl Handover {
    pub(super) fn came_to(&mut self, dialect: Dialect, outcome: &'static str) {
        self.dialect = Some(dialect);
        self.outcome = Some(outcome);
    }

    pub(super) fn prefilled(&mut self, endpoint: &Arc<Endpoint>, took: Option<Nanos>) {
        self.prefill = Some((Arc::clone(endpoint), took));
    }

    pub(super) fn transferred(&mut self, took: Nanos) {
        self.transfer = Some(took);
    }

    /// The endpoint that prefilled what was decoded.
    pub(super) fn prefill(&self) -> Option<&str> {
        let split = self.outcome.is_none_or(|outcome| outcome == "split");
        self.prefill.as_ref().filter(|_| split).map(|(endpoint, _)| &*endpoint.name)
    }

    pub(super) fn to_json(&self) -> Value {
        let Some(outcome) = self.outcome else { return Value::Null };
        #[expect(clippy::cast_precision_loss, reason = "shown to people")]
        let ms = |nanos: Nanos| nanos as f64 / MILLI as f64;
        json!({
            "outcome": outcome,
            "dialect": self.dialect.map(Dialect::as_str),
            "prefill": self.prefill(),
            "prefill_ms": self.prefill.as_ref().and_then(|(_, took)| *took).map(ms),
            "transfer_ms": self.transfer.map(ms),
        })
    }
}
