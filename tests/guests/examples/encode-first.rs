//! Encodes at the last endpoint and prefills at the one before, whatever is asked.

use sluicegate_sdk::{
    Columns, Disaggregation, EndpointsView, Error, Leg, Manifest, Policy, RequestView, Stage,
};

struct EncodeFirst;

impl Policy for EncodeFirst {
    fn manifest() -> Manifest {
        Manifest::new("encode-first", "1.0.0", "encodes at the last endpoint and prefills before it")
    }

    fn configure(_json: &str, _columns: &mut Columns) -> Result<Self, Error> {
        Ok(Self)
    }
}

impl Disaggregation for EncodeFirst {
    fn split(&self, _request: &dyn RequestView, endpoints: &dyn EndpointsView, _decode: usize) -> Vec<Leg> {
        let Some(last) = endpoints.len().checked_sub(1).and_then(|last| u32::try_from(last).ok()) else {
            return Vec::new();
        };
        let encode = Leg { stage: Stage::Encode, ..Leg::prefill(vec![last]) };
        vec![encode, Leg::prefill(vec![last.saturating_sub(1)])]
    }
}

sluicegate_sdk::export!(EncodeFirst: disaggregation);
