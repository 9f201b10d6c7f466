//! The tokens of a real model, with `--tokenizer`.

use super::api::Api;
use crate::text::{Token, Words};
use sluicegate::tokens::{LoadError, Tokenizer};
use sluicegate::types;
use std::path::Path;
use std::sync::Arc;

/// Of what repeated texts are tokenized only once, bytes.
const CACHE_BYTES: usize = 64 << 20;

/// A model's tokenizer and the words that are said with it.
pub(super) struct Vocabulary {
    tokenizer: Tokenizer,
    pub(super) words: Arc<Words>,
}

impl Vocabulary {
    pub(super) fn load(folder: &Path) -> Result<Self, LoadError> {
        let tokenizer = Tokenizer::load(folder, CACHE_BYTES)?;
        let words = Arc::new(Words::new(tokenizer.words()));
        Ok(Self { tokenizer, words })
    }

    /// The prompt of a body; none where it is not known, and the simulation's own tokens remain.
    pub(super) fn prompt(&self, api: Api, body: &[u8]) -> Option<Vec<Token>> {
        let api = match api {
            Api::Chat => types::Api::Chat,
            Api::Completions => types::Api::Completions,
            Api::Responses => types::Api::Responses,
            Api::Messages => types::Api::Messages,
            Api::Embeddings => types::Api::Embeddings,
        };
        self.tokenizer.tokens(api, body).ok().map(|ids| ids.to_vec())
    }
}
