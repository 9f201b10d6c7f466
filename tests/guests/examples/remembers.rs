//! A scorer that counts its calls in `store` and says the count by a metric.

use sluicegate_sdk::{Columns, EndpointsView, Error, Manifest, Policy, RequestView, Scorer, metrics, store};

struct Remembers;

impl Policy for Remembers {
    fn manifest() -> Manifest {
        Manifest::new("remembers", "1.0.0", "counts its calls in the store")
    }

    fn configure(_json: &str, _columns: &mut Columns) -> Result<Self, Error> {
        Ok(Self)
    }
}

impl Scorer for Remembers {
    fn score(&self, request: &dyn RequestView, endpoints: &dyn EndpointsView) -> Vec<f32> {
        if !guests::on_trial(request) {
            let count = store::add("calls", 1, None).unwrap_or(-1);
            metrics::gauge("calls_seen", &[], count as f64);
        }
        vec![0.5; endpoints.len()]
    }
}

sluicegate_sdk::export!(Remembers: scorer);
