//! A usable answer of a policy, as explanations keep it: endpoints by name instead of positions.

use std::sync::Arc;

use serde_json::{Value, json};

use super::record::{names, numbers};
use crate::policy::{Leg, LegStage, Placement, Verdict};
use crate::pool::Endpoint;
use crate::route::Candidates;

/// A usable answer of a policy.
#[derive(Debug, Clone)]
pub enum Given {
    /// One score a candidate.
    Scores(Vec<f32>),
    /// Endpoints kept or picked, in order.
    Endpoints(Vec<Arc<Endpoint>>),
    /// Of admission.
    Verdict(Verdict),
    /// Of flow control.
    Placement(Placement),
    /// Of disaggregation: each leg with its endpoints.
    Legs(Vec<(LegStage, Vec<Arc<Endpoint>>)>),
}

impl Given {
    pub(in crate::route) fn verdict(verdict: &Verdict) -> Self {
        Self::Verdict(verdict.clone())
    }

    pub(in crate::route) fn placement(placement: &Placement) -> Self {
        Self::Placement(placement.clone())
    }

    pub(in crate::route) fn kept(candidates: &Candidates, positions: &[u32]) -> Self {
        Self::Endpoints(at(candidates, positions))
    }

    pub(in crate::route) fn legs(candidates: &Candidates, legs: &[Leg]) -> Self {
        Self::Legs(legs.iter().map(|leg| (leg.stage, at(candidates, &leg.candidates))).collect())
    }

    pub(super) fn to_json(&self) -> Value {
        match self {
            Self::Scores(scores) => numbers(scores),
            Self::Endpoints(endpoints) => names(endpoints),
            Self::Verdict(Verdict::Accept) => json!("accept"),
            Self::Verdict(Verdict::Reject(rejection)) => {
                json!({"status": rejection.status, "reason": rejection.reason, "retry_after_ms": rejection.retry_after_ms})
            }
            Self::Placement(placement) => json!({
                "flow": placement.flow, "band": placement.band, "weight": placement.weight,
                "cost": placement.cost, "rank": placement.rank, "ceiling": placement.ceiling,
                "ttl_ms": placement.ttl_ms,
            }),
            Self::Legs(legs) => {
                let legs =
                    legs.iter().map(|(stage, order)| json!({"stage": stage, "candidates": names(order)}));
                Value::Array(legs.collect())
            }
        }
    }
}

fn at(candidates: &Candidates, positions: &[u32]) -> Vec<Arc<Endpoint>> {
    positions.iter().filter_map(|position| candidates.at(*position)).cloned().collect()
}
