//! Events made by hand.

use super::table::Table;
use crate::{Column, EventKind, EventsView};

/// One event. NaN stands for what does not apply.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The request's id.
    pub request: String,
    /// What happened.
    pub kind: EventKind,
    /// The flow's handle.
    pub flow: f32,
    /// The band that the request was placed in.
    pub band: f32,
    /// The endpoint's handle.
    pub endpoint: f32,
    /// When, in milliseconds.
    pub at_ms: f32,
    /// Prompt length, tokens.
    pub prompt_tokens: f32,
    /// Prompt tokens found in the engine's cache.
    pub cached_tokens: f32,
    /// Output tokens so far.
    pub output_tokens: f32,
}

impl Event {
    /// An event of a request of which nothing else is known.
    #[must_use]
    pub fn new(request: &str, kind: EventKind) -> Self {
        Self {
            request: request.into(),
            kind,
            flow: f32::NAN,
            band: f32::NAN,
            endpoint: f32::NAN,
            at_ms: f32::NAN,
            prompt_tokens: f32::NAN,
            cached_tokens: f32::NAN,
            output_tokens: f32::NAN,
        }
    }
}

/// A batch of events.
#[derive(Debug, Clone, Default)]
pub struct Events {
    requests: Vec<String>,
    table: Table,
}

impl Events {
    /// A batch, in order.
    #[must_use]
    pub fn new(events: impl IntoIterator<Item = Event>) -> Self {
        let mut batch = Self::default();
        for event in events {
            let row = batch.table.push_row();
            let kind = match event.kind {
                EventKind::Dispatched => 0.0,
                EventKind::FirstToken => 1.0,
                EventKind::Completed => 2.0,
                EventKind::Failed => 3.0,
                EventKind::Cancelled => 4.0,
                EventKind::Other => 99.0,
            };
            let values = [
                ("event.kind", kind),
                ("event.flow", event.flow),
                ("event.band", event.band),
                ("event.endpoint", event.endpoint),
                ("event.at_ms", event.at_ms),
                ("event.prompt_tokens", event.prompt_tokens),
                ("event.cached_tokens", event.cached_tokens),
                ("event.output_tokens", event.output_tokens),
            ];
            values.into_iter().for_each(|(name, value)| batch.table.set_one(name, row, value));
            batch.requests.push(event.request);
        }
        batch
    }
}

impl EventsView for Events {
    fn len(&self) -> usize {
        self.table.rows()
    }
    fn column(&self, column: Column) -> Vec<f32> {
        self.table.column(column)
    }
    fn request(&self, position: usize) -> String {
        self.requests.get(position).cloned().unwrap_or_default()
    }
}
