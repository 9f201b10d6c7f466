//! Giving up on a side that sends nothing for too long.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

/// A time within which something has to come, again and again.
pub(super) struct Idle {
    pub(super) timeout: Duration,
    sleep: Pin<Box<Sleep>>,
    last: Instant,
    end: Option<Instant>,
}

/// Which time is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expired {
    /// That in which something had to come.
    Idle,
    /// That for everything.
    Whole,
}

impl Idle {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, sleep: Box::pin(tokio::time::sleep(timeout)), last: Instant::now(), end: None }
    }

    /// With an end for everything, this far away.
    pub(super) fn ending(mut self, left: Option<Duration>) -> Self {
        if let Some(left) = left {
            self.end = Some(self.last + left);
            let due = self.due();
            self.sleep.as_mut().reset(due);
        }
        self
    }

    fn due(&self) -> Instant {
        let idle = self.last + self.timeout;
        self.end.map_or(idle, |end| end.min(idle))
    }

    /// Something has come.
    pub(super) fn moved(&mut self) {
        self.last = Instant::now();
    }

    /// Whether a time is up. The timer is moved only when it fires: pieces come far more often.
    pub(super) fn expired(&mut self, context: &mut Context<'_>) -> Option<Expired> {
        while self.sleep.as_mut().poll(context).is_ready() {
            let (due, now) = (self.due(), Instant::now());
            if due <= now {
                return Some(if self.end.is_some_and(|end| end <= now) {
                    Expired::Whole
                } else {
                    Expired::Idle
                });
            }
            self.sleep.as_mut().reset(due);
        }
        None
    }
}

/// Why a client's body has no end.
#[derive(Debug, thiserror::Error)]
pub(super) enum UploadError {
    /// It broke off, or is no body.
    #[error("the client's body broke off")]
    Broken(#[source] hyper::Error),
    /// It stopped coming.
    #[error("the client's body stopped coming for {} ms", .0.as_millis())]
    Late(Duration),
}

/// A client's body on its way through to an engine.
pub(super) struct Upload {
    body: Incoming,
    idle: Idle,
    /// Whether the engine waits for the client; before that the client may have waited for the engine.
    waiting: bool,
}

impl Upload {
    /// Gives up when the client sends nothing for `timeout`.
    pub(super) fn new(body: Incoming, timeout: Duration) -> Self {
        Self { body, idle: Idle::new(timeout), waiting: false }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = UploadError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        let Self { body, idle, waiting } = self.get_mut();
        match Pin::new(body).poll_frame(context) {
            Poll::Ready(frame) => {
                *waiting = false;
                Poll::Ready(frame.map(|frame| frame.map_err(UploadError::Broken)))
            }
            Poll::Pending => {
                if !std::mem::replace(waiting, true) {
                    idle.moved();
                }
                if idle.expired(context).is_some() {
                    return Poll::Ready(Some(Err(UploadError::Late(idle.timeout))));
                }
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
