//! A detached signature: what is signed, and the file that holds it.
//!
//! What is signed is a text, so that any tool that can sign with Ed25519 can make one:
//!
//! ```text
//! sluicegate plugin signature 1
//! name prefix-affinity
//! version 7
//! wasm <SHA-256 of NAME.wasm, hex>
//! settings <SHA-256 of NAME.toml, hex; or "none" where there is no such file>
//! ```
//!
//! Its first line belongs to nothing else that is ever signed, and each line ends in a line feed. No two sets
//! of files have the same text, because a name holds no white space. The file is as strict: these lines,
//! in this order, and no other form.
//!
//! ```text
//! sluicegate-signature 1
//! version 7
//! key release
//! signature <base64>
//! ```

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::config::TrustedKey;
use crate::plugin::artifact::digest;

/// Longest `.sig` that is read; a real one is about 200 bytes.
pub(super) const MAX_BYTES: usize = 1_024;

const HEAD: &str = "sluicegate-signature 1";
const MESSAGE_HEAD: &str = "sluicegate plugin signature 1";

/// A signature and what it says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The version that was signed.
    pub version: u64,
    /// The name of the key.
    pub key: Box<str>,
    /// Ed25519.
    pub bytes: [u8; 64],
}

/// A file that is no signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// Too long, or no text.
    #[error("it is not a text of at most {MAX_BYTES} bytes")]
    NotText,
    /// Not begun as one.
    #[error("it does not begin with the line `{HEAD}`")]
    Head,
    /// A line is missing or says something else.
    #[error("where `{0}` is expected it has something else")]
    Line(&'static str),
    /// There is more than a signature.
    #[error("something follows the signature")]
    Rest,
}

/// The text that is signed.
#[must_use]
pub fn message(name: &str, version: u64, wasm_digest: &str, settings: Option<&[u8]>) -> String {
    let settings = settings.map_or("none".into(), digest);
    format!("{MESSAGE_HEAD}\nname {name}\nversion {version}\nwasm {wasm_digest}\nsettings {settings}\n")
}

impl Signature {
    /// Reads the file.
    ///
    /// # Errors
    /// Where it differs from the one form that is taken.
    pub fn parse(bytes: &[u8]) -> Result<Self, SignatureError> {
        let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_BYTES);
        let mut lines = text.ok_or(SignatureError::NotText)?.split('\n');
        if lines.next() != Some(HEAD) {
            return Err(SignatureError::Head);
        }
        let mut value = |key: &str| lines.next()?.strip_prefix(key)?.strip_prefix(' ');
        let version = value("version").and_then(number).ok_or(SignatureError::Line("version NUMBER"))?;
        let key =
            value("key").filter(|name| TrustedKey::is_name(name)).ok_or(SignatureError::Line("key NAME"))?;
        let bytes = value("signature")
            .and_then(|text| STANDARD.decode(text).ok()?.try_into().ok())
            .ok_or(SignatureError::Line("signature BASE64"))?;
        match (lines.next(), lines.next()) {
            (None | Some(""), None) => Ok(Self { version, key: key.into(), bytes }),
            _ => Err(SignatureError::Rest),
        }
    }
}

/// A number in the one way in which it is printed.
fn number(text: &str) -> Option<u64> {
    text.parse::<u64>().ok().filter(|number| number.to_string() == text)
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, key, bytes } = self;
        write!(f, "{HEAD}\nversion {version}\nkey {key}\nsignature {}\n", STANDARD.encode(bytes))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_signature_reads_back_as_it_is_written(
            version in any::<u64>(),
            key in "[A-Za-z0-9._-]{1,64}",
            bytes in proptest::collection::vec(any::<u8>(), 64),
        ) {
            let signature = Signature { version, key: key.into(), bytes: bytes.try_into().unwrap() };
            prop_assert_eq!(Signature::parse(signature.to_string().as_bytes()), Ok(signature));
        }

        #[test]
        fn there_is_one_form_only(
            version in any::<u64>(),
            at in 0..150_usize,
            other in any::<u8>(),
        ) {
            let signature = Signature { version, key: "release".into(), bytes: [7; 64] };
            let mut text = signature.to_string().into_bytes();
            let at = at % text.len();
            text[at] = other;
            if let Ok(read) = Signature::parse(&text) {
                let again = read.to_string();
                prop_assert_eq!(again.trim_end().as_bytes(), text.trim_ascii_end());
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2_000)) {
            let _ = Signature::parse(&bytes);
        }

        #[test]
        fn no_two_sets_of_files_have_the_same_text(
            a in ("[A-Za-z0-9_-]{1,4}", 0..4_u64, 0..3_u8, proptest::option::of(0..3_u8)),
            b in ("[A-Za-z0-9_-]{1,4}", 0..4_u64, 0..3_u8, proptest::option::of(0..3_u8)),
        ) {
            let text = |(name, version, wasm, settings): &(String, u64, u8, Option<u8>)| {
                message(name, *version, &digest(&[*wasm]), settings.as_ref().map(std::slice::from_ref))
            };
            prop_assert_eq!(text(&a) == text(&b), a == b);
        }
    }

    #[test]
    fn what_differs_from_the_form_is_named() {
        let good = Signature { version: 7, key: "release".into(), bytes: [7; 64] }.to_string();
        for (from, to, expected) in [
            ("signature 1\n", "signature 2\n", SignatureError::Head),
            ("version 7", "version 07", SignatureError::Line("version NUMBER")),
            ("version 7", "version -7", SignatureError::Line("version NUMBER")),
            ("key release", "key re lease", SignatureError::Line("key NAME")),
            ("key release\n", "", SignatureError::Line("key NAME")),
            ("signature B", "signature  B", SignatureError::Line("signature BASE64")),
            ("=\n", "=\nmore\n", SignatureError::Rest),
        ] {
            assert_eq!(
                Signature::parse(good.replacen(from, to, 1).as_bytes()),
                Err(expected),
                "{from} -> {to}"
            );
        }
        assert_eq!(Signature::parse(&[b' '; 2_000]), Err(SignatureError::NotText));
    }
}
