//! How good each candidate is.

use crate::{EndpointsView, Policy, RequestView};

/// How good each candidate is for a request. On any instance.
pub trait Scorer: Policy {
    /// One score in 0..=1 a candidate, higher is better.
    fn score(&self, request: &dyn RequestView, endpoints: &dyn EndpointsView) -> Vec<f32>;
}
