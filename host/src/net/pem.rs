//! Certificates and keys from PEM files.

use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::TlsError;

/// A certificate with those that vouch for it, and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) cert: PathBuf,
    pub(super) key: PathBuf,
}

impl Identity {
    pub(super) fn read(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| wrong(&self.key, &error))?;
        Ok((certificates(&self.cert)?, key))
    }
}

/// The certificates of a file, of which there is at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = certificates.map_err(|error| wrong(path, &error))?;
    if certificates.is_empty() {
        return Err(TlsError::Unusable { path: path.into(), why: "it holds no certificate".into() });
    }
    Ok(certificates)
}

/// The certificates of a file as those who are believed.
pub(super) fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots
            .add(certificate)
            .map_err(|error| TlsError::Unusable { path: path.into(), why: error.to_string() })?;
    }
    Ok(roots)
}

/// Nothing of the file is repeated: it may be a key.
fn wrong(path: &Path, error: &rustls::pki_types::pem::Error) -> TlsError {
    use rustls::pki_types::pem::Error;
    let why = match error {
        Error::Io(error) => error.to_string(),
        Error::NoItemsFound => "it holds nothing of what is looked for".into(),
        _ => "it is no PEM file".into(),
    };
    TlsError::Unusable { path: path.into(), why }
}
