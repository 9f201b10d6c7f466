//! Where secrets lie. A configuration names them and never holds them, so that it can be shown and kept anywhere.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use http::HeaderValue;
use serde::{Serialize, Serializer};

use super::key_hash::KeyHash;
use super::read::Table;

/// Bytes of a secret at most.
const MAX_BYTES: usize = 4_096;
/// Bytes that an admin token has at least.
const MIN_TOKEN_BYTES: usize = 16;

/// Where a secret lies. Written `file:PATH` or `env:NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// In a file, on one line.
    File(PathBuf),
    /// In a variable of the environment.
    Env(Box<str>),
}

/// Why a secret is not there.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be read.
    #[error("{}: cannot be read: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The variable is not set, or is no text.
    #[error("the environment has no text `{0}`")]
    Env(Box<str>),
    /// It is there, and cannot be a secret.
    #[error("{0} holds no secret: {MAX_BYTES} visible ASCII characters at most are expected, on one line")]
    Form(SecretSource),
    /// It could be guessed.
    #[error("{0} is too short: a token has {MIN_TOKEN_BYTES} characters or more")]
    Short(SecretSource),
}

impl SecretSource {
    /// Reads the text of a configuration whose paths are relative to `dir`.
    fn parse(text: &str, dir: &Path) -> Option<Self> {
        match text.split_once(':')? {
            ("file", path) if !path.is_empty() => Some(Self::File(dir.join(path))),
            ("env", name) if !name.is_empty() && !name.contains(['=', '\0']) => Some(Self::Env(name.into())),
            _ => None,
        }
    }

    /// The secret as it is now.
    ///
    /// # Errors
    /// When it is not there, or is not a line of visible characters.
    pub fn read(&self) -> Result<String, SecretError> {
        let text = match self {
            Self::File(path) => std::fs::read_to_string(path)
                .map_err(|error| SecretError::File { path: path.clone(), error })?,
            Self::Env(name) => std::env::var(&**name).map_err(|_| SecretError::Env(name.clone()))?,
        };
        let secret = text.trim();
        let fits = (1..=MAX_BYTES).contains(&secret.len());
        if !fits || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(SecretError::Form(self.clone()));
        }
        Ok(secret.into())
    }

    /// The value of an `authorization` header that carries the secret. It is not shown where headers are.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn bearer(&self) -> Result<HeaderValue, SecretError> {
        let mut value = HeaderValue::try_from(format!("Bearer {}", self.read()?))
            .map_err(|_| SecretError::Form(self.clone()))?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// The hash of a token that is long enough not to be guessed.
    ///
    /// # Errors
    /// As [`Self::read`], and when it is shorter than 16 characters.
    pub fn token(&self) -> Result<KeyHash, SecretError> {
        let secret = self.read()?;
        if secret.len() < MIN_TOKEN_BYTES {
            return Err(SecretError::Short(self.clone()));
        }
        Ok(KeyHash::of(&secret))
    }
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Env(name) => write!(f, "env:{name}"),
        }
    }
}

impl Serialize for SecretSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The place of a secret that a key names. What stands there instead is not repeated: it may be the secret itself.
pub(super) fn secret(table: &Table<'_>, name: &str, dir: &Path) -> Option<SecretSource> {
    table.with(name, |item| {
        let source = item.value().as_str().and_then(|text| SecretSource::parse(text, dir));
        if source.is_none() {
            item.error("a secret is not written here: say where it lies, as \"file:PATH\" or \"env:NAME\"");
        }
        source
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_from_where_it_lies() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("key"), "  sk-upstream-0123456789\n").unwrap();
        std::fs::write(dir.path().join("short"), "abc").unwrap();
        std::fs::write(dir.path().join("lines"), "a\nb").unwrap();
        let at = |text| SecretSource::parse(text, dir.path()).unwrap();
        assert_eq!(at("file:key").read().unwrap(), "sk-upstream-0123456789");
        assert_eq!(at("file:key").bearer().unwrap(), "Bearer sk-upstream-0123456789");
        assert_eq!(format!("{:?}", at("file:key").bearer().unwrap()), "Sensitive");
        assert_eq!(at("file:key").token().unwrap(), KeyHash::of("sk-upstream-0123456789"));
        assert!(matches!(at("file:short").token(), Err(SecretError::Short(_))));
        assert!(matches!(at("file:lines").read(), Err(SecretError::Form(_))));
        assert!(matches!(at("file:gone").read(), Err(SecretError::File { .. })));
        assert!(matches!(at("env:SLUICEGATE_NO_SUCH_VARIABLE").read(), Err(SecretError::Env(_))));
    }

    #[test]
    fn what_names_no_place_is_refused_without_being_repeated() {
        for text in ["sk-secret-in-the-file", "file:", "env:", "env:A=B", "vault:sk-secret-in-the-file", ""] {
            assert_eq!(SecretSource::parse(text, Path::new("")), None, "{text}");
        }
        let text = "[[pool]]\nname = \"p\"\napi_key = \"sk-secret-in-the-file\"\n";
        let errors = crate::config::from_text("t.toml", text, Path::new("")).unwrap_err().to_string();
        assert!(errors.contains("t.toml:3: pool[0].api_key: a secret is not written here"), "{errors}");
        assert!(!errors.contains("sk-secret"), "{errors}");
    }
}
