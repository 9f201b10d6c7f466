//! GET with a deadline and a bound.

use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Incoming};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};

/// What [`super::run`] asks through.
pub type Client<C = HttpConnector> = legacy::Client<C, Empty<Bytes>>;

/// A client that keeps one connection to each endpoint.
#[must_use]
pub fn client(connect_timeout: Duration) -> Client {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(connect_timeout));
    legacy::Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(1)
        .pool_timer(TokioTimer::new())
        .build(connector)
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum GetError {
    /// Nobody listens there.
    #[error("connection refused")]
    Refused,
    /// Anything else on the way.
    #[error("{0}")]
    Failed(String),
    /// The answer took too long.
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// The answer is too long.
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
    /// The address cannot be asked at all.
    #[error("no address: {0}")]
    Address(#[from] http::Error),
}

/// How an endpoint is asked.
#[derive(Debug, Clone)]
pub(super) struct Getter<C> {
    pub(super) client: Client<C>,
    pub(super) timeout: Duration,
    pub(super) bytes: usize,
}

/// The head of an answer whose body has been handed on.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    /// Whether the `server` header names llama.cpp.
    pub(super) llamacpp: bool,
}

impl<C: Connect + Clone + Send + Sync + 'static> Getter<C> {
    /// Asks, and gives the body of a 2xx to `take`, piece by piece; other bodies are read and dropped,
    /// so that the connection can be used again.
    pub(super) async fn get(&self, uri: &Uri, mut take: impl FnMut(&[u8])) -> Result<Head, GetError> {
        let request = Request::get(uri.clone()).body(Empty::new())?;
        let whole = async {
            let answer = self.client.request(request).await.map_err(|error| failure(&error))?;
            let head = head(&answer);
            let good = head.status.is_success();
            self.body(answer.into_body(), |piece| {
                if good {
                    take(piece)
                }
            })
            .await
            .map(|()| head)
        };
        tokio::time::timeout(self.timeout, whole).await.unwrap_or(Err(GetError::Timeout(self.timeout)))
    }

    /// The same with the body in one piece.
    pub(super) async fn collect(&self, uri: &Uri) -> Result<(Head, Vec<u8>), GetError> {
        let mut body = Vec::new();
        let head = self.get(uri, |piece| body.extend_from_slice(piece)).await?;
        Ok((head, body))
    }

    async fn body(&self, mut body: Incoming, mut take: impl FnMut(&[u8])) -> Result<(), GetError> {
        let mut room = self.bytes;
        if body.size_hint().lower() > room as u64 {
            return Err(GetError::TooLong(self.bytes));
        }
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| GetError::Failed(error.to_string()))?;
            if let Some(piece) = frame.data_ref() {
                room = room.checked_sub(piece.len()).ok_or(GetError::TooLong(self.bytes))?;
                take(piece);
            }
        }
        Ok(())
    }
}

fn head(answer: &Response<Incoming>) -> Head {
    let server = answer.headers().get(http::header::SERVER);
    Head { status: answer.status(), llamacpp: server.is_some_and(|name| name.as_bytes() == b"llama.cpp") }
}

fn failure(error: &legacy::Error) -> GetError {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let io = inner.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused) {
            return GetError::Refused;
        }
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    GetError::Failed(text)
}
