//! Whether bytes may be a plugin here, decided before anything parses them.
//!
//! Who may write to the watched directory is not who decides what runs. With an allow-list a file's digest
//! must be on it; with keys each file needs a detached signature over its name, its version, its bytes and
//! the settings beside it. Both are asked of the very bytes that are then loaded: the files are read once,
//! by [`OnDisk::read`].
//!
//! The `.sig` file itself is foreign bytes too, so its parser takes one form of bounded length and nothing else.

mod key;
mod signature;

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

pub use key::{KeyError, SecretKey};
use rustix::fs::OFlags;
pub use signature::{Signature, SignatureError, message};

use super::artifact::digest;
use crate::config::{SupplyConfig, TrustedKey};

/// Longest `NAME.toml` that is read.
const MAX_SETTINGS: usize = 1 << 20;

/// What is judged together.
#[derive(Debug, Clone, Copy)]
pub struct Files<'a> {
    /// The plugin's name; `NAME` also for `NAME.next.wasm`.
    pub name: &'a str,
    /// The plugin.
    pub wasm: &'a [u8],
    /// The settings beside it.
    pub settings: Option<&'a [u8]>,
    /// Its signature.
    pub signature: Option<&'a [u8]>,
}

/// Files that may be loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checked {
    /// The version that was signed; none where no signature is asked for.
    pub signed: Option<u64>,
}

/// Why they may not.
#[derive(Debug, thiserror::Error)]
pub enum SupplyError {
    /// A file cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// A file is longer than it may be.
    #[error("{what} is longer than {max} bytes; {hint}")]
    TooLarge {
        /// Which file.
        what: &'static str,
        /// The bound.
        max: usize,
        /// What to do.
        hint: &'static str,
    },
    /// The digest is not on the allow-list.
    #[error("its digest {digest} is not in `plugins.allow`; add it there if this file is meant to run")]
    NotAllowed {
        /// SHA-256 of the file.
        digest: Box<str>,
    },
    /// There is no signature.
    #[error(
        "it is not signed, and `plugins.keys` asks for a signature; put the `.wasm.sig` beside it that `sluicegate plugin sign` makes"
    )]
    Unsigned,
    /// The signature file is none.
    #[error("its `.wasm.sig` cannot be used: {0}; sign it again with `sluicegate plugin sign`")]
    Malformed(#[from] SignatureError),
    /// Nobody that is trusted signed it.
    #[error(
        "it is signed with the key `{key}`, and `plugins.keys` has only {known}; sign it with one of those, or add that key"
    )]
    UnknownKey {
        /// The key that the signature names.
        key: Box<str>,
        /// The keys that are trusted.
        known: String,
    },
    /// The signature is not over these files.
    #[error(
        "its signature by `{key}` does not fit: the .wasm, the .toml beside it or the version is not what was signed, or it was signed under another name than `{name}`, or by another key of that name; sign these very files again"
    )]
    Wrong {
        /// The key.
        key: Box<str>,
        /// The plugin.
        name: Box<str>,
    },
    /// Going back to an older version.
    #[error(
        "it is signed as version {version}, older than version {newest} that was here; sign it with a higher version, or set `plugins.allow_older = true`"
    )]
    Older {
        /// The version of the file.
        version: u64,
        /// The newest that was seen.
        newest: u64,
    },
}

impl SupplyError {
    /// The reason to count it under.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Io(_) => "unreadable",
            Self::TooLarge { .. } => "too_large",
            Self::NotAllowed { .. } => "not_allowed",
            Self::Unsigned => "unsigned",
            Self::Malformed(_) | Self::Wrong { .. } => "bad_signature",
            Self::UnknownKey { .. } => "unknown_key",
            Self::Older { .. } => "older_version",
        }
    }
}

/// Judges files by the configuration, against the newest version that was signed under this name so far.
/// A version that was seen may come again, also with other bytes: whoever signs decides.
///
/// # Errors
/// Why they may not be loaded, and what to do.
pub fn check(
    config: &SupplyConfig,
    files: &Files<'_>,
    newest_seen: Option<u64>,
) -> Result<Checked, SupplyError> {
    if config.allow.is_empty() && config.keys.is_empty() {
        return Ok(Checked { signed: None });
    }
    let digest = digest(files.wasm);
    allowed(config, &digest)?;
    if config.keys.is_empty() {
        return Ok(Checked { signed: None });
    }
    let signature = Signature::parse(files.signature.ok_or(SupplyError::Unsigned)?)?;
    let Some(key) = config.keys.iter().find(|key| key.name == signature.key) else {
        let known: Vec<_> = config.keys.iter().map(|key| format!("`{}`", key.name)).collect();
        return Err(SupplyError::UnknownKey { key: signature.key, known: known.join(", ") });
    };
    verified(key, &signature, &message(files.name, signature.version, &digest, files.settings))
        .ok_or_else(|| SupplyError::Wrong { key: signature.key.clone(), name: files.name.into() })?;
    match newest_seen {
        Some(newest) if signature.version < newest && !config.allow_older => {
            Err(SupplyError::Older { version: signature.version, newest })
        }
        _ => Ok(Checked { signed: Some(signature.version) }),
    }
}

/// Judges bytes by their digest alone.
///
/// # Errors
/// When there is an allow-list and it is not on it.
pub fn allowed(config: &SupplyConfig, digest: &str) -> Result<(), SupplyError> {
    if config.allow.is_empty() || config.allow.iter().any(|allowed| **allowed == *digest) {
        return Ok(());
    }
    Err(SupplyError::NotAllowed { digest: digest.into() })
}

fn verified(key: &TrustedKey, signature: &Signature, message: &str) -> Option<()> {
    let key = ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, &key.public);
    key.verify(message.as_bytes(), &signature.bytes).ok()
}

/// The files of one plugin as they lay on disk.
#[derive(Debug)]
pub struct OnDisk {
    /// `NAME.wasm`
    pub wasm: Vec<u8>,
    /// `NAME.toml`, when there is one.
    pub settings: Option<Vec<u8>>,
    /// `NAME.wasm.sig`, when there is one.
    pub signature: Option<Vec<u8>>,
}

impl OnDisk {
    /// Reads `NAME.wasm` and what lies beside it. What is too long is not read whole.
    ///
    /// # Errors
    /// When a file is there and cannot be read, or is too long.
    pub fn read(wasm: &Path, config: &SupplyConfig) -> Result<Self, SupplyError> {
        let what = ("the file", "make it smaller, or raise `plugins.max_bytes`");
        let settings = ("the .toml beside it", "it holds only `weight` and `config`");
        let signature = ("its .wasm.sig", "sign it again with `sluicegate plugin sign`");
        Ok(Self {
            wasm: read(wasm, config.max_bytes, what)?,
            settings: unless_absent(read(&wasm.with_extension("toml"), MAX_SETTINGS, settings))?,
            signature: unless_absent(read(
                &wasm.with_extension("wasm.sig"),
                signature::MAX_BYTES,
                signature,
            ))?,
        })
    }

    /// What is judged, under this name.
    #[must_use]
    pub fn files<'a>(&'a self, name: &'a str) -> Files<'a> {
        Files {
            name,
            wasm: &self.wasm,
            settings: self.settings.as_deref(),
            signature: self.signature.as_deref(),
        }
    }
}

fn read(path: &Path, max: usize, (what, hint): (&'static str, &'static str)) -> Result<Vec<u8>, SupplyError> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    // Without waiting: a pipe under this name would otherwise hold up all plugins.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other(format!("{what} is no regular file")).into());
    }
    file.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() > max {
        return Err(SupplyError::TooLarge { what, max, hint });
    }
    Ok(bytes)
}

fn unless_absent(read: Result<Vec<u8>, SupplyError>) -> Result<Option<Vec<u8>>, SupplyError> {
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(SupplyError::Io(error)) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
