//! A broken rule.

use std::fmt;
use std::path::PathBuf;

/// A broken rule and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Breach {
    /// The file, from the project's folder.
    pub(crate) file: PathBuf,
    /// The line, from 1.
    pub(crate) line: usize,
    /// What is wrong, for a person.
    pub(crate) problem: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.problem)
    }
}
