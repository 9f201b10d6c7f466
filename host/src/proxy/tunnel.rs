//! Connections that become another protocol's, such as WebSocket: what the engine agrees to is passed through both
//! ways until one side ends, with the load of a request.
//!
//! hyper gives the client's connection back when the answer 101 is out; until then what is to become of it waits in
//! the connection's [`Exchange`](super::wire::Exchange).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONNECTION, HeaderMap, HeaderValue, UPGRADE};
use hyper::upgrade::OnUpgrade;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, copy_bidirectional};

use super::body::Answer;
use super::job::{Job, Spent};
use super::upstream::Answered;
use crate::policy::EventKind;
use crate::pool::{Endpoint, Reservation};

/// The protocol that a request wants its connection to become. HTTP/2 in this way is not offered: it is spoken from
/// the first byte on, or agreed upon by TLS.
pub(super) fn wanted(headers: &HeaderMap) -> Option<HeaderValue> {
    let named = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let asks =
        named.flat_map(|value| value.split(',')).any(|token| token.trim().eq_ignore_ascii_case("upgrade"));
    let protocol = headers.get(UPGRADE)?;
    (asks && !protocol.as_bytes().eq_ignore_ascii_case(b"h2c")).then(|| protocol.clone())
}

/// Asks an engine for it.
pub(super) fn ask(headers: &mut HeaderMap, protocol: &HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, protocol.clone());
}

/// Two connections that will be one.
pub(super) struct Tunnel {
    engine: OnUpgrade,
    job: Job,
    endpoint: Arc<Endpoint>,
    _reservation: Reservation,
}

impl std::fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tunnel").field("endpoint", &self.endpoint.name).finish_non_exhaustive()
    }
}

/// Passes the engine's 101 on; `headers` are those that the client gets anyway.
pub(super) fn begin(
    mut job: Job,
    endpoint: &Arc<Endpoint>,
    answered: Answered,
    mut headers: HeaderMap,
    mut reservation: Reservation,
) -> Response<Answer> {
    let protocol = answered.response.headers().get(UPGRADE).cloned();
    let engine = hyper::upgrade::on(answered.response);
    reservation.first_token();
    if let Some(protocol) = protocol {
        ask(&mut headers, &protocol);
    }
    // Taken, or the connection and its future would hold each other.
    if let Some(exchange) = job.arrival.exchange.take() {
        let endpoint = Arc::clone(endpoint);
        exchange.will_be(Tunnel { engine, job, endpoint, _reservation: reservation });
    }
    let mut response = Response::new(Answer::Whole(None));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *response.headers_mut() = headers;
    response
}

impl Tunnel {
    /// Passes everything through until one side ends, or nothing comes for the pool's idle time. `left` is what the
    /// client has sent already.
    pub(super) async fn run<S: AsyncRead + AsyncWrite + Unpin>(mut self, client: S, left: Bytes) {
        let moved = Arc::new(AtomicBool::new(true));
        let mut client = Lively { stream: client, moved: Arc::clone(&moved) };
        let passing = async {
            let engine = (&mut self.engine).await.map_err(io::Error::other)?;
            let mut engine = TokioIo::new(engine);
            engine.write_all(&left).await?;
            copy_bidirectional(&mut client, &mut engine).await
        };
        let quiet = async {
            let mut times = tokio::time::interval(self.job.service.config.idle_timeout);
            while moved.swap(false, Relaxed) {
                times.tick().await;
            }
        };
        tokio::select! {
            passed = passing => {
                if let Err(error) = passed {
                    tracing::debug!(endpoint = %self.endpoint.name, %error, "an upgraded connection ended");
                }
            }
            () = quiet => tracing::debug!(endpoint = %self.endpoint.name, "an upgraded connection was idle too long"),
        }
        self.job.succeeded(&self.endpoint);
        self.job.end(StatusCode::SWITCHING_PROTOCOLS.as_u16(), EventKind::Completed, Spent::default());
    }
}

/// Notes that something was read or written.
struct Lively<S> {
    stream: S,
    moved: Arc<AtomicBool>,
}

impl<S> Lively<S> {
    fn note<T>(&self, done: Poll<T>) -> Poll<T> {
        if done.is_ready() {
            self.moved.store(true, Relaxed);
        }
        done
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lively<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.note(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Lively<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
