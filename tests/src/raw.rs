//! Bytes that no HTTP client would send.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::wait::patiently;

/// A bare connection.
#[derive(Debug)]
pub struct RawConnection {
    stream: TcpStream,
}

impl RawConnection {
    /// Connects to `http://HOST:PORT`.
    ///
    /// # Panics
    /// When that fails.
    pub async fn open(url: &str) -> Self {
        let authority = url.strip_prefix("http://").unwrap_or(url);
        Self { stream: TcpStream::connect(authority).await.unwrap() }
    }

    /// Writes; says whether the other side still took it.
    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        patiently("room to write", self.stream.write_all(bytes.as_ref())).await.is_ok()
    }

    /// Closes the sending side.
    ///
    /// # Panics
    /// When the connection is gone.
    pub async fn finish(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Goes away without a goodbye: what was not read or sent is lost.
    pub fn reset(self) {
        let _ = self.stream.set_zero_linger();
    }

    /// Reads until `end` has arrived or the other side closes.
    pub async fn read_until(&mut self, end: &str) -> String {
        let mut read = Vec::new();
        let mut buffer = [0; 4096];
        while !String::from_utf8_lossy(&read).contains(end) {
            match patiently("an answer", self.stream.read(&mut buffer)).await {
                Ok(0) | Err(_) => break,
                Ok(count) => read.extend_from_slice(&buffer[..count]),
            }
        }
        String::from_utf8_lossy(&read).into_owned()
    }

    /// Reads until the other side closes.
    pub async fn read_to_end(&mut self) -> String {
        self.read_until("\0no server sends this\0").await
    }
}

/// An answer as it came over the wire.
#[derive(Debug, Clone)]
pub struct RawAnswer {
    /// The status.
    pub status: u16,
    /// The body, if it is JSON; else null.
    pub json: Value,
    head: String,
}

impl RawAnswer {
    /// All answers in what was read.
    ///
    /// # Panics
    /// When it is not answers with a `content-length` and nothing else.
    #[must_use]
    pub fn all(mut read: &str) -> Vec<Self> {
        let mut answers = Vec::new();
        while !read.is_empty() {
            let (head, rest) = read.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {read:?}"));
            let status = head.strip_prefix("HTTP/1.1 ").and_then(|line| line.get(..3));
            let status = status.and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{head:?}"));
            let mut answer = Self { status, json: Value::Null, head: head.to_ascii_lowercase() };
            let length = answer.header("content-length").and_then(|length| length.parse().ok());
            let (body, rest) = rest.split_at(length.unwrap_or_else(|| panic!("no length: {head:?}")));
            answer.json = serde_json::from_str(body).unwrap_or_default();
            answers.push(answer);
            read = rest;
        }
        answers
    }

    /// A header, in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(key, _)| *key == name).map(|(_, value)| value).next()
    }
}
