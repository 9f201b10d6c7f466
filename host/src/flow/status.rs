//! What a gate says of itself.

use std::time::Duration;

use super::observed::FlowLine;

/// Where a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// Its place among those that wait in its band and above; 1 is next.
    pub position: usize,
    /// When it will go, by how fast requests went of late; none while that is not known.
    pub estimate: Option<Duration>,
}

/// The state of a gate, for metrics and the admin API.
#[derive(Debug, Clone, PartialEq)]
pub struct GateStatus {
    /// Requests that wait, by band.
    pub waiting: Vec<(i32, usize)>,
    /// Bytes that they keep.
    pub bytes: usize,
    /// Tokens of their prompts.
    pub tokens: u64,
    /// Flows that they belong to.
    pub waiting_flows: usize,
    /// The pool's saturation as last asked.
    pub saturation: f32,
    /// Requests that passed and are not done.
    pub running: usize,
    /// Requests that went, a second, of late.
    pub per_second: f64,
    /// How equal the shares of the flows that wait are, by weight: Jain's index.
    pub jain: f64,
    /// What flows have had.
    pub lines: Vec<FlowLine>,
    /// Sessions that are active.
    pub sessions: usize,
    /// Tokens of their contexts.
    pub session_tokens: u64,
}
