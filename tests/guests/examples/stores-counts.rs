//! A scorer that counts its calls in `store` and says the count by a metric.

use sluicegate_sdk::{Columns, EndpointsView, Error, Manifest, Policy, RequestView, Scorer, metrics, store};

struct StoresCounts;

impl Policy for StoresCounts {
    fn manifest() -> Manifest {
        Manifest::new("stores-counts", "1.0.0", "counts its calls in the store")
    }

    fn configure(_json: &str, _columns: &mut Columns) -> Result<Self, Error> {
        Ok(Self)
    }
}

impl Scorer for StoresCounts {
    fn score(&self, request: &dyn RequestView, endpoints: &dyn EndpointsView) -> Vec<f32> {
        if !guests::on_trial(request) {
            let count = store::add("calls", 1, None).unwrap_or(-1);
            metrics::gauge("calls_seen", &[], count as f64);
        }
        vec![0.5; endpoints.len()]
    }
}

sluicegate_sdk::export!(StoresCounts: scorer);
