//! Requests over a connection to an engine, in whichever version of HTTP it speaks.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::uri::{Authority, Scheme, Uri};
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::Stream;

/// After this time without a word a connection of HTTP/2 is asked whether it is still there, and for this long.
const ALIVE: Duration = Duration::from_secs(15);
/// Bytes that an engine may send ahead on a connection of HTTP/2, for one request and for all.
const WINDOWS: (u32, u32) = (1 << 20, 16 << 20);

/// One side of a connection: what is sent.
pub enum Sender<B> {
    /// HTTP/1.1: one request at a time.
    One(http1::SendRequest<B>),
    /// HTTP/2: many at a time; clones share the connection.
    Two(http2::SendRequest<B>, Scheme),
}

impl<B> fmt::Debug for Sender<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::One(_) => "HTTP/1.1",
            Self::Two(..) => "HTTP/2",
        })
    }
}

impl<B> Sender<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Begins to speak HTTP; a task of its own drives the connection and ends with it.
    ///
    /// # Errors
    /// When the engine breaks it off.
    pub async fn open(stream: Stream, two: bool) -> hyper::Result<Self> {
        let scheme = if stream.is_tls() { Scheme::HTTPS } else { Scheme::HTTP };
        let io = TokioIo::new(stream);
        if two {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder
                .timer(TokioTimer::new())
                .initial_stream_window_size(WINDOWS.0)
                .initial_connection_window_size(WINDOWS.1)
                .keep_alive_interval(ALIVE)
                .keep_alive_timeout(ALIVE);
            let (sender, connection) = builder.handshake(io).await?;
            tokio::spawn(ended(connection));
            return Ok(Self::Two(sender, scheme));
        }
        let (sender, connection) = http1::handshake(io).await?;
        tokio::spawn(ended(connection.with_upgrades()));
        Ok(Self::One(sender))
    }

    /// Whether the connection is gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        match self {
            Self::One(sender) => sender.is_closed(),
            Self::Two(sender, _) => sender.is_closed(),
        }
    }

    /// Waits until a request can be sent.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn ready(&mut self) -> hyper::Result<()> {
        match self {
            Self::One(sender) => sender.ready().await,
            Self::Two(sender, _) => sender.ready().await,
        }
    }

    /// Sends a request whose target is a path and whose `host` names the engine.
    ///
    /// # Errors
    /// When no answer begins.
    pub async fn send(&mut self, request: Request<B>) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::One(sender) => sender.send_request(request).await,
            Self::Two(sender, scheme) => sender.send_request(absolute(request, scheme.clone())).await,
        }
    }
}

async fn ended(connection: impl Future<Output = hyper::Result<()>>) {
    if let Err(error) = connection.await {
        tracing::debug!(%error, "upstream connection ended");
    }
}

/// HTTP/2 has the authority in the target and no `host`.
fn absolute<B>(mut request: Request<B>, scheme: Scheme) -> Request<B> {
    *request.version_mut() = http::Version::HTTP_2;
    let host = request.headers_mut().remove(HOST);
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    parts.scheme = Some(scheme);
    parts.authority = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    if parts.authority.is_none() {
        parts.authority = Some(Authority::from_static("localhost"));
    }
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
    request
}
