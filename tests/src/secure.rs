//! Clients that speak TLS, HTTP/2, or through a Unix socket.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::answer::Answer;
use crate::request::Request;
use crate::wait::patiently;

/// A file of the certificates that tests use: `ca.pem` vouches for `server`, `renewed` and `client`.
#[must_use]
pub fn certificate(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("certs").join(file)
}

/// The certificates of a file.
///
/// # Panics
/// When it cannot be read.
#[must_use]
pub fn certificates(file: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_file_iter(certificate(file)).unwrap().map(Result::unwrap).collect()
}

/// A TLS connection to `https://HOST:PORT` on which these protocols were offered, with or without a certificate of the
/// client's own.
///
/// # Errors
/// When the server does not come to terms.
///
/// # Panics
/// When it cannot be connected to.
pub async fn tls(url: &str, alpn: &[&str], own: Option<&str>) -> Result<TlsStream<TcpStream>, String> {
    let mut roots = RootCertStore::empty();
    for root in certificates("ca.pem") {
        roots.add(root).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let key = PrivateKeyDer::from_pem_file(certificate(&format!("{name}.key"))).unwrap();
            builder.with_client_auth_cert(certificates(&format!("{name}.pem")), key).unwrap()
        }
    };
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(url.strip_prefix("https://").unwrap()).await.unwrap();
    let connecting =
        TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), stream);
    patiently("a TLS connection", connecting).await.map_err(|error| error.to_string())
}

/// The Unix socket at `unix:PATH`.
///
/// # Panics
/// When it cannot be connected to.
pub async fn unix(url: &str) -> UnixStream {
    UnixStream::connect(url.strip_prefix("unix:").unwrap()).await.unwrap()
}

/// A connection of any kind, for one request after the other, or many at a time where it is HTTP/2.
#[derive(Debug)]
pub enum Over {
    /// HTTP/1.1.
    One(http1::SendRequest<Full<Bytes>>),
    /// HTTP/2.
    Two(http2::SendRequest<Full<Bytes>>),
}

impl Over {
    /// HTTP/1.1 over this stream.
    ///
    /// # Panics
    /// When the server breaks it off.
    pub async fn one(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self::One(sender)
    }

    /// HTTP/2 over this stream.
    ///
    /// # Panics
    /// When the server breaks it off.
    pub async fn two(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self::Two(sender)
    }

    /// Sends a request, wherever it was meant to go.
    ///
    /// # Panics
    /// When there is no answer.
    pub async fn send(&mut self, request: Request) -> Answer {
        let request = request.into_inner().map(Full::new);
        let answer = match self {
            Self::One(sender) => patiently("an answer", sender.send_request(request)).await,
            Self::Two(sender) => {
                let mut request = request;
                request.headers_mut().remove("host");
                *request.uri_mut() = format!("http://models.example{}", request.uri()).parse().unwrap();
                patiently("an answer", sender.send_request(request)).await
            }
        };
        Answer::new(answer.expect("no answer"), None)
    }
}
