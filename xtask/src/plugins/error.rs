//! Why components could not be built.

use std::io;
use std::path::PathBuf;

/// Why components could not be built.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Nothing on this machine compiles for WebAssembly.
    #[error(
        "no Rust toolchain for wasm32-unknown-unknown. Any one of these is enough:\n  \
         - the target in the active toolchain: `rustup target add wasm32-unknown-unknown` (tried: {rustup})\n  \
         - a toolchain whose sysroot has the target already\n  \
         - on Debian: `apt-get install rustc-web rust-web-src`, and rustup's rust-lld (tried: {debian})"
    )]
    NoToolchain {
        /// What became of rustup.
        rustup: String,
        /// What became of Debian's packages.
        debian: String,
    },
    /// There is no such guest.
    #[error("no guest is named `{name}`; there are {known}")]
    UnknownGuest {
        /// The name asked for.
        name: String,
        /// Those that exist.
        known: String,
    },
    /// Cargo said why on stderr.
    #[error("cargo failed to build {0}")]
    Cargo(String),
    /// The module is no component in the making.
    #[error("cannot make a component of {file}: {problem}")]
    Component {
        /// The module.
        file: PathBuf,
        /// What wit-component says.
        problem: String,
    },
    /// A file or a program cannot be used.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system says.
        error: io::Error,
    },
}

impl Error {
    /// Tells what was tried.
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |error| Self::Io { what, error }
    }
}
