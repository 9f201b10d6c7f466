//! What the scheduler reports.

use super::config::Nanos;
use super::lease::Pinned;
use super::sequence::SequenceId;
use crate::text::Token;

/// Why a sequence ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The model was done.
    Stop,
    /// The limit of the request was reached.
    Length,
}

impl Finish {
    /// The OpenAI name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
        }
    }
}

/// What a sequence cost, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Of those, the ones not computed here: found in the cache or fetched from another engine.
    pub cached: usize,
    /// Of the cached ones, those fetched from another engine.
    pub external: usize,
    /// Tokens of the answer.
    pub output: usize,
}

/// Something that happened to one sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The cache of the prompt has arrived from the prefill engine, which may let go of it.
    Fetched {
        /// Whose cache.
        id: SequenceId,
    },
    /// A token was generated.
    Token {
        /// Which sequence.
        id: SequenceId,
        /// The token.
        token: Token,
        /// When.
        at: Nanos,
    },
    /// The sequence is complete.
    Finished {
        /// Which sequence.
        id: SequenceId,
        /// Why.
        finish: Finish,
        /// What it cost.
        usage: Usage,
        /// The blocks kept for a decode engine, when that was asked for.
        pinned: Option<Pinned>,
        /// When.
        at: Nanos,
    },
}

impl Event {
    /// The sequence it is about.
    #[must_use]
    pub const fn id(&self) -> SequenceId {
        match self {
            Self::Fetched { id } | Self::Token { id, .. } | Self::Finished { id, .. } => *id,
        }
    }
}
