//! What an answer says of itself, read as it goes by.
//!
//! An answer is relayed in pieces that end anywhere, and nothing here may slow it down: of a stream only
//! lines that a piece cut in two are copied, of any other answer its beginning and its end. Of one line or
//! answer no more than 64 KiB at its beginning and 8 KiB at its end are kept; usage stands at one of them.
//! The result does not depend on where the pieces end.

mod answer_id;
mod event;
mod lines;
mod tokens;

pub use self::answer_id::AnswerId;
use self::event::Event;
use self::lines::{Lines, Window};
use self::tokens::Tokens;
use crate::types::{Api, Usage};

/// Watches one answer.
#[derive(Debug)]
pub struct UsageScan {
    seen: Seen,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Stream(Lines),
    Whole(Window),
}

/// What the answer has said so far.
#[derive(Debug)]
struct Seen {
    api: Api,
    tokens: Tokens,
    chunks: u32,
    ended: bool,
}

impl UsageScan {
    /// A scan of an answer of `api`: a stream of server-sent events, or one JSON value.
    #[must_use]
    pub fn new(api: Api, streaming: bool) -> Self {
        let seen = Seen { api, tokens: Tokens::default(), chunks: 0, ended: false };
        let body = if streaming { Body::Stream(Lines::default()) } else { Body::Whole(Window::default()) };
        Self { seen, body }
    }

    /// The next piece of the answer.
    pub fn feed(&mut self, chunk: &[u8]) {
        match &mut self.body {
            Body::Stream(lines) => lines.feed(chunk, |event| self.seen.take(event)),
            Body::Whole(window) => window.push(chunk),
        }
    }

    /// Whether the model has begun to answer. An answer that is no stream has when it has a first byte.
    #[must_use]
    pub fn first_token_seen(&self) -> bool {
        match &self.body {
            Body::Stream(_) => self.seen.chunks > 0,
            Body::Whole(window) => window.len() > 0,
        }
    }

    /// Events with content so far, which is about the output tokens of a stream that tells no usage.
    #[must_use]
    pub fn chunks(&self) -> u32 {
        self.seen.chunks
    }

    /// Whether the stream has said that it is complete; never so of an answer that is no stream.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.seen.ended
    }

    /// Whether a further event may be sent now: the stream stands between two.
    #[must_use]
    pub fn between_events(&self) -> bool {
        match &self.body {
            Body::Stream(lines) => lines.between_events(),
            Body::Whole(_) => false,
        }
    }

    /// Usage as far as it is known.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        match &self.body {
            Body::Stream(_) => self.seen.tokens.usage(self.seen.api),
            Body::Whole(window) => window.answer().usage(self.seen.api),
        }
    }

    /// Usage of the whole answer. A last line without its end counts.
    #[must_use]
    pub fn finish(mut self) -> Option<Usage> {
        if let Body::Stream(lines) = &mut self.body {
            lines.end(|event| self.seen.take(event));
        }
        self.usage()
    }
}

impl Seen {
    fn take(&mut self, event: Event) {
        self.tokens.update(event.tokens);
        self.chunks = self.chunks.saturating_add(u32::from(event.content));
        self.ended |= event.ends;
    }
}

#[cfg(test)]
mod tests;
