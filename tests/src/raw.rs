//! Bytes that no HTTP client would send.

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
