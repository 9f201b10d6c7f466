//! A scorer that wants the endpoints with the label `arm` of "a". Its twin wants the others.

use sluicegate_sdk::{Column, Columns, EndpointsView, Error, Manifest, Policy, RequestView, Scorer};

struct PrefersA {
    arm: Column,
    wanted: f32,
}

impl Policy for PrefersA {
    fn manifest() -> Manifest {
        Manifest::new("prefers-a", "1.0.0", "wants the endpoints labelled arm = a")
    }

    fn configure(_json: &str, columns: &mut Columns) -> Result<Self, Error> {
        Ok(Self { arm: columns.resolve("label:arm")?, wanted: columns.intern("arm", "a") })
    }
}

impl Scorer for PrefersA {
    fn score(&self, _request: &dyn RequestView, endpoints: &dyn EndpointsView) -> Vec<f32> {
        let arms = endpoints.column(self.arm).into_iter();
        arms.map(|arm| if arm == self.wanted { 1.0 } else { 0.0 }).collect()
    }
}

sluicegate_sdk::export!(PrefersA: scorer);
