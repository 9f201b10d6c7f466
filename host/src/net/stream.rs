//! One type for every kind of connection.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio_rustls::TlsStream;

/// A connection, to a client or to an engine.
#[derive(Debug)]
pub enum Stream {
    /// In the clear, over TCP.
    Tcp(TcpStream),
    /// In the clear, over a Unix socket.
    #[cfg(unix)]
    Unix(UnixStream),
    /// TLS over one of the others.
    Tls(Box<TlsStream<Stream>>),
}

impl Stream {
    /// Whether HTTP/2 was agreed upon while the TLS connection was made.
    #[must_use]
    pub fn agreed_on_http2(&self) -> bool {
        match self {
            Self::Tls(tls) => tls.get_ref().1.alpn_protocol() == Some(b"h2"),
            _ => false,
        }
    }

    /// Whether it is TLS.
    #[must_use]
    pub const fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }
}

/// Does the same with whichever kind it is.
macro_rules! of_kind {
    ($stream:expr, $inner:ident => $then:expr) => {
        match $stream {
            Stream::Tcp($inner) => $then,
            #[cfg(unix)]
            Stream::Unix($inner) => $then,
            Stream::Tls($inner) => $then,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        of_kind!(self.get_mut(), inner => Pin::new(inner).poll_read(context, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        of_kind!(self.get_mut(), inner => Pin::new(inner).poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        of_kind!(self.get_mut(), inner => Pin::new(inner).poll_write_vectored(context, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        of_kind!(self, inner => inner.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_kind!(self.get_mut(), inner => Pin::new(inner).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_kind!(self.get_mut(), inner => Pin::new(inner).poll_shutdown(context))
    }
}
