//! A scorer that panics.

use sluicegate_sdk::{Columns, EndpointsView, Error, Manifest, Policy, RequestView, Scorer};

struct Traps;

impl Policy for Traps {
    fn manifest() -> Manifest {
        Manifest::new("traps", "1.0.0", "panics")
    }

    fn configure(_json: &str, _columns: &mut Columns) -> Result<Self, Error> {
        Ok(Self)
    }
}

impl Scorer for Traps {
    fn score(&self, request: &dyn RequestView, endpoints: &dyn EndpointsView) -> Vec<f32> {
        if guests::on_trial(request) {
            return vec![0.5; endpoints.len()];
        }
        panic!("no score for {} endpoints", endpoints.len());
    }
}

sluicegate_sdk::export!(Traps: scorer);
