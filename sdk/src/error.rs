//! Why a policy refuses to be configured.

use crate::UnknownColumn;

/// Why a policy cannot run with what it was given. The host shows the text to the operator and keeps the
/// version that runs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A column does not exist.
    #[error(transparent)]
    Column(#[from] UnknownColumn),
    /// The configuration is not what the policy's schema describes.
    #[error(transparent)]
    Config(#[from] crate::config::ConfigError),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl From<String> for Error {
    fn from(text: String) -> Self {
        Self::Other(text)
    }
}

impl From<&str> for Error {
    fn from(text: &str) -> Self {
        Self::Other(text.into())
    }
}
