//! Which bytes may be plugins, and what compiling them may cost.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};

use super::read::{Item, Table};

/// Bytes of an Ed25519 public key.
const KEY_BYTES: usize = 32;
/// Characters of a key's name at most: it stands in every signature.
const NAME_LENGTH: usize = 64;

/// Which bytes may be plugins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SupplyConfig {
    /// SHA-256 of the files that may be loaded, lower-case hex; empty: any file.
    pub allow: Vec<Box<str>>,
    /// Whose signatures count; empty: no signature is asked for. Names are unique.
    pub keys: Vec<TrustedKey>,
    /// Whether a signed version may be followed by an older one.
    pub allow_older: bool,
    /// Longest file.
    pub max_bytes: usize,
}

impl Default for SupplyConfig {
    fn default() -> Self {
        Self { allow: Vec::new(), keys: Vec::new(), allow_older: false, max_bytes: 64 << 20 }
    }
}

/// What compiling one file may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileConfig {
    /// CPU time, in whole seconds.
    pub cpu: Duration,
    /// Address space of the process that compiles.
    pub memory_bytes: usize,
}

impl Default for CompileConfig {
    fn default() -> Self {
        Self { cpu: Duration::from_secs(60), memory_bytes: 3 << 30 }
    }
}

/// A public key, and the name by which signatures refer to it. Written `NAME:BASE64`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedKey {
    /// Its name.
    pub name: Box<str>,
    /// The Ed25519 public key.
    pub public: [u8; KEY_BYTES],
}

impl TrustedKey {
    /// Whether a text may name a key: 1 to 64 of `A-Z a-z 0-9 - _ .`
    #[must_use]
    pub fn is_name(text: &str) -> bool {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        (1..=NAME_LENGTH).contains(&text.len()) && text.bytes().all(plain)
    }

    /// Reads `NAME:BASE64`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, public) = text
            .split_once(':')
            .ok_or("a key is written `NAME:BASE64`, as `sluicegate plugin keygen` prints it")?;
        if !Self::is_name(name) {
            return Err(format!("a key's name is 1 to {NAME_LENGTH} of A-Z a-z 0-9 - _ ."));
        }
        let public = STANDARD.decode(public).ok().and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| {
            format!("the key `{name}` is not {KEY_BYTES} bytes in base64; copy the line that `sluicegate plugin keygen` printed")
        })?;
        Ok(Self { name: name.into(), public })
    }
}

impl fmt::Display for TrustedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, STANDARD.encode(self.public))
    }
}

impl Serialize for TrustedKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads both from `[plugins]`.
pub(super) fn supply(table: &Table<'_>) -> (SupplyConfig, CompileConfig) {
    let keys = table
        .each("keys", |item| TrustedKey::parse(item.text()?).map_err(|problem| item.error(problem)).ok());
    for (i, key) in keys.iter().enumerate() {
        if keys.iter().take(i).any(|earlier| earlier.name == key.name) {
            table.error("keys", format!("`{}` is named twice", key.name), None);
        }
    }
    let supply = SupplyConfig {
        allow: table.each("allow", digest),
        keys,
        allow_older: table.flag("allow_older"),
        max_bytes: table.usize("max_bytes"),
    };
    let compile = CompileConfig {
        cpu: Duration::from_secs(table.u32("compile_s").into()),
        memory_bytes: table.usize("compile_mib").saturating_mul(1 << 20),
    };
    (supply, compile)
}

fn digest(item: &Item<'_, '_>) -> Option<Box<str>> {
    let text = item.text()?;
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        item.error("a digest is the 64 hex digits that `sha256sum` prints");
        return None;
    }
    Some(text.to_ascii_lowercase().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_key_reads_back_as_it_is_written(
            name in "[A-Za-z0-9._-]{1,64}",
            public in proptest::array::uniform32(proptest::num::u8::ANY),
        ) {
            let key = TrustedKey { name: name.into(), public };
            assert_eq!(TrustedKey::parse(&key.to_string()), Ok(key));
        }

        #[test]
        fn any_text_is_a_key_or_told_what_is_wrong(text in ".*") {
            if let Ok(key) = TrustedKey::parse(&text) {
                assert_eq!(key.to_string(), text);
            }
        }
    }

    #[test]
    fn defaults_are_those_of_a_file_that_says_nothing() {
        let config = crate::config::from_text("t.toml", "", std::path::Path::new("")).unwrap();
        assert_eq!((config.supply, config.compile), Default::default());
    }

    #[test]
    fn every_mistake_is_told_with_its_key() {
        let text = "plugins.allow = [\"ab\"]\nplugins.keys = [\"k\", \"a:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\", \"a:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"]\n";
        let errors =
            crate::config::from_text("t.toml", text, std::path::Path::new("")).unwrap_err().to_string();
        for part in [
            "plugins.allow[0]: a digest is",
            "plugins.keys[0]: a key is written",
            "plugins.keys: `a` is named twice",
        ] {
            assert!(errors.contains(part), "{part} is not in: {errors}");
        }
    }

    #[test]
    fn what_is_no_key_is_told_how_one_is_written() {
        for (text, expected) in
            [("abc", "NAME:BASE64"), ("a b:AAAA", "name is"), ("a:AAAA", "32 bytes"), (":", "name is")]
        {
            let problem = TrustedKey::parse(text).unwrap_err();
            assert!(problem.contains(expected), "{text}: {problem}");
        }
    }
}
