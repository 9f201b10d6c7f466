//! What a client asks.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderName, HeaderValue, Method};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::answer::Answer;
use crate::wait::patiently;

/// A request to be sent.
#[derive(Debug, Clone)]
#[must_use = "it is not sent yet"]
pub struct Request {
    authority: String,
    inner: http::Request<Bytes>,
}

/// `GET` of a URL.
pub fn get(url: impl AsRef<str>) -> Request {
    Request::new(Method::GET, url.as_ref(), Bytes::new())
}

/// `POST` of a body to a URL, as JSON unless a header says otherwise.
pub fn post(url: impl AsRef<str>, body: impl Into<Bytes>) -> Request {
    Request::new(Method::POST, url.as_ref(), body.into()).header(CONTENT_TYPE.as_str(), "application/json")
}

impl Request {
    /// A request of any method.
    ///
    /// # Panics
    /// When the URL is not `http://AUTHORITY…`, nor that of TLS or a Unix socket, which [`crate::Over`] goes through.
    pub fn new(method: Method, url: &str, body: Bytes) -> Self {
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        let rest = rest.unwrap_or_else(|| panic!("no http URL: {url}"));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let path = if path.is_empty() { "/" } else { path };
        let inner =
            http::Request::builder().method(method).uri(path).header(HOST, authority).body(body).unwrap();
        Self { authority: authority.to_owned(), inner }
    }

    /// Sets a header.
    ///
    /// # Panics
    /// When it is no header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        self.inner.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
        self
    }

    /// Sets a key of the JSON object that is the body.
    ///
    /// # Panics
    /// When the body is no JSON object.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        let mut body: Value = serde_json::from_slice(self.inner.body()).unwrap();
        body[key] = value.into();
        *self.inner.body_mut() = body.to_string().into();
        self
    }

    pub(crate) fn into_inner(self) -> http::Request<Bytes> {
        self.inner
    }

    /// Asks for a stream.
    pub fn streamed(self) -> Self {
        self.with("stream", true)
    }

    /// Sends it on a connection of its own, which ends with the answer.
    pub async fn send(self) -> Answer {
        Connection::open(&self.authority).await.send_last(self).await
    }

    /// The same where the connection may be refused or broken before there is an answer.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn try_send(self) -> Result<Answer, String> {
        let mut connection = Connection::try_open(&self.authority).await?;
        let response = connection.sender.send_request(self.inner.map(Full::new));
        let response = patiently("an answer", response).await.map_err(|error| error.to_string())?;
        Ok(Answer::new(response, Some(connection)))
    }
}

/// A connection that is kept for more than one request.
#[derive(Debug)]
pub struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
}

impl Connection {
    /// Connects to `HOST:PORT`, with or without `http://`.
    ///
    /// # Panics
    /// When that fails.
    pub async fn open(authority: &str) -> Self {
        Self::try_open(authority).await.unwrap_or_else(|error| panic!("{error}"))
    }

    async fn try_open(authority: &str) -> Result<Self, String> {
        let authority = authority.strip_prefix("http://").unwrap_or(authority);
        let stream = TcpStream::connect(authority).await.map_err(|error| format!("{authority}: {error}"))?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        let driver = tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Self { sender, driver })
    }

    /// Sends a request and leaves the connection open. The answer must be read to its end before the next.
    ///
    /// # Panics
    /// When there is no answer.
    pub async fn send(&mut self, request: Request) -> Answer {
        patiently("the connection to be free", self.sender.ready()).await.expect("the connection is closed");
        let response = patiently("an answer", self.sender.send_request(request.inner.map(Full::new))).await;
        Answer::new(response.expect("no answer"), None)
    }

    /// The same where the connection may be closed before there is an answer.
    ///
    /// # Errors
    /// When there is none.
    pub async fn try_send(&mut self, request: Request) -> Result<Answer, String> {
        let sending = async {
            self.sender.ready().await?;
            self.sender.send_request(request.inner.map(Full::new)).await
        };
        let response = patiently("an answer", sending).await.map_err(|error| error.to_string())?;
        Ok(Answer::new(response, None))
    }

    async fn send_last(mut self, request: Request) -> Answer {
        let response = patiently("an answer", self.sender.send_request(request.inner.map(Full::new))).await;
        Answer::new(response.expect("no answer"), Some(self))
    }
}

impl Drop for Connection {
    /// Closes the socket at once, also in the middle of an answer: this is how a client goes away.
    fn drop(&mut self) {
        self.driver.abort();
    }
}
