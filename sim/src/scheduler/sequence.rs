//! One sequence on its way through the engine.

use super::cache::BlockId;
use super::config::Nanos;
use super::event::Usage;
use super::journal::Stored;
use crate::text::{Token, Words, answer_token, next_hash};
use std::sync::Arc;

/// Names a sequence within its engine; grows with each submission.
pub type SequenceId = u64;

/// Whether the cache of the prompt moves between engines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Transfer {
    /// It does not.
    #[default]
    None,
    /// Keep the prompt's blocks under this id when done: the prefill leg.
    Export(String),
    /// Fetch the prompt's blocks before starting: the decode leg.
    Import,
}

/// What is asked of the engine.
#[derive(Debug, Clone)]
pub struct Request {
    /// The prompt; not empty.
    pub prompt: Vec<Token>,
    /// Where its chain of block hashes begins: by model or adapter, and salt.
    pub seed: u64,
    /// The adapter that is asked for.
    pub adapter: Option<String>,
    /// The cache salt; empty without one.
    pub salt: String,
    /// Determines the answer.
    pub answer: u64,
    /// What it is made of; the simulation's own words when absent.
    pub words: Option<Arc<Words>>,
    /// Tokens to generate; 0 for an embedding.
    pub max_output: u32,
    /// Whether reaching `max_output` counts as the model's own end.
    pub natural_end: bool,
    /// Whether the cache moves.
    pub transfer: Transfer,
}

/// A request and how far it has come.
#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) id: SequenceId,
    pub(super) request: Request,
    /// Prompt, then what has been generated.
    pub(super) tokens: Vec<Token>,
    /// Hashes of the full blocks of `tokens`.
    pub(super) hashes: Vec<u64>,
    pub(super) blocks: Vec<BlockId>,
    /// Full blocks already offered to the cache.
    pub(super) published: usize,
    /// Tokens whose keys and values are in `blocks`.
    pub(super) computed: usize,
    pub(super) cached: usize,
    pub(super) external: usize,
    pub(super) arrived: Nanos,
    pub(super) started: Option<Nanos>,
    pub(super) first_token: Option<Nanos>,
    pub(super) last_token: Nanos,
}

impl Sequence {
    pub(super) fn new(id: SequenceId, request: Request, block_size: usize, now: Nanos) -> Self {
        let mut sequence = Self {
            id,
            tokens: request.prompt.clone(),
            request,
            hashes: Vec::new(),
            blocks: Vec::new(),
            published: 0,
            computed: 0,
            cached: 0,
            external: 0,
            arrived: now,
            started: None,
            first_token: None,
            last_token: now,
        };
        sequence.extend_hashes(block_size);
        sequence
    }

    pub(super) fn prompt_len(&self) -> usize {
        self.request.prompt.len()
    }

    pub(super) fn output_len(&self) -> usize {
        self.tokens.len() - self.prompt_len()
    }

    /// Tokens not yet computed.
    pub(super) fn todo(&self) -> usize {
        self.tokens.len() - self.computed
    }

    /// Whether only the newest token is left to compute: one sequence of a decode batch.
    pub(super) fn is_decoding(&self) -> bool {
        self.output_len() > 0 && self.todo() == 1
    }

    /// Hashes that may be looked up: the last token is always computed, since the next one follows from it.
    pub(super) fn findable(&self, block_size: usize) -> &[u64] {
        let count = self.tokens.len().saturating_sub(1) / block_size;
        self.hashes.get(..count.min(self.hashes.len())).unwrap_or_default()
    }

    /// Generates the next token.
    pub(super) fn sample(&mut self, block_size: usize) -> Token {
        let index = u32::try_from(self.output_len()).unwrap_or(u32::MAX);
        let token = match &self.request.words {
            Some(words) => words.answer_token(self.request.answer, index),
            None => answer_token(self.request.answer, index),
        };
        self.tokens.push(token);
        self.extend_hashes(block_size);
        token
    }

    /// What is to be said of a block that became findable.
    pub(super) fn stored(&self, place: usize, hash: u64, tokens: &[Token]) -> Stored {
        let before = place.checked_sub(1).and_then(|place| self.hashes.get(place).copied());
        let Request { adapter, salt, .. } = &self.request;
        let salt = (place == 0 && !salt.is_empty()).then(|| salt.clone());
        Stored { hash, parent: before, tokens: tokens.to_vec(), adapter: adapter.clone(), salt }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.output_len() >= self.request.max_output as usize
    }

    pub(super) fn usage(&self) -> Usage {
        Usage {
            prompt: self.prompt_len(),
            cached: self.cached,
            external: self.external,
            output: self.output_len(),
        }
    }

    fn extend_hashes(&mut self, block_size: usize) {
        let mut parent = self.hashes.last().copied().unwrap_or(self.request.seed);
        for block in self.tokens.chunks_exact(block_size).skip(self.hashes.len()) {
            parent = next_hash(parent, block);
            self.hashes.push(parent);
        }
    }
}
