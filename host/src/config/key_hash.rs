//! Hashes of keys. What is configured and kept is the hash: who reads it cannot call with it.
//!
//! One round of SHA-256 is enough, because keys are made of random bytes: there is nothing to guess.

use std::fmt;

use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

const BYTES: usize = 32;
const SCHEME: &str = "sha256:";

/// The SHA-256 of a key. Written `sha256:HEX`.
#[derive(Debug, Clone, Copy)]
pub struct KeyHash([u8; BYTES]);

impl KeyHash {
    /// The hash of a key.
    #[must_use]
    pub fn of(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }

    /// Reads `sha256:HEX`.
    ///
    /// # Errors
    /// What is wrong with the text, without repeating it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const FORM: &str = "the hash of a key is `sha256:` and 64 hex digits, as `sluicegate tenant key` \
                            prints it; the key itself is not written here";
        let hex = text.strip_prefix(SCHEME).filter(|hex| hex.len() == 2 * BYTES).ok_or(FORM)?;
        let mut bytes = [0; BYTES];
        for (i, byte) in bytes.iter_mut().enumerate() {
            let digits = hex.get(2 * i..2 * i + 2).ok_or(FORM)?;
            let all_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            *byte = u8::from_str_radix(digits, 16).ok().filter(|_| all_hex).ok_or(FORM)?;
        }
        Ok(Self(bytes))
    }

    /// Its first bytes, by which it is looked up.
    #[must_use]
    pub fn prefix(&self) -> u64 {
        self.0.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

/// Takes the same time wherever the two differ.
impl PartialEq for KeyHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for KeyHash {}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEME)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for KeyHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_sha256sum_prints() {
        let hash = KeyHash::of("abc");
        assert_eq!(
            hash.to_string(),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(KeyHash::parse(&hash.to_string()), Ok(hash));
        assert_ne!(KeyHash::of("abd"), hash);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_hash_or_refused(text in "(sha256:)?[0-9a-fA-F+é]{62,66}") {
            if let Ok(hash) = KeyHash::parse(&text) {
                assert_eq!(hash.to_string(), text.to_ascii_lowercase());
            }
        }
    }
}
