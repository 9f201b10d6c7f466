//! A picker that names an endpoint which does not exist.

use sluicegate_sdk::{Columns, EndpointsView, Error, Manifest, Picker, Policy, RequestView};

struct OutOfRange;

impl Policy for OutOfRange {
    fn manifest() -> Manifest {
        Manifest::new("out-of-range", "1.0.0", "picks who is not there")
    }

    fn configure(_json: &str, _columns: &mut Columns) -> Result<Self, Error> {
        Ok(Self)
    }
}

impl Picker for OutOfRange {
    fn pick(
        &self,
        request: &dyn RequestView,
        _endpoints: &dyn EndpointsView,
        _scores: &[f32],
        _count: usize,
    ) -> Vec<u32> {
        if guests::on_trial(request) {
            return Vec::new();
        }
        vec![9_999]
    }
}

sluicegate_sdk::export!(OutOfRange: picker);
