//! Where clients connect.

use std::fmt;
use std::io;
use std::net::IpAddr;

#[cfg(unix)]
use std::path::{Path, PathBuf};

use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};

use super::Stream;
use crate::config::Listen;

/// Who is at the other end of a client's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// Somebody at this address.
    At(IpAddr),
    /// Somebody on this machine, through a Unix socket.
    Local,
}

impl Peer {
    /// Its address; this machine's own through a Unix socket.
    #[must_use]
    pub const fn address(self) -> IpAddr {
        match self {
            Self::At(address) => address,
            Self::Local => IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        }
    }
}

/// As it is written in `x-forwarded-for`.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(address) => address.fmt(f),
            Self::Local => f.write_str("unix"),
        }
    }
}

/// A socket that takes connections of clients.
#[derive(Debug)]
pub enum Listener {
    /// At an address.
    Tcp(TcpListener),
    /// At a path, which is removed when this is dropped.
    #[cfg(unix)]
    Unix(UnixListener, Socket),
}

/// The file of a Unix socket.
#[cfg(unix)]
#[derive(Debug)]
pub struct Socket(PathBuf);

#[cfg(unix)]
impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Listener {
    /// Opens it. The file of a Unix socket on which nobody listens any more is replaced.
    ///
    /// # Errors
    /// What the system says.
    pub async fn bind(listen: &Listen) -> io::Result<Self> {
        match listen.socket() {
            None => TcpListener::bind(listen.as_str()).await.map(Self::Tcp),
            #[cfg(unix)]
            Some(path) => {
                let path = Path::new(path);
                let listener = match UnixListener::bind(path) {
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse && abandoned(path).await => {
                        std::fs::remove_file(path)?;
                        UnixListener::bind(path)?
                    }
                    bound => bound?,
                };
                Ok(Self::Unix(listener, Socket(path.to_owned())))
            }
            #[cfg(not(unix))]
            Some(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// One that another process listened on, and handed over.
    ///
    /// # Errors
    /// What the system says.
    #[cfg(unix)]
    pub fn taken(listen: &Listen, socket: std::net::TcpListener) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        match listen.socket() {
            None => TcpListener::from_std(socket).map(Self::Tcp),
            Some(path) => {
                let socket = std::os::unix::net::UnixListener::from(std::os::fd::OwnedFd::from(socket));
                Ok(Self::Unix(UnixListener::from_std(socket)?, Socket(path.into())))
            }
        }
    }

    /// Another process listens here now: what others know it by stays.
    pub fn leave(self) {
        #[cfg(unix)]
        if let Self::Unix(_, mut socket) = self {
            socket.0 = PathBuf::new();
        }
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// What the system says; the next one may be fine.
    pub async fn accept(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                let _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), Peer::At(peer.ip().to_canonical())))
            }
            #[cfg(unix)]
            Self::Unix(listener, _) => Ok((Stream::Unix(listener.accept().await?.0), Peer::Local)),
        }
    }

    /// Where it is: a URL with this scheme, or `unix:PATH`.
    ///
    /// # Errors
    /// What the system says.
    pub fn place(&self, scheme: &str) -> io::Result<String> {
        match self {
            Self::Tcp(listener) => Ok(format!("{scheme}://{}", listener.local_addr()?)),
            #[cfg(unix)]
            Self::Unix(_, socket) => Ok(format!("unix:{}", socket.0.display())),
        }
    }
}

#[cfg(unix)]
impl std::os::fd::AsFd for Listener {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener, _) => listener.as_fd(),
        }
    }
}

#[cfg(unix)]
async fn abandoned(path: &Path) -> bool {
    let refused = UnixStream::connect(path).await.err();
    refused.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}
