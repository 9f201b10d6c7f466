//! Which of the scored candidates is taken.

use crate::{EndpointsView, Policy, RequestView};

/// Which of the scored candidates is taken. On any instance. Without a picker the host takes the highest sum.
pub trait Picker: Policy {
    /// Up to `count` positions, best first; those after the first are the order of retries. `scores` holds
    /// the sum of weighted scores of each candidate.
    fn pick(
        &self,
        request: &dyn RequestView,
        endpoints: &dyn EndpointsView,
        scores: &[f32],
        count: usize,
    ) -> Vec<u32>;
}
