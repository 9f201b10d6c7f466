//! What a client is answered.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;

use crate::request::Connection;
use crate::wait::patiently;

/// The head of an answer, and its body as it comes.
#[derive(Debug)]
pub struct Answer {
    head: http::response::Parts,
    body: Incoming,
    unread: BytesMut,
    /// Goes with the answer where the request had a connection of its own.
    _connection: Option<Connection>,
}

/// The body ended before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// What had arrived.
    pub read: Bytes,
    /// What the client library says.
    pub error: String,
}

impl Answer {
    pub(crate) fn new(response: http::Response<Incoming>, connection: Option<Connection>) -> Self {
        let (head, body) = response.into_parts();
        Self { head, body, unread: BytesMut::new(), _connection: connection }
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.head.status.as_u16()
    }

    /// All headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// A header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The endpoint that answered, by the router's own word.
    ///
    /// # Panics
    /// When the router does not say.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        self.header("x-sluicegate-endpoint").expect("no x-sluicegate-endpoint")
    }

    /// The id under which the request is known.
    ///
    /// # Panics
    /// When the router does not say.
    #[must_use]
    pub fn request_id(&self) -> &str {
        self.header("x-request-id").expect("no x-request-id")
    }

    /// The decision that the request asked for by `x-sluicegate-explain`.
    ///
    /// # Panics
    /// When the answer carries none.
    #[must_use]
    pub fn decision(&self) -> Value {
        let decision = self.header("x-sluicegate-decision").expect("no x-sluicegate-decision");
        serde_json::from_str(decision).unwrap_or_else(|error| panic!("{error}: {decision}"))
    }

    /// Holds the status.
    ///
    /// # Panics
    /// When it is another one; says what was answered.
    pub async fn expect(self, status: u16) -> Self {
        if self.status() == status {
            return self;
        }
        let got = self.status();
        panic!("expected {status}, got {got}: {}", self.text().await)
    }

    /// The next piece of the body as it arrives; none at its end.
    ///
    /// # Errors
    /// When the connection broke.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Broken> {
        if !self.unread.is_empty() {
            return Ok(Some(self.unread.split().freeze()));
        }
        loop {
            match patiently("the next piece of a body", self.body.frame()).await {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(error)) => return Err(Broken { read: Bytes::new(), error: error.to_string() }),
            }
        }
    }

    /// The data of the next server-sent event; none at the end of the body.
    ///
    /// # Panics
    /// When the connection broke.
    pub async fn event(&mut self) -> Option<String> {
        let mut read = BytesMut::new();
        loop {
            if let Some(end) = read.windows(2).position(|pair| pair == b"\n\n") {
                let rest = read.split_off(end + 2);
                self.unread.unsplit(rest);
                let text = String::from_utf8(read.to_vec()).unwrap();
                let data: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("data:")).collect();
                if data.is_empty() {
                    // Comments and blank lines between events are no events.
                    read.clear();
                    continue;
                }
                return Some(data.join("\n").trim_start().to_owned());
            }
            match self.chunk().await.unwrap() {
                Some(chunk) => read.extend_from_slice(&chunk),
                None => {
                    assert!(read.is_empty(), "the stream ends within an event: {read:?}");
                    return None;
                }
            }
        }
    }

    /// The data of all events that are left.
    pub async fn events(mut self) -> Vec<String> {
        let mut events = Vec::new();
        while let Some(event) = self.event().await {
            events.push(event);
        }
        events
    }

    /// The rest of the body, or as much of it as came.
    ///
    /// # Errors
    /// When the connection broke.
    pub async fn read(&mut self) -> Result<Bytes, Broken> {
        let mut read = BytesMut::new();
        loop {
            match self.chunk().await {
                Ok(Some(chunk)) => read.extend_from_slice(&chunk),
                Ok(None) => return Ok(read.freeze()),
                Err(broken) => return Err(Broken { read: read.freeze(), ..broken }),
            }
        }
    }

    /// The rest of the body.
    ///
    /// # Panics
    /// When the connection broke.
    pub async fn bytes(mut self) -> Bytes {
        self.read().await.unwrap_or_else(|broken| panic!("{}: {:?}", broken.error, broken.read))
    }

    /// The rest of the body as text.
    ///
    /// # Panics
    /// When it is none.
    pub async fn text(self) -> String {
        String::from_utf8(self.bytes().await.to_vec()).unwrap()
    }

    /// The rest of the body as JSON.
    ///
    /// # Panics
    /// When it is none.
    pub async fn json(self) -> Value {
        let text = self.text().await;
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}
