//! A scorer that scores one endpoint too many.

use sluicegate_sdk::{Columns, EndpointsView, Error, Manifest, Policy, RequestView, Scorer};

struct WrongLength;

impl Policy for WrongLength {
    fn manifest() -> Manifest {
        Manifest::new("wrong-length", "1.0.0", "scores one too many")
    }

    fn configure(_json: &str, _columns: &mut Columns) -> Result<Self, Error> {
        Ok(Self)
    }
}

impl Scorer for WrongLength {
    fn score(&self, request: &dyn RequestView, endpoints: &dyn EndpointsView) -> Vec<f32> {
        if guests::on_trial(request) {
            return vec![0.5; endpoints.len()];
        }
        vec![1.0; endpoints.len() + 1]
    }
}

sluicegate_sdk::export!(WrongLength: scorer);
