//! A scorer that wants the endpoints with the label `arm` of "b". Its twin wants the others.

use sluicegate_sdk::{Column, Columns, EndpointsView, Error, Manifest, Policy, RequestView, Scorer};

struct PrefersB {
    arm: Column,
    wanted: f32,
}

impl Policy for PrefersB {
    fn manifest() -> Manifest {
        Manifest::new("prefers-b", "1.0.0", "wants the endpoints labelled arm = b")
    }

    fn configure(_json: &str, columns: &mut Columns) -> Result<Self, Error> {
        Ok(Self { arm: columns.resolve("label:arm")?, wanted: columns.intern("arm", "b") })
    }
}

impl Scorer for PrefersB {
    fn score(&self, _request: &dyn RequestView, endpoints: &dyn EndpointsView) -> Vec<f32> {
        let arms = endpoints.column(self.arm).into_iter();
        arms.map(|arm| if arm == self.wanted { 1.0 } else { 0.0 }).collect()
    }
}

sluicegate_sdk::export!(PrefersB: scorer);
