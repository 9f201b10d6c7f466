//! The answer of any stage, as it is written down and compared.

use serde::{Deserialize, Serialize};

use super::{Leg, Placement, Verdict};

/// A usable answer. Positions are those of the call's candidates or flows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// Of admission.
    Verdict(Verdict),
    /// Of a filter, a picker or `select`.
    Positions(Vec<u32>),
    /// Of a scorer, clamped into 0..=1.
    Scores(Vec<f32>),
    /// Of disaggregation.
    Legs(Vec<Leg>),
    /// Of `place`.
    Placement(Placement),
    /// Of `saturation`.
    Saturation(f32),
    /// Of `save`, in hexadecimal digits.
    State(String),
    /// Of what has nothing to say.
    Nothing,
}
