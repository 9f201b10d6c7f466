//! What happened to requests, as observers hear it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::columns::Builtin;
use crate::types::EndpointId;

/// The kind of an event; the number is the value of `event.kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum EventKind {
    /// Sent to an endpoint.
    Dispatched = 0,
    /// The first token came back.
    FirstToken = 1,
    /// Answered whole.
    Completed = 2,
    /// Failed at the last endpoint tried.
    Failed = 3,
    /// The client went away.
    Cancelled = 4,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The request's id.
    pub request: Arc<str>,
    /// The flow's handle, as in `flows.ids`; none where the request was never placed.
    pub flow: Option<u32>,
    /// The band that it was placed in; none where it never was.
    #[serde(default)]
    pub band: Option<i32>,
    /// The endpoint, if one was picked.
    pub endpoint: Option<EndpointId>,
    /// Milliseconds of the host's clock.
    pub at_ms: u64,
    /// Prompt length in tokens; as reported once the engine has reported it.
    pub prompt_tokens: u32,
    /// Tokens found in the engine's prefix cache, when it said so.
    pub cached_tokens: Option<u32>,
    /// Output tokens so far.
    pub output_tokens: u32,
}

impl Event {
    /// The event's value in an `event.*` column; none where it does not apply.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "columns are f32 by contract")]
    pub fn value(&self, column: Builtin) -> Option<f32> {
        match column {
            Builtin::EventKind => Some(f32::from(self.kind as u8)),
            Builtin::EventFlow => self.flow.map(|flow| flow as f32),
            Builtin::EventBand => self.band.map(|band| band as f32),
            Builtin::EventEndpoint => self.endpoint.map(|endpoint| endpoint.0 as f32),
            Builtin::EventAtMs => Some(self.at_ms as f32),
            Builtin::EventPromptTokens => Some(self.prompt_tokens as f32),
            Builtin::EventCachedTokens => self.cached_tokens.map(|tokens| tokens as f32),
            Builtin::EventOutputTokens => Some(self.output_tokens as f32),
            _ => None,
        }
    }
}
