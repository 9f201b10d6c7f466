//! A scorer that never answers.

use sluicegate_sdk::{Columns, EndpointsView, Error, Manifest, Policy, RequestView, Scorer};

struct Loops;

impl Policy for Loops {
    fn manifest() -> Manifest {
        Manifest::new("loops", "1.0.0", "never answers")
    }

    fn configure(_json: &str, _columns: &mut Columns) -> Result<Self, Error> {
        Ok(Self)
    }
}

impl Scorer for Loops {
    fn score(&self, request: &dyn RequestView, endpoints: &dyn EndpointsView) -> Vec<f32> {
        if guests::on_trial(request) {
            return vec![0.5; endpoints.len()];
        }
        let mut turns = endpoints.len();
        loop {
            turns = std::hint::black_box(turns).wrapping_add(1);
        }
    }
}

sluicegate_sdk::export!(Loops: scorer);
