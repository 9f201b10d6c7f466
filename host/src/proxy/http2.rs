//! Clients that speak HTTP/2: from the first byte on, or because TLS agreed on it.
//!
//! A connection carries many requests. It is let go when it has carried none for the time that a head may take, and
//! closed when an answer waits in it for longer than a client may take; whether the client is still there is asked by
//! pings.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::Instant;

use super::arrival::Origin;
use super::framing::Head;
use super::patience::Patient;
use super::service::{self, Conversation};
use super::{Proxy, Stop};
use crate::net::Stream;
use crate::telemetry::Limit;
use crate::types::Api;

/// What a client sends first.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Requests of one connection at a time.
const STREAMS: u32 = 256;
/// Bytes that a client may send ahead, of one request and of all.
const WINDOWS: (u32, u32) = (256 << 10, 4 << 20);
/// After this time without a word a client is asked whether it is still there, and for this long.
const ALIVE: Duration = Duration::from_secs(20);

/// Time that a client has to answer a goodbye.
const GOODBYE: Duration = Duration::from_secs(1);

/// Whether what a client has sent is the beginning of HTTP/2.
pub(super) fn begins(sent: &[u8]) -> bool {
    let seen = sent.get(..PREFACE.len()).unwrap_or(sent);
    !seen.is_empty() && PREFACE.starts_with(seen)
}

/// Serves a connection to its end. `left` is what has been read of it already.
pub(super) async fn serve(
    stream: Stream,
    left: Bytes,
    origin: Origin,
    current: Arc<ArcSwap<Proxy>>,
    mut shutdown: watch::Receiver<Stop>,
) {
    let proxy = current.load_full();
    let limits = &proxy.limits;
    let streams = Arc::new(Streams::default());
    let service = service_fn(|request| {
        let (proxy, open) = (current.load_full(), Open::new(&streams));
        async move {
            let conversation = Conversation { framed: Head::Plain, origin, exchange: None };
            let answer = service::answer(proxy, request, conversation).await;
            Ok::<_, Infallible>(answer.map(|body| Counted { body, open }))
        }
    });
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(WINDOWS.0)
        .initial_connection_window_size(WINDOWS.1)
        .keep_alive_interval(ALIVE)
        .keep_alive_timeout(ALIVE);
    let stream = Patient::new(stream, limits.write_timeout, Arc::clone(&proxy.usage));
    let io = TokioIo::new(Rewound { left, stream });
    let mut connection = pin!(builder.serve_connection(io, service));
    let mut ending = false;
    loop {
        let served = tokio::select! {
            served = connection.as_mut() => served,
            _ = shutdown.wait_for(|stop| *stop != Stop::No), if !ending => {
                ending = true;
                connection.as_mut().graceful_shutdown();
                continue;
            }
            () = streams.quiet(if ending { GOODBYE } else { limits.header_timeout }) => {
                // A client that does not answer the goodbye is not waited for.
                if ending {
                    return;
                }
                ending = true;
                connection.as_mut().graceful_shutdown();
                continue;
            }
            () = streams.stuck(limits.write_timeout) => {
                proxy.usage.hit(Limit::WriteTime);
                return;
            }
        };
        if let Err(error) = served {
            tracing::debug!(peer = %origin.peer, %error, "connection ended");
            if is_protocol_error(&error) {
                proxy.unrouted.request(Api::Other, 400, 0.0);
            }
        }
        return;
    }
}

/// Whether the client said what no client may say; its connection's end is no such thing.
fn is_protocol_error(error: &hyper::Error) -> bool {
    let mut causes = std::iter::successors(std::error::Error::source(error), |cause| (*cause).source());
    !causes.any(|cause| cause.is::<io::Error>())
}

/// The requests of a connection.
#[derive(Debug, Default)]
struct Streams {
    open: AtomicUsize,
    /// Requests so far.
    count: AtomicU64,
    answers: Mutex<Vec<Arc<Waits>>>,
}

/// Since when a piece of an answer waits to be taken.
#[derive(Debug, Default)]
struct Waits(Mutex<Option<Instant>>);

impl Streams {
    /// Returns when there was no request for this time.
    async fn quiet(&self, time: Duration) {
        loop {
            let before = self.count.load(Relaxed);
            tokio::time::sleep(time).await;
            if self.open.load(Relaxed) == 0 && self.count.load(Relaxed) == before {
                return;
            }
        }
    }

    /// Returns when a piece of an answer waits for longer than this time.
    async fn stuck(&self, time: Duration) {
        loop {
            tokio::time::sleep(time / 2).await;
            let late = |waits: &Arc<Waits>| waits.0.lock().is_some_and(|since| since.elapsed() > time);
            if self.answers.lock().iter().any(late) {
                return;
            }
        }
    }
}

/// One request of a connection; over when it is dropped.
#[derive(Debug)]
struct Open {
    streams: Arc<Streams>,
    waits: Arc<Waits>,
}

impl Open {
    fn new(streams: &Arc<Streams>) -> Self {
        streams.open.fetch_add(1, Relaxed);
        streams.count.fetch_add(1, Relaxed);
        let waits = Arc::<Waits>::default();
        streams.answers.lock().push(Arc::clone(&waits));
        Self { streams: Arc::clone(streams), waits }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.streams.open.fetch_sub(1, Relaxed);
        self.streams.answers.lock().retain(|known| !Arc::ptr_eq(known, &self.waits));
    }
}

/// The body of an answer, as part of its connection's requests. hyper asks for the next piece when the client has room
/// for it.
struct Counted<B> {
    body: B,
    open: Open,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Counted<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let waits = matches!(frame, Poll::Ready(Some(Ok(_)))).then(Instant::now);
        *self.open.waits.0.lock() = waits;
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream of which something has been read before.
struct Rewound<S> {
    left: Bytes,
    stream: S,
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewound<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let now = self.left.len().min(buffer.remaining());
        buffer.put_slice(self.left.get(..now).unwrap_or_default());
        self.left.advance(now);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewound<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
