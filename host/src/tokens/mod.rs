//! The model's own tokens: from the body of a request to the ids that its engine is going to compute.
//!
//! A [`Tokenizer`] is a model's folder in Hugging Face's layout. [`Tokenizer::tokens`] does what vLLM does with a
//! body: it turns the API's shape into chat messages ([`render`]), renders these with the model's own template
//! ([`template`]) and tokenizes the text ([`vocabulary`]). Either the ids are the engine's, or there are none and
//! [`NoTokens`] says why: what this module does not know for certain it does not guess. Then the canonical prompt
//! and its four bytes a token remain.
//!
//! Text is cut where tokenizing cannot look across, and the pieces' ids are kept ([`cache`]): of a conversation's
//! next turn only what is new costs anything. A cold prompt of a million tokens takes the better part of a second,
//! and so nothing here runs on the threads that serve requests: [`Workers`] do it, and whoever asked waits as long
//! as it likes. Input, output and the template's steps are bounded, and a panic of a library ends one job.

mod cache;
mod folder;
mod render;
mod settings;
mod template;
mod tokenizer;
mod value;
mod vocabulary;
mod workers;

pub use folder::LoadError;
pub use tokenizer::Tokenizer;
pub use workers::{Tokenized, Wanted, Workers};

/// Why the tokens of a request are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NoTokens {
    /// Images, sound or video.
    #[error("it holds images, sound or video")]
    Media,
    /// Vectors in the place of text.
    #[error("it holds embeddings in the place of text")]
    Embeddings,
    /// More than one prompt.
    #[error("it holds several prompts")]
    Several,
    /// A part, item or option whose rendering is not known here.
    #[error("it holds something whose rendering is not known")]
    Unknown,
    /// Text that is no Unicode, or no JSON.
    #[error("it is not made of JSON and Unicode")]
    Unreadable,
    /// What the engine is going to refuse, or its template.
    #[error("the engine or its template refuses it")]
    Refused,
    /// The engine is asked to shorten the prompt.
    #[error("the engine is to shorten the prompt")]
    Truncated,
    /// The model has no template, or one that is not rendered here.
    #[error("the model's conversations are not rendered by a template that is known here")]
    NoTemplate,
    /// More text, or more steps of the template, than the bounds allow.
    #[error("it is over the bounds of what is tokenized")]
    TooLarge,
    /// A path without a prompt.
    #[error("it has no prompt")]
    NoPrompt,
    /// Too many wait to be tokenized.
    #[error("too many wait to be tokenized")]
    Busy,
    /// It took longer than the request waits.
    #[error("tokenizing took longer than the request waits")]
    Late,
    /// The tokenizer failed, or panicked.
    #[error("the tokenizer failed")]
    Failed,
}

impl NoTokens {
    /// The reason's name in metrics and explanations.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Media => "media",
            Self::Embeddings => "embeddings",
            Self::Several => "several_prompts",
            Self::Unknown => "unknown_part",
            Self::Unreadable => "unreadable",
            Self::Refused => "refused",
            Self::Truncated => "truncated",
            Self::NoTemplate => "no_template",
            Self::TooLarge => "too_large",
            Self::NoPrompt => "no_prompt",
            Self::Busy => "busy",
            Self::Late => "late",
            Self::Failed => "failed",
        }
    }
}

#[cfg(test)]
#[path = "golden_tests.rs"]
mod tests;
