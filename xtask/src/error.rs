//! Why a chore failed.

use std::io;

use crate::{layers, plugins};

/// Why a chore failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The command line makes no sense.
    #[error("{0}\n\n{usage}", usage = crate::command::USAGE)]
    Usage(String),
    /// A program that was run says no; it has said why on its own.
    #[error("failed ({status}): {program}")]
    Failed {
        /// The command as a person would type it.
        program: String,
        /// How it ended.
        status: String,
    },
    /// A file or a program cannot be used.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system says.
        error: io::Error,
    },
    /// A program is missing and cannot be installed from here.
    #[error("`{program}` is needed and not there; install it (on Debian: apt-get install {package})")]
    Missing {
        /// The program.
        program: &'static str,
        /// The Debian packages that bring it.
        package: &'static str,
    },
    /// The compiler has no standard library for a target.
    #[error("no standard library of Rust for {target}: {problem}")]
    NoTarget {
        /// The target.
        target: &'static str,
        /// What became of rustup.
        problem: String,
    },
    /// Bindings of the contract could not be generated.
    #[error("no bindings of the contract: {0}")]
    Bindings(String),
    /// Components could not be built.
    #[error(transparent)]
    Plugins(#[from] plugins::Error),
    /// The sources break the rules of the layers.
    #[error("broken rules: {}\n{}", .0.len(), list(.0))]
    Layers(Vec<layers::Breach>),
}

impl Error {
    /// Tells what was tried.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |error| Self::Io { what, error }
    }

    /// 2 for usage, 1 for everything else.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            _ => 1,
        }
    }
}

fn list(breaches: &[layers::Breach]) -> String {
    breaches.iter().map(|breach| format!("  {breach}\n")).collect()
}
