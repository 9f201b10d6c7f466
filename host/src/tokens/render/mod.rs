//! From the body of each API to a prompt: a text to tokenize, or ids that are there already.
//!
//! The APIs of conversations become the messages that vLLM makes of them ([`messages`], [`responses`]), and these
//! one text by the model's template ([`chat`]).

mod chat;
mod completions;
mod content;
mod messages;
mod responses;
mod tools;

use minijinja::value::Value;

use super::NoTokens;
use super::template::Templates;
use crate::types::Api;

/// Longest body that is read, bytes: some four million tokens.
const MAX_BODY: usize = 16 << 20;

/// What is to be tokenized.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Prompt {
    /// A text; `special` when the model's special tokens are put around it.
    Text { text: String, special: bool },
    /// Ids, as the client sent them.
    Ids(Vec<u32>),
}

/// What a model knows of conversations: its templates, and the special tokens that these may name.
pub(super) struct Conversations<'t> {
    /// None where the model has none that is rendered here.
    pub(super) templates: Option<&'t Templates>,
    pub(super) specials: &'t [(&'static str, String)],
}

/// The prompt that an engine makes of a body of `api`.
pub(super) fn prompt(api: Api, body: &[u8], conversations: &Conversations<'_>) -> Result<Prompt, NoTokens> {
    if body.len() > MAX_BODY {
        return Err(NoTokens::TooLarge);
    }
    let body: Value = match api {
        Api::Other => return Err(NoTokens::NoPrompt),
        _ => serde_json::from_slice(body).map_err(|_| NoTokens::Unreadable)?,
    };
    match api {
        Api::Chat => chat::Chat::of(&body)?.render(conversations),
        Api::Messages => messages::chat(&body, conversations)?.render(conversations),
        Api::Responses => responses::chat(&body)?.render(conversations),
        Api::Completions => completions::prompt(&body, &["prompt"]),
        Api::Generate => completions::prompt(&body, &["prompt", "text", "input_ids", "token_ids"]),
        Api::Embeddings => completions::prompt(&body, &["input"]),
        Api::Other => Err(NoTokens::NoPrompt),
    }
}
