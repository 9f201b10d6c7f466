//! The bodies that go out: to clients and to engines.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::idle::Upload;
use super::keep_alive::Held;
use super::relay::Relay;

/// A body of our own, or one that comes from elsewhere as it is sent.
pub(super) enum Outgoing<B> {
    /// Bytes in memory.
    Whole(Option<Bytes>),
    /// Bytes as they come; can be sent once.
    Coming(B),
}

/// The body of an answer to a client: our own words, or an engine's answer.
pub(super) type Answer = Outgoing<Streamed>;
/// The body of a request to an engine: one that was read, or a client's.
pub(super) type Sent = Outgoing<Upload>;

/// What comes of an answer as it is sent.
pub(super) enum Streamed {
    /// An engine's answer.
    Relay(Box<Relay>),
    /// An answer that has not begun.
    Held(Box<Held>),
}

impl Body for Streamed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Self::Relay(relay) => Pin::new(relay).poll_frame(context),
            Self::Held(held) => held.poll(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Relay(relay) => relay.is_end_stream(),
            Self::Held(held) => held.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Relay(relay) => relay.size_hint(),
            Self::Held(_) => SizeHint::default(),
        }
    }
}

impl<B> Outgoing<B> {
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()))
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Outgoing<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) => {
                let bytes = bytes.take().filter(|bytes| !bytes.is_empty());
                Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
            Self::Coming(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Self::Coming(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Coming(body) => body.size_hint(),
        }
    }
}
