//! TLS for clients, whose certificate may change while it runs, and TLS towards engines.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::ServerName;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::Stream;
use super::pem::{Identity, roots};
use super::verify::Anybody;
use crate::config::{PoolTls, TlsConfig};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Why TLS cannot be spoken with these files.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be used.
    #[error("{}: {why}", .path.display())]
    Unusable {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The files do not fit each other.
    #[error("{}: {source}", .path.display())]
    Unfit {
        /// The certificate.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// Those who vouch for clients cannot be used.
    #[error("{}: {why}", .path.display())]
    ClientCa {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

/// When each file was written, and how long it is: what differs has changed.
type Stamp = Vec<Option<(SystemTime, u64)>>;

/// TLS for clients.
#[derive(Debug)]
pub struct ServerTls {
    identity: Identity,
    client_ca: Option<PathBuf>,
    current: ArcSwap<ServerConfig>,
}

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// When one of them cannot be used.
    pub fn load(config: &TlsConfig) -> Result<Self, TlsError> {
        let identity = Identity { cert: config.cert.clone(), key: config.key.clone() };
        let client_ca = config.client_ca.clone();
        let current = ArcSwap::new(Arc::new(server(&identity, client_ca.as_ref())?));
        Ok(Self { identity, client_ca, current })
    }

    /// Makes a client's connection a TLS connection.
    ///
    /// # Errors
    /// When the client does not come to terms.
    pub async fn accept(&self, stream: Stream) -> io::Result<Stream> {
        let acceptor = TlsAcceptor::from(self.current.load_full());
        let tls = acceptor.accept(stream).await?;
        Ok(Stream::Tls(Box::new(tls.into())))
    }

    /// Takes the files in anew whenever they change, for ever. Files that cannot be used change nothing.
    pub async fn follow(&self) {
        let mut known = self.stamp();
        let mut times = tokio::time::interval(LOOK);
        loop {
            times.tick().await;
            let now = self.stamp();
            if now == known {
                continue;
            }
            known = now;
            match server(&self.identity, self.client_ca.as_ref()) {
                Ok(config) => {
                    self.current.store(Arc::new(config));
                    tracing::info!(cert = %self.identity.cert.display(), "the certificate has been read again");
                }
                Err(error) => tracing::warn!(%error, "the certificate in force stays"),
            }
        }
    }

    fn stamp(&self) -> Stamp {
        let files = [Some(&self.identity.cert), Some(&self.identity.key), self.client_ca.as_ref()];
        let about = |path: &PathBuf| {
            let about = fs::metadata(path).ok()?;
            Some((about.modified().ok()?, about.len()))
        };
        files.into_iter().flatten().map(about).collect()
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(default_provider())
}

fn server(identity: &Identity, client_ca: Option<&PathBuf>) -> Result<ServerConfig, TlsError> {
    let unfit = |source| TlsError::Unfit { path: identity.cert.clone(), source };
    let builder = ServerConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions().map_err(unfit)?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots(path)?), provider()).build();
            let wrong = |why: String| TlsError::ClientCa { path: path.clone(), why };
            builder.with_client_cert_verifier(verifier.map_err(|error| wrong(error.to_string()))?)
        }
    };
    let (certificates, key) = identity.read()?;
    let mut config = builder.with_single_cert(certificates, key).map_err(unfit)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// TLS towards the engines of a pool.
#[derive(Debug)]
pub(super) struct ClientTls {
    config: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
}

impl ClientTls {
    /// Reads the files, if any. `alpn` are the protocols to offer, the best first.
    ///
    /// # Errors
    /// When one of them cannot be used.
    pub(super) fn load(config: &PoolTls, alpn: &[&str]) -> Result<Self, TlsError> {
        let path = || config.cert.clone().or_else(|| config.ca.clone()).unwrap_or_default();
        let unfit = |source| TlsError::Unfit { path: path(), source };
        let provider = provider();
        let algorithms = provider.signature_verification_algorithms;
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().map_err(unfit)?;
        let builder = if config.verify {
            builder.with_root_certificates(match &config.ca {
                Some(path) => roots(path)?,
                None => RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.into() },
            })
        } else {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(algorithms)))
        };
        let mut client = match config.cert.as_ref().zip(config.key.as_ref()) {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let (certificates, key) = Identity { cert: cert.clone(), key: key.clone() }.read()?;
                builder.with_client_auth_cert(certificates, key).map_err(unfit)?
            }
        };
        client.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let server_name = config.server_name.as_deref().and_then(|name| name.to_owned().try_into().ok());
        Ok(Self { config: Arc::new(client), server_name })
    }

    /// The same with other protocols to offer.
    pub(super) fn offering(&self, alpn: &[&str]) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Self { config: Arc::new(config), server_name: self.server_name.clone() }
    }

    /// Makes a connection to this host a TLS connection.
    pub(super) async fn connect(&self, host: &str, stream: Stream) -> io::Result<Stream> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host.to_owned()).map_err(io::Error::other)?,
        };
        let tls = TlsConnector::from(Arc::clone(&self.config)).connect(name, stream).await?;
        Ok(Stream::Tls(Box::new(tls.into())))
    }
}
