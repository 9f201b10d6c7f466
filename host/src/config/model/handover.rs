//! How the engines of a pool hand over KV.

use serde::{Serialize, Serializer};

use crate::types::Dialect;

/// The protocol between prefill and decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DialectChoice {
    /// What engines of the pool's kind usually speak.
    Auto,
    /// Known.
    Is(Dialect),
}

impl DialectChoice {
    /// The dialect, when it is known.
    #[must_use]
    pub fn known(self) -> Option<Dialect> {
        match self {
            Self::Auto => None,
            Self::Is(dialect) => Some(dialect),
        }
    }
}

impl Serialize for DialectChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.known().map_or("auto", Dialect::as_str))
    }
}
