//! Comments in the stream of a client that waits, so that nothing between it and us gives it up.
//!
//! A request that asks for a stream, and whose answer has not begun after the pool's `keep_alive_ms`, is answered 200
//! with a stream of comments until the answer comes. What is wrong from then on can only be told as an event of the
//! stream, in the API's own shape.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http_body::{Body, Frame};
use hyper::{Response, StatusCode};
use tokio::time::{Instant, Sleep};

use super::Service;
use super::body::{Answer, Streamed};
use super::headers::mark;
use crate::api::{self, ApiError};
use crate::policy::Request;
use crate::types::Api;

/// A line that clients of event streams pass over.
const COMMENT: &[u8] = b": waiting\n\n";
/// Bytes of an error that are passed on.
const MAX_ERROR: usize = 16_384;

type Answering = Pin<Box<dyn Future<Output = Response<Answer>> + Send>>;

/// How often a request's client is told that it waits; none where it cannot be.
pub(super) fn wanted(service: &Service, request: &Request) -> Option<Duration> {
    let streams = matches!(request.api, Api::Chat | Api::Completions | Api::Responses | Api::Messages);
    service.config.queue.keep_alive.filter(|_| request.streaming && streams)
}

/// The answer, or after a while a stream that becomes the answer.
pub(super) async fn within(mut answer: Answering, request: &Request, every: Duration) -> Response<Answer> {
    if let Ok(answered) = tokio::time::timeout(every, &mut answer).await {
        return answered;
    }
    let held = Held {
        api: request.api,
        every,
        timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
        state: State::Waits(answer),
    };
    let mut response = Response::new(Answer::Coming(Streamed::Held(Box::new(held))));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    mark(headers, &request.id);
    response
}

enum State {
    Waits(Answering),
    Answered(Answer),
    /// An answer that is no stream: it becomes an event.
    Fails(StatusCode, Answer, BytesMut),
    Over,
}

/// A stream whose answer has not begun.
pub(super) struct Held {
    api: Api,
    every: Duration,
    timer: Pin<Box<Sleep>>,
    state: State,
}

impl Held {
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        loop {
            match &mut self.state {
                State::Waits(answer) => match answer.as_mut().poll(context) {
                    Poll::Ready(answered) => {
                        let (head, body) = answered.into_parts();
                        self.state = match head.status {
                            StatusCode::OK => State::Answered(body),
                            status => State::Fails(status, body, BytesMut::new()),
                        };
                    }
                    Poll::Pending => {
                        ready!(self.timer.as_mut().poll(context));
                        self.timer.as_mut().reset(Instant::now() + self.every);
                        return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(COMMENT)))));
                    }
                },
                State::Answered(body) => return Pin::new(body).poll_frame(context),
                State::Fails(status, body, told) => match ready!(Pin::new(body).poll_frame(context)) {
                    Some(Ok(frame)) => {
                        let data = frame.into_data().unwrap_or_default();
                        let room = MAX_ERROR.saturating_sub(told.len());
                        told.extend_from_slice(data.get(..room.min(data.len())).unwrap_or_default());
                    }
                    _ => {
                        let event = event(self.api, *status, told);
                        self.state = State::Over;
                        return Poll::Ready(Some(Ok(Frame::data(event))));
                    }
                },
                State::Over => return Poll::Ready(None),
            }
        }
    }

    pub(super) fn is_over(&self) -> bool {
        match &self.state {
            State::Over => true,
            State::Answered(body) => body.is_end_stream(),
            _ => false,
        }
    }
}

/// An answer of an error as an event, with the words that the error has.
fn event(api: Api, status: StatusCode, told: &[u8]) -> Bytes {
    let json: serde_json::Value = serde_json::from_slice(told).unwrap_or_default();
    let said = json.get("error").unwrap_or(&json).get("message").and_then(serde_json::Value::as_str);
    let message = said.map_or_else(|| String::from_utf8_lossy(told).into_owned(), str::to_owned);
    api::error::event(api, &ApiError::new(status, "request_failed", message))
}
