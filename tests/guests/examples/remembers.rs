//! A scorer whose answers depend on how often this very instance was asked, and which keeps something of every call.

use std::cell::RefCell;

use sluicegate_sdk::{Columns, EndpointsView, Error, Manifest, Policy, RequestView, Scorer};

struct Remembers {
    asked: RefCell<Vec<[u64; 64]>>,
}

impl Policy for Remembers {
    fn manifest() -> Manifest {
        Manifest::new("remembers", "1.0.0", "counts its calls")
    }

    fn configure(_json: &str, _columns: &mut Columns) -> Result<Self, Error> {
        Ok(Self { asked: RefCell::default() })
    }
}

impl Scorer for Remembers {
    fn score(&self, request: &dyn RequestView, endpoints: &dyn EndpointsView) -> Vec<f32> {
        let mut asked = self.asked.borrow_mut();
        asked.push([u64::from(request.prompt_tokens()); 64]);
        let score = 1.0 / (1.0 + asked.len() as f32);
        vec![score; endpoints.len()]
    }
}

sluicegate_sdk::export!(Remembers: scorer);
