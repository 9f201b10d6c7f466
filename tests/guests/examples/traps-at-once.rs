//! A scorer that panics, in trial calls too: it never comes into service.

use sluicegate_sdk::{Columns, EndpointsView, Error, Manifest, Policy, RequestView, Scorer};

struct Traps;

impl Policy for Traps {
    fn manifest() -> Manifest {
        Manifest::new("traps-at-once", "1.0.0", "panics")
    }

    fn configure(_json: &str, _columns: &mut Columns) -> Result<Self, Error> {
        Ok(Self)
    }
}

impl Scorer for Traps {
    fn score(&self, _request: &dyn RequestView, endpoints: &dyn EndpointsView) -> Vec<f32> {
        panic!("no score for {} endpoints", endpoints.len());
    }
}

sluicegate_sdk::export!(Traps: scorer);
