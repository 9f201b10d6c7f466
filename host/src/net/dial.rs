//! How engines are reached.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;

use super::tls::ClientTls;
use super::{Stream, TlsError};
use crate::config::{HttpVersion, PoolTls};
use crate::types::Url;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// Nobody listens there, or the way there is barred.
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// Not in time.
    #[error("no connection within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// TLS could not be agreed upon.
    #[error("no TLS connection: {0}")]
    Tls(io::Error),
    /// It does not speak the version of HTTP that it must.
    #[error("it does not speak HTTP/{0}")]
    Version(&'static str),
}

impl DialError {
    /// Whether nobody listens there.
    #[must_use]
    pub fn refused(&self) -> bool {
        let kinds = [io::ErrorKind::ConnectionRefused, io::ErrorKind::NotFound];
        matches!(self, Self::Connect(error) if kinds.contains(&error.kind()))
    }
}

/// What is offered to a TLS server, the best first.
const fn offered(version: HttpVersion) -> &'static [&'static str] {
    match version {
        HttpVersion::Auto => &["h2", "http/1.1"],
        HttpVersion::One => &["http/1.1"],
        HttpVersion::Two => &["h2"],
    }
}

/// How the engines of a pool are reached.
#[derive(Debug, Clone)]
pub struct Dialer {
    tls: Arc<ClientTls>,
    version: HttpVersion,
}

impl Dialer {
    /// With what these files say, and this version of HTTP.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub fn new(tls: &PoolTls, version: HttpVersion) -> Result<Self, TlsError> {
        Ok(Self { tls: Arc::new(ClientTls::load(tls, offered(version))?), version })
    }

    /// Connects for HTTP/1.1, which alone can be upgraded to another protocol.
    ///
    /// # Errors
    /// Where only HTTP/2 is spoken.
    pub fn for_upgrades(&self) -> Result<Self, DialError> {
        let tls = Arc::new(self.tls.offering(offered(HttpVersion::One)));
        if self.version == HttpVersion::Two {
            return Err(DialError::Version("1.1"));
        }
        Ok(Self { tls, version: HttpVersion::One })
    }

    /// Connects; says too whether HTTP/2 is to be spoken.
    ///
    /// # Errors
    /// When there is no connection within the time.
    pub async fn dial(&self, url: &Url, timeout: Duration) -> Result<(Stream, bool), DialError> {
        let dialed = tokio::time::timeout(timeout, self.dial_at_leisure(url)).await;
        dialed.unwrap_or(Err(DialError::Timeout(timeout)))
    }

    async fn dial_at_leisure(&self, url: &Url) -> Result<(Stream, bool), DialError> {
        let stream = connect(url).await.map_err(DialError::Connect)?;
        if !url.https {
            return Ok((stream, self.version == HttpVersion::Two));
        }
        let stream = self.tls.connect(&url.host, stream).await.map_err(DialError::Tls)?;
        match (stream.agreed_on_http2(), self.version) {
            (false, HttpVersion::Two) => Err(DialError::Version("2")),
            (two, _) => Ok((stream, two)),
        }
    }
}

async fn connect(url: &Url) -> io::Result<Stream> {
    #[cfg(unix)]
    if let Some(path) = &url.socket {
        return UnixStream::connect(&**path).await.map(Stream::Unix);
    }
    let stream = TcpStream::connect((&*url.host, url.port)).await?;
    let _ = stream.set_nodelay(true);
    Ok(Stream::Tcp(stream))
}
