//! A client's stream, with what has to be known of it beside hyper.
//!
//! hyper answers a head that it cannot parse by itself, with a status and no word of what is wrong. What it writes
//! while no request is being served can only be that, so it is withheld here, and the proxy answers in its place.
//! Beyond that the stream is handed through: heads are looked at (see [`super::framing`]), bodies are not touched.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::framing::{Framing, Head};
use super::patience::Patient;
use super::tunnel::Tunnel;
use crate::net::Stream;

/// No request is being served, and the last answer is out.
const IDLE: u8 = 0;
/// A request is being served.
const SERVING: u8 = 1;
/// Its answer is in hyper's hands.
const ANSWERED: u8 = 2;

/// What the stream, the service and the answers of one connection tell each other. All of them run in one task.
#[derive(Debug)]
pub(super) struct Exchange {
    phase: AtomicU8,
    begun: AtomicU32,
    head: AtomicU8,
    /// What the connection becomes after the answer that is under way.
    tunnel: Mutex<Option<Box<Tunnel>>>,
}

impl Exchange {
    pub(super) const fn new() -> Self {
        Self {
            phase: AtomicU8::new(IDLE),
            begun: AtomicU32::new(0),
            head: AtomicU8::new(Head::Unseen as u8),
            tunnel: Mutex::new(None),
        }
    }

    /// A request has come: how its head framed it.
    pub(super) fn begin(&self) -> Head {
        self.phase.store(SERVING, Relaxed);
        self.begun.fetch_add(1, Relaxed);
        let head = self.head.swap(Head::Unseen as u8, Relaxed);
        [Head::Plain, Head::LengthAndEncoding, Head::Lengths]
            .into_iter()
            .find(|known| *known as u8 == head)
            .unwrap_or(Head::Unseen)
    }

    /// Requests so far.
    pub(super) fn begun(&self) -> u32 {
        self.begun.load(Relaxed)
    }

    /// After the answer that is under way the connection is another protocol's.
    pub(super) fn will_be(&self, tunnel: Tunnel) {
        *self.tunnel.lock() = Some(Box::new(tunnel));
    }

    /// What the connection is now, where it is no longer HTTP.
    pub(super) fn has_become(&self) -> Option<Box<Tunnel>> {
        self.tunnel.lock().take()
    }

    pub(super) fn idle(&self) -> bool {
        self.phase.load(Relaxed) == IDLE
    }
}

/// The body of an answer, after which the connection is idle again.
#[derive(Debug)]
pub(super) struct Last<B> {
    body: B,
    exchange: Arc<Exchange>,
}

impl<B> Last<B> {
    pub(super) const fn new(body: B, exchange: Arc<Exchange>) -> Self {
        Self { body, exchange }
    }
}

impl<B> Drop for Last<B> {
    fn drop(&mut self) {
        self.exchange.phase.store(ANSWERED, Relaxed);
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Last<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A client's stream.
#[derive(Debug)]
pub(super) struct Wire {
    stream: Patient<Stream>,
    exchange: Arc<Exchange>,
    framing: Framing,
    /// The client has closed its side.
    ended: bool,
}

impl Wire {
    pub(super) const fn new(stream: Patient<Stream>, exchange: Arc<Exchange>) -> Self {
        Self { stream, exchange, framing: Framing::new(), ended: false }
    }

    /// Whether no answer is under way, so that one more may be written.
    pub(super) fn idle(&self) -> bool {
        self.exchange.idle()
    }

    /// Whether the client may still send.
    pub(super) const fn open(&self) -> bool {
        !self.ended
    }

    /// The stream itself.
    pub(super) fn into_inner(self) -> Stream {
        self.stream.into_inner()
    }

    fn took(&mut self, bytes: &[u8]) {
        self.ended |= bytes.is_empty();
        self.framing.feed(bytes);
        if self.exchange.idle() {
            self.exchange.head.store(self.framing.seen() as u8, Relaxed);
        }
    }

    fn flushed(&mut self) {
        if self.exchange.phase.load(Relaxed) == ANSWERED {
            self.exchange.phase.store(IDLE, Relaxed);
            self.framing.next();
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Poll::Ready(Ok(())) = read {
            self.took(buffer.filled().get(before..).unwrap_or_default());
        }
        read
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.exchange.idle() {
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.exchange.idle() {
            return Poll::Ready(Ok(pieces.iter().map(|piece| piece.len()).sum()));
        }
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() {
            self.flushed();
        }
        flushed
    }

    /// Nothing yet: a last word may have to be said, and it is for [`super::farewell`] to close.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
