//! When a request goes.

use crate::{EndpointsView, FlowsView, Policy, RequestView};

/// Where a request waits if it has to.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// The queue of its own kind; requests of one flow are served in the order of `rank`.
    pub flow: String,
    /// Higher is served first.
    pub band: i32,
    /// Share of its flow against the others of the band; above 0.
    pub weight: f32,
    /// In tokens.
    pub cost: u32,
    /// Order within the flow, higher first; equal ranks in order of arrival.
    pub rank: f64,
    /// May go without waiting while nobody waits in its band or above and saturation is below this.
    pub ceiling: f32,
    /// How long it may wait, milliseconds; none leaves it to the host's own limit.
    pub ttl_ms: Option<u32>,
    /// Room to grow; a host ignores what it does not know.
    pub extra: Vec<(String, f32)>,
}

impl Default for Placement {
    fn default() -> Self {
        Self {
            flow: String::new(),
            band: 0,
            weight: 1.0,
            cost: 1,
            rank: 0.0,
            ceiling: 1.0,
            ttl_ms: None,
            extra: Vec::new(),
        }
    }
}

/// When a request goes. `place` runs on any instance; `select` and `saturation` run on the one that hears
/// the events.
pub trait FlowControl: Policy {
    /// Places one request.
    fn place(&self, request: &dyn RequestView, endpoints: &dyn EndpointsView) -> Placement;

    /// Up to `count` positions of flows to serve next, in order; fewer leaves the rest waiting. A flow may
    /// be named more than once, up to its `flow.length`.
    fn select(&mut self, flows: &dyn FlowsView, endpoints: &dyn EndpointsView, count: usize) -> Vec<u32>;

    /// 0 idle, 1 full. Asked at most once a millisecond.
    fn saturation(&mut self, endpoints: &dyn EndpointsView) -> f32;
}
