//! Bodies of answers: whole ones, and streams that follow a generation.

use super::api::Shape;
use super::error::ApiError;
use super::faults::{Fault, Mode};
use super::node::Generation;
use crate::scheduler::{Event, Usage};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The connection is to break here.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("connection cut by a fault")]
pub(super) struct Cut;

/// The body of an answer.
pub(super) type Body = UnsyncBoxBody<Bytes, Cut>;

/// A whole body of bytes.
fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

fn with_type(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// An answer in JSON.
pub(super) fn json(status: StatusCode, value: &Value) -> Response<Body> {
    with_type(status, "application/json", whole(value.to_string()))
}

/// A good answer whose JSON is written already.
pub(super) fn written(json: String) -> Response<Body> {
    with_type(StatusCode::OK, "application/json", whole(json))
}

/// A Prometheus page.
pub(super) fn text(page: String) -> Response<Body> {
    with_type(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", whole(page))
}

/// An answer of a status alone.
pub(super) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(whole(Bytes::new()));
    *response.status_mut() = status;
    response
}

/// An error in the API's shape.
pub(super) fn error(error: &ApiError, anthropic: bool) -> Response<Body> {
    json(error.status, &if anthropic { error.anthropic() } else { error.openai() })
}

/// A JSON answer whose connection breaks half way.
pub(super) fn half(text: &str) -> Response<Body> {
    let part = Bytes::copy_from_slice(text.as_bytes().get(..text.len() / 2).unwrap_or_default());
    let body = HalfBody { part: Some(part), flushed: false }.boxed_unsync();
    let mut response = with_type(StatusCode::OK, "application/json", body);
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
    response
}

struct HalfBody {
    part: Option<Bytes>,
    flushed: bool,
}

impl http_body::Body for HalfBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        match self.part.take() {
            Some(part) => Poll::Ready(Some(Ok(Frame::data(part)))),
            None => cut(cx, &mut self.flushed),
        }
    }
}

/// Breaks the connection, but not before it has sent what it was given: it does so when there is nothing more for now.
fn cut(cx: &Context<'_>, flushed: &mut bool) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
    if std::mem::replace(flushed, true) {
        return Poll::Ready(Some(Err(Cut)));
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// A stream of server-sent events that follows `generation`.
///
/// Each prompt is counted once, though it has `n` answers.
pub(super) fn stream(
    generation: Generation,
    shape: Box<dyn Shape>,
    fault: Option<Fault>,
    n: u32,
) -> Response<Body> {
    let body = EventBody {
        generation,
        shape,
        fault,
        n,
        tokens: 0,
        total: Usage::default(),
        end: End::Open,
        flushed: false,
    };
    let mut response = with_type(StatusCode::OK, "text/event-stream; charset=utf-8", body.boxed_unsync());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    Done,
    Cut,
    Hung,
}

struct EventBody {
    generation: Generation,
    shape: Box<dyn Shape>,
    fault: Option<Fault>,
    n: u32,
    tokens: u64,
    total: Usage,
    end: End,
    flushed: bool,
}

impl EventBody {
    /// Writes what `event` says, and returns how the stream goes on.
    fn write(&mut self, choice: usize, event: Event, out: &mut String) -> End {
        match event {
            Event::Fetched { .. } => {}
            Event::Token { token, .. } => {
                if let Some(end) = self.strike(out) {
                    return end;
                }
                self.tokens += 1;
                let mut text = String::with_capacity(4);
                self.generation.token_text(token, &mut text);
                self.shape.delta(choice, &text, out);
            }
            Event::Finished { finish, usage, .. } => {
                self.total.prompt += usage.prompt;
                self.total.cached += usage.cached;
                self.total.external += usage.external;
                self.total.output += usage.output;
                self.shape.end(choice, finish, out);
            }
        }
        End::Open
    }

    /// Whether the fault comes before the next token.
    fn strike(&self, out: &mut String) -> Option<End> {
        let fault = self.fault.as_ref().filter(|fault| self.tokens >= fault.after_tokens)?;
        self.generation.note_fault();
        match fault.mode {
            Mode::Cut => Some(End::Cut),
            Mode::Hang => Some(End::Hung),
            Mode::Error => {
                let status = StatusCode::from_u16(fault.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                self.shape.failure(&ApiError::new(status, "simulated error"), out);
                Some(End::Done)
            }
            Mode::None | Mode::Refuse | Mode::Slow => None,
        }
    }
}

impl http_body::Body for EventBody {
    type Data = Bytes;
    type Error = Cut;

    /// All that is there becomes one frame: a client that is slow gets few large ones.
    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let this = &mut *self;
        let mut out = String::new();
        while this.end == End::Open {
            match this.generation.poll_next(cx) {
                Poll::Pending => break,
                Poll::Ready(Some((choice, event))) => this.end = this.write(choice, event, &mut out),
                Poll::Ready(None) => {
                    this.total.prompt /= this.n.max(1) as usize;
                    this.shape.close(&this.total, &mut out);
                    this.end = End::Done;
                }
            }
        }
        if !out.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from(out)))));
        }
        match this.end {
            End::Open | End::Hung => Poll::Pending,
            End::Done => Poll::Ready(None),
            End::Cut => cut(cx, &mut this.flushed),
        }
    }
}
