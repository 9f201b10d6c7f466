//! From a file's bytes to the bytes of a component.
//!
//! Foreign bytes are looked at before the compiler sees them: magic, a full parse. A core module
//! that carries component metadata (what `wit-bindgen` leaves in every guest) is wrapped here, so that
//! authors need no further tool.

use sha2::{Digest, Sha256};
use wasmparser::{Parser, Payload, Validator};

/// Bytes that are no plugin.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// Not WebAssembly at all.
    #[error(
        "not a WebAssembly file: it begins with {0:?} instead of \"\\0asm\"; build a component, or a core module with component metadata"
    )]
    NotWasm(String),
    /// Machine code, of wasmtime or not.
    #[error(
        "it is machine code (an ELF file, such as a .cwasm), and loading it would be to trust it; put the .wasm there that it was made of"
    )]
    Precompiled,
    /// Cut off or corrupt.
    #[error(
        "the file is cut off or corrupt at byte {offset}: {message}; copy it again, best under another name and then rename it"
    )]
    Corrupt {
        /// Where the parser stopped.
        offset: u64,
        /// What it said.
        message: String,
    },
    /// A core module that no component can be made of.
    #[error(
        "a core module without component metadata (no `component-type` section): build it with sluicegate-sdk, or run `wasm-tools component embed` and `component new` on it"
    )]
    NoMetadata,
    /// Wrapping failed.
    #[error("the core module cannot be made a component: {0}")]
    Wrap(String),
    /// What wrapped it came to an end.
    #[error("the core module cannot be made a component, and what tried ended before it was done: {0}")]
    Lost(String),
}

/// A component's bytes and the digest of the file that they came from.
#[derive(Debug, Clone)]
pub struct Artifact {
    /// SHA-256 of the file, hex.
    pub digest: Box<str>,
    /// The component.
    pub component: Vec<u8>,
    /// SHA-256 of the component, hex; the file's own, unless it had to be wrapped.
    pub component_digest: Box<str>,
}

/// SHA-256, hex.
#[must_use]
pub fn digest(bytes: &[u8]) -> Box<str> {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        let _ = write!(text, "{byte:02x}");
    }
    text.into()
}

impl Artifact {
    /// Looks at a file's bytes and wraps them if need be, in this process.
    ///
    /// # Errors
    /// When they are no plugin; the message says what to do.
    pub fn read(bytes: &[u8]) -> Result<Self, ArtifactError> {
        Self::read_with(bytes, wrap)
    }

    /// The same with something else that makes components of core modules.
    ///
    /// # Errors
    /// When they are no plugin; the message says what to do.
    pub(super) fn read_with(
        bytes: &[u8],
        wrap: impl FnOnce(&[u8]) -> Result<Vec<u8>, ArtifactError>,
    ) -> Result<Self, ArtifactError> {
        if bytes.starts_with(b"\x7fELF") {
            return Err(ArtifactError::Precompiled);
        }
        if !bytes.starts_with(b"\0asm") {
            let head = bytes.get(..bytes.len().min(16)).unwrap_or_default();
            return Err(ArtifactError::NotWasm(String::from_utf8_lossy(head).into_owned()));
        }
        Validator::new().validate_all(bytes).map_err(|error| ArtifactError::Corrupt {
            offset: error.offset(),
            message: error.message().into(),
        })?;
        let file = digest(bytes);
        let (component, component_digest) = if Parser::is_component(bytes) {
            (bytes.to_vec(), file.clone())
        } else if !is_described(bytes) {
            return Err(ArtifactError::NoMetadata);
        } else {
            let component = wrap(bytes)?;
            let digest = digest(&component);
            (component, digest)
        };
        Ok(Self { digest: file, component, component_digest })
    }
}

/// Whether a core module carries component metadata.
fn is_described(module: &[u8]) -> bool {
    Parser::new(0).parse_all(module).any(|payload| {
        matches!(payload, Ok(Payload::CustomSection(section)) if section.name().starts_with("component-type"))
    })
}

/// Makes a component of a core module. What its metadata says is believed by the libraries that do: packages that need
/// each other in a circle have them recurse without end, which nothing in this process can stop.
pub(super) fn wrap(module: &[u8]) -> Result<Vec<u8>, ArtifactError> {
    wit_component::ComponentEncoder::default()
        .validate(true)
        .module(module)
        .and_then(|encoder| encoder.encode())
        .map_err(|error| ArtifactError::Wrap(format!("{error:#}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_refused_with_its_head() {
        let error = Artifact::read(b"#!/bin/sh\necho hello").unwrap_err();
        assert!(error.to_string().contains("#!/bin/sh"), "{error}");
    }

    #[test]
    fn a_cut_off_file_is_refused_with_the_place() {
        let error = Artifact::read(b"\0asm\x01\0\0\0\x01\xff").unwrap_err();
        assert!(matches!(error, ArtifactError::Corrupt { .. }), "{error}");
        assert!(matches!(Artifact::read(b"\0asm").unwrap_err(), ArtifactError::Corrupt { .. }));
    }

    #[test]
    fn machine_code_is_refused() {
        let code = wasmtime::Engine::default().precompile_component(b"\0asm\x0d\0\x01\0").unwrap();
        assert!(matches!(Artifact::read(&code).unwrap_err(), ArtifactError::Precompiled));
    }

    #[test]
    fn a_bare_module_is_told_what_it_lacks() {
        let error = Artifact::read(b"\0asm\x01\0\0\0").unwrap_err();
        assert!(matches!(error, ArtifactError::NoMetadata), "{error}");
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(tail in proptest::collection::vec(proptest::num::u8::ANY, 0..256)) {
            let mut bytes = b"\0asm".to_vec();
            bytes.extend(&tail);
            let _ = Artifact::read(&bytes);
            let _ = Artifact::read(&tail);
        }
    }
}
