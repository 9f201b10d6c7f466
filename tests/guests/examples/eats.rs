//! A scorer that allocates for as long as it is given memory.

use sluicegate_sdk::{Columns, EndpointsView, Error, Manifest, Policy, RequestView, Scorer};

struct Eats;

impl Policy for Eats {
    fn manifest() -> Manifest {
        Manifest::new("eats", "1.0.0", "allocates without end")
    }

    fn configure(_json: &str, _columns: &mut Columns) -> Result<Self, Error> {
        Ok(Self)
    }
}

impl Scorer for Eats {
    fn score(&self, request: &dyn RequestView, endpoints: &dyn EndpointsView) -> Vec<f32> {
        if guests::on_trial(request) {
            return vec![0.5; endpoints.len()];
        }
        let mut eaten = vec![vec![endpoints.len() as f32]];
        loop {
            eaten.push(std::hint::black_box(vec![1.0; 1 << 18]));
        }
    }
}

sluicegate_sdk::export!(Eats: scorer);
