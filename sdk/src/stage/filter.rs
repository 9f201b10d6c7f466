//! Which candidates may serve a request.

use crate::{EndpointsView, Policy, RequestView};

/// Which candidates may serve a request. On any instance.
pub trait Filter: Policy {
    /// Positions to keep, ascending.
    fn keep(&self, request: &dyn RequestView, endpoints: &dyn EndpointsView) -> Vec<u32>;
}
