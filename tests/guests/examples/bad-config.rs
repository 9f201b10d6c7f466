//! A scorer that is content with no configuration.

use sluicegate_sdk::{Columns, EndpointsView, Error, Manifest, Policy, RequestView, Scorer};

struct BadConfig;

impl Policy for BadConfig {
    fn manifest() -> Manifest {
        Manifest::new("bad-config", "1.0.0", "is content with no configuration")
    }

    fn configure(_json: &str, _columns: &mut Columns) -> Result<Self, Error> {
        Err("this configuration is never right".into())
    }
}

impl Scorer for BadConfig {
    fn score(&self, _request: &dyn RequestView, endpoints: &dyn EndpointsView) -> Vec<f32> {
        vec![1.0; endpoints.len()]
    }
}

sluicegate_sdk::export!(BadConfig: scorer);
