//! `POST /v1/embeddings`: prefill alone.

use super::super::error::ApiError;
use super::{Choice, Meta, Shape, data};
use crate::rng::Rng;
use crate::scheduler::{Finish, Usage};
use serde_json::{Value, json};

/// Numbers in a vector.
const DIMENSIONS: usize = 8;

/// Writes embeddings, whose numbers mean nothing.
pub(super) struct Embeddings {
    meta: Meta,
}

impl Embeddings {
    pub(super) const fn new(meta: Meta) -> Self {
        Self { meta }
    }
}

impl Shape for Embeddings {
    fn delta(&mut self, _: usize, _: &str, _: &mut String) {}

    fn end(&mut self, _: usize, _: Finish, _: &mut String) {}

    fn close(&mut self, _: &Usage, _: &mut String) {}

    fn failure(&self, error: &ApiError, out: &mut String) {
        data(&error.openai(), out);
    }

    fn whole(&self, choices: &[Choice], usage: &Usage, _: Option<Value>) -> String {
        let list: Vec<Value> = (0..choices.len())
            .map(|index| {
                let mut rng = Rng::new(index as u64);
                let vector: Vec<f64> = (0..DIMENSIONS).map(|_| rng.unit() - 0.5).collect();
                json!({"index": index, "object": "embedding", "embedding": vector})
            })
            .collect();
        json!({"id": self.meta.id, "object": "list", "created": self.meta.created, "model": self.meta.model,
            "data": list, "usage": {"prompt_tokens": usage.prompt, "total_tokens": usage.prompt,
                "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": usage.cached}}})
        .to_string()
    }
}
