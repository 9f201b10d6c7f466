//! A scorer whose scores are no numbers.

use sluicegate_sdk::{Columns, EndpointsView, Error, Manifest, Policy, RequestView, Scorer};

struct Nan;

impl Policy for Nan {
    fn manifest() -> Manifest {
        Manifest::new("nan", "1.0.0", "scores with NaN")
    }

    fn configure(_json: &str, _columns: &mut Columns) -> Result<Self, Error> {
        Ok(Self)
    }
}

impl Scorer for Nan {
    fn score(&self, request: &dyn RequestView, endpoints: &dyn EndpointsView) -> Vec<f32> {
        if guests::on_trial(request) {
            return vec![0.5; endpoints.len()];
        }
        vec![f32::NAN; endpoints.len()]
    }
}

sluicegate_sdk::export!(Nan: scorer);
