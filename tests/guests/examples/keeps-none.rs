//! A filter that keeps nobody.

use sluicegate_sdk::{Columns, EndpointsView, Error, Filter, Manifest, Policy, RequestView};

struct KeepsNone;

impl Policy for KeepsNone {
    fn manifest() -> Manifest {
        Manifest::new("keeps-none", "1.0.0", "keeps nobody")
    }

    fn configure(_json: &str, _columns: &mut Columns) -> Result<Self, Error> {
        Ok(Self)
    }
}

impl Filter for KeepsNone {
    fn keep(&self, _request: &dyn RequestView, _endpoints: &dyn EndpointsView) -> Vec<u32> {
        Vec::new()
    }
}

sluicegate_sdk::export!(KeepsNone: filter);
