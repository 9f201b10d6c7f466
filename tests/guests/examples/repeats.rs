//! A picker that names the same endpoint again and again.

use sluicegate_sdk::{Columns, EndpointsView, Error, Manifest, Picker, Policy, RequestView};

struct Repeats;

impl Policy for Repeats {
    fn manifest() -> Manifest {
        Manifest::new("repeats", "1.0.0", "picks the first over and over")
    }

    fn configure(_json: &str, _columns: &mut Columns) -> Result<Self, Error> {
        Ok(Self)
    }
}

impl Picker for Repeats {
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
        vec![0, 0, 0]
    }
}

sluicegate_sdk::export!(Repeats: picker);
