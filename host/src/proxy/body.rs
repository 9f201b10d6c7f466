//! The bodies that go out: to clients and to engines.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::relay::Relay;

/// The body of an answer to a client.
pub(super) enum Answer {
    /// Our own words.
    Whole(Option<Bytes>),
    /// An engine's answer as it comes.
    Relay(Box<Relay>),
}

impl Answer {
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()))
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(take(bytes)),
            Self::Relay(relay) => relay.poll(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Self::Relay(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => exactly(bytes.as_ref()),
            Self::Relay(relay) => relay.size_hint(),
        }
    }
}

/// The body of a request to an engine.
pub(super) enum Sent {
    /// Bytes in memory; may be sent again.
    Whole(Option<Bytes>),
    /// A client's body as it comes; can be sent once.
    Stream(Incoming),
}

impl Body for Sent {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(take(bytes)),
            Self::Stream(incoming) => Pin::new(incoming).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Self::Stream(incoming) => incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => exactly(bytes.as_ref()),
            Self::Stream(incoming) => incoming.size_hint(),
        }
    }
}

fn take(bytes: &mut Option<Bytes>) -> Option<Result<Frame<Bytes>, hyper::Error>> {
    bytes.take().filter(|bytes| !bytes.is_empty()).map(|bytes| Ok(Frame::data(bytes)))
}

fn exactly(bytes: Option<&Bytes>) -> SizeHint {
    SizeHint::with_exact(bytes.map_or(0, |bytes| bytes.len() as u64))
}
