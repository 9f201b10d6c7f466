//! A scorer that panics at half of the requests.

use sluicegate_sdk::{Columns, EndpointsView, Error, Manifest, Policy, RequestView, Scorer};

struct TrapsHalf;

impl Policy for TrapsHalf {
    fn manifest() -> Manifest {
        Manifest::new("traps-half", "1.0.0", "panics half of the time")
    }

    fn configure(_json: &str, _columns: &mut Columns) -> Result<Self, Error> {
        Ok(Self)
    }
}

impl Scorer for TrapsHalf {
    fn score(&self, request: &dyn RequestView, endpoints: &dyn EndpointsView) -> Vec<f32> {
        let sum: u32 = request.id().bytes().map(u32::from).sum();
        assert!(guests::on_trial(request) || sum % 2 == 0, "an odd request");
        vec![0.5; endpoints.len()]
    }
}

sluicegate_sdk::export!(TrapsHalf: scorer);
