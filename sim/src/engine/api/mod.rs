//! The APIs: what their bodies ask for, and the shapes of their answers.

mod chat;
mod completions;
mod embeddings;
mod listing;
mod messages;
mod parse;
mod responses;

use super::error::ApiError;
use crate::scheduler::{Finish, Usage};
use serde_json::Value;
use std::fmt::Write;

pub(super) use listing::{count_tokens, models, tokenize};
pub(super) use parse::{Parsed, parse};

/// Which API a request came through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Api {
    Chat,
    Completions,
    Responses,
    Messages,
    Embeddings,
}

impl Api {
    pub(super) fn of_path(path: &str) -> Option<Self> {
        Some(match path {
            "/v1/chat/completions" => Self::Chat,
            "/v1/completions" => Self::Completions,
            "/v1/responses" => Self::Responses,
            "/v1/messages" => Self::Messages,
            "/v1/embeddings" => Self::Embeddings,
            _ => return None,
        })
    }

    /// What vLLM puts before the request id.
    pub(super) const fn id_prefix(self) -> &'static str {
        match self {
            Self::Chat => "chatcmpl-",
            Self::Completions => "cmpl-",
            Self::Responses => "resp_",
            Self::Messages => "msg_",
            Self::Embeddings => "embd-",
        }
    }
}

/// What every part of an answer says.
#[derive(Debug, Clone)]
pub(super) struct Meta {
    pub(super) id: String,
    pub(super) model: String,
    /// Seconds since 1970.
    pub(super) created: u64,
    pub(super) prompt_tokens: usize,
    /// Whether a stream ends with its usage.
    pub(super) include_usage: bool,
}

/// One answer among those of a request.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) text: String,
    pub(super) finish: Finish,
}

/// How an API writes its answer.
pub(super) trait Shape: Send {
    /// A piece of the text of one choice.
    fn delta(&mut self, choice: usize, text: &str, out: &mut String);
    /// One choice is complete.
    fn end(&mut self, choice: usize, finish: Finish, out: &mut String);
    /// All are.
    fn close(&mut self, usage: &Usage, out: &mut String);
    /// The stream ends with an error.
    fn failure(&self, error: &ApiError, out: &mut String);
    /// The answer without a stream.
    fn whole(&self, choices: &[Choice], usage: &Usage, handover: Option<Value>) -> String;
}

/// The shape of `api`'s answers.
pub(super) fn shape(api: Api, meta: Meta) -> Box<dyn Shape> {
    match api {
        Api::Chat => Box::new(chat::Chat::new(meta)),
        Api::Completions => Box::new(completions::Completions::new(meta)),
        Api::Responses => Box::new(responses::Responses::new(meta)),
        Api::Messages => Box::new(messages::Messages::new(meta)),
        Api::Embeddings => Box::new(embeddings::Embeddings::new(meta)),
    }
}

/// OpenAI's usage, with the details that vLLM adds.
fn usage_json(usage: &Usage) -> String {
    format!(
        "{{\"prompt_tokens\":{},\"total_tokens\":{},\"completion_tokens\":{},\
         \"prompt_tokens_details\":{{\"cached_tokens\":{}}}}}",
        usage.prompt,
        usage.prompt + usage.output,
        usage.output,
        usage.cached
    )
}

/// The fields that an OpenAI answer begins with, in vLLM's order and without the closing brace.
fn head(meta: &Meta, object: &str) -> String {
    let (id, model) = (Value::from(meta.id.as_str()), Value::from(meta.model.as_str()));
    format!("{{\"id\":{id},\"object\":\"{object}\",\"created\":{},\"model\":{model}", meta.created)
}

/// An event without a name.
fn data(value: &Value, out: &mut String) {
    // Writing to a String cannot fail.
    let _ = write!(out, "data: {value}\n\n");
}

/// An event that is named by its type.
fn event(name: &str, value: &Value, out: &mut String) {
    let _ = write!(out, "event: {name}\ndata: {value}\n\n");
}
