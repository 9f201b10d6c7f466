//! A scorer that wants the first endpoint, whatever its load.

use sluicegate_sdk::{Columns, EndpointsView, Error, Manifest, Policy, RequestView, Scorer};

struct Herds;

impl Policy for Herds {
    fn manifest() -> Manifest {
        Manifest::new("herds", "1.0.0", "wants the first endpoint")
    }

    fn configure(_json: &str, _columns: &mut Columns) -> Result<Self, Error> {
        Ok(Self)
    }
}

impl Scorer for Herds {
    fn score(&self, _request: &dyn RequestView, endpoints: &dyn EndpointsView) -> Vec<f32> {
        let keys = endpoints.keys();
        let least = keys.iter().min().copied();
        keys.into_iter().map(|key| if Some(key) == least { 1.0 } else { 0.0 }).collect()
    }
}

sluicegate_sdk::export!(Herds: scorer);
