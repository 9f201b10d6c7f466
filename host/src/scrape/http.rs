//! GET with a deadline and a bound, over a connection that is kept.

use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, HeaderValue, SERVER};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Incoming};

use crate::net::{DialError, Dialer, Sender};
use crate::pool::Endpoint;
use crate::types::Url;

type Connection = Sender<Empty<Bytes>>;

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

impl From<DialError> for GetError {
    fn from(error: DialError) -> Self {
        if error.refused() { Self::Refused } else { Self::Failed(error.to_string()) }
    }
}

impl From<hyper::Error> for GetError {
    fn from(error: hyper::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// How an endpoint is asked.
#[derive(Debug)]
pub(super) struct Getter {
    dialer: Dialer,
    url: Url,
    /// What it is shown.
    authorization: Option<HeaderValue>,
    timeout: Duration,
    bytes: usize,
    /// The connection, while no answer is under way.
    idle: Option<Connection>,
}

/// The head of an answer whose body has been handed on.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    /// Whether the `server` header names llama.cpp.
    pub(super) llamacpp: bool,
}

impl Getter {
    /// Asks this endpoint; an answer must come within `timeout` and be no longer than `bytes`.
    pub(super) fn new(dialer: Dialer, endpoint: &Endpoint, timeout: Duration, bytes: usize) -> Self {
        let (url, authorization) = (endpoint.url.clone(), endpoint.authorization.clone());
        Self { dialer, url, authorization, timeout, bytes, idle: None }
    }

    /// Asks, and gives the body of a 2xx to `take`, piece by piece; other bodies are read and dropped,
    /// so that the connection can be used again.
    pub(super) async fn get(&mut self, path: &str, take: impl FnMut(&[u8])) -> Result<Head, GetError> {
        let timeout = self.timeout;
        tokio::time::timeout(timeout, self.get_at_leisure(path, take))
            .await
            .unwrap_or(Err(GetError::Timeout(timeout)))
    }

    /// The same with the body in one piece.
    pub(super) async fn collect(&mut self, path: &str) -> Result<(Head, Vec<u8>), GetError> {
        let mut body = Vec::new();
        let head = self.get(path, |piece| body.extend_from_slice(piece)).await?;
        Ok((head, body))
    }

    async fn get_at_leisure(&mut self, path: &str, mut take: impl FnMut(&[u8])) -> Result<Head, GetError> {
        let (connection, answer) = self.ask(path).await?;
        let head = head(&answer);
        let good = head.status.is_success();
        read(answer.into_body(), self.bytes, |piece| {
            if good {
                take(piece)
            }
        })
        .await?;
        self.idle = Some(connection);
        Ok(head)
    }

    /// Asks over the connection that is there, or over a new one when that has been closed meanwhile.
    async fn ask(&mut self, path: &str) -> Result<(Connection, Response<Incoming>), GetError> {
        if let Some(mut connection) = self.idle.take()
            && connection.ready().await.is_ok()
            && let Ok(answer) = connection.send(self.request(path)?).await
        {
            return Ok((connection, answer));
        }
        let (stream, two) = self.dialer.dial(&self.url, self.timeout).await?;
        let mut connection = Sender::open(stream, two).await?;
        let answer = connection.send(self.request(path)?).await?;
        Ok((connection, answer))
    }

    fn request(&self, path: &str) -> Result<Request<Empty<Bytes>>, GetError> {
        let target = format!("{}{path}", self.url.base_path).parse::<Uri>().map_err(http::Error::from)?;
        let host = HeaderValue::try_from(self.url.authority()).map_err(http::Error::from)?;
        let mut request = Request::get(target).header(HOST, host).body(Empty::new())?;
        if let Some(key) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, key.clone());
        }
        Ok(request)
    }
}

async fn read(mut body: Incoming, bytes: usize, mut take: impl FnMut(&[u8])) -> Result<(), GetError> {
    let mut room = bytes;
    if body.size_hint().lower() > room as u64 {
        return Err(GetError::TooLong(bytes));
    }
    while let Some(frame) = body.frame().await {
        if let Some(piece) = frame?.data_ref() {
            room = room.checked_sub(piece.len()).ok_or(GetError::TooLong(bytes))?;
            take(piece);
        }
    }
    Ok(())
}

fn head(answer: &Response<Incoming>) -> Head {
    let server = answer.headers().get(SERVER);
    Head { status: answer.status(), llamacpp: server.is_some_and(|name| name.as_bytes() == b"llama.cpp") }
}
