//! The secret half of a key, for those who sign.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};

use super::{Files, Signature, message};
use crate::config::TrustedKey;
use crate::plugin::artifact::digest;

const HEAD: &str = "sluicegate-key 1";

/// A key that cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    NoRandom,
    /// The file is no key.
    #[error("not a key that `sluicegate plugin keygen` made")]
    NotAKey,
    /// A name that no key may have.
    #[error("`{0}` cannot name a key: a name is 1 to 64 of A-Z a-z 0-9 - _ .")]
    Name(String),
}

/// An Ed25519 key with its name.
pub struct SecretKey {
    name: Box<str>,
    seed: [u8; 32],
    pair: Ed25519KeyPair,
}

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretKey").field("name", &self.name).finish_non_exhaustive()
    }
}

impl SecretKey {
    /// A new one.
    ///
    /// # Errors
    /// When the name is none, or the system gives no random numbers.
    pub fn generate(name: &str) -> Result<Self, KeyError> {
        let mut seed = [0; 32];
        SystemRandom::new().fill(&mut seed).map_err(|_| KeyError::NoRandom)?;
        Self::new(name, seed)
    }

    fn new(name: &str, seed: [u8; 32]) -> Result<Self, KeyError> {
        if !TrustedKey::is_name(name) {
            return Err(KeyError::Name(name.into()));
        }
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| KeyError::NotAKey)?;
        Ok(Self { name: name.into(), seed, pair })
    }

    /// Reads what [`SecretKey::to_text`] wrote.
    ///
    /// # Errors
    /// When it is something else.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return Err(KeyError::NotAKey);
        }
        let name = lines.next().and_then(|line| line.strip_prefix("name ")).ok_or(KeyError::NotAKey)?;
        let seed = lines.next().and_then(|line| line.strip_prefix("secret "));
        let seed = seed.and_then(|text| STANDARD.decode(text).ok()?.try_into().ok());
        Self::new(name, seed.ok_or(KeyError::NotAKey)?)
    }

    /// The file's text. Whoever reads it can sign.
    #[must_use]
    pub fn to_text(&self) -> String {
        format!("{HEAD}\nname {}\nsecret {}\n", self.name, STANDARD.encode(self.seed))
    }

    /// The public half, for `plugins.keys`.
    ///
    /// # Errors
    /// Never in practice: an Ed25519 public key has 32 bytes.
    pub fn public(&self) -> Result<TrustedKey, KeyError> {
        let public = self.pair.public_key().as_ref().try_into().map_err(|_| KeyError::NotAKey)?;
        Ok(TrustedKey { name: self.name.clone(), public })
    }

    /// Signs files as this version.
    ///
    /// # Errors
    /// Never in practice: an Ed25519 signature has 64 bytes.
    pub fn sign(&self, files: &Files<'_>, version: u64) -> Result<Signature, KeyError> {
        let text = message(files.name, version, &digest(files.wasm), files.settings);
        let bytes = self.pair.sign(text.as_bytes()).as_ref().try_into().map_err(|_| KeyError::NotAKey)?;
        Ok(Signature { version, key: self.name.clone(), bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_reads_back_and_shows_no_secret() {
        let key = SecretKey::generate("release").unwrap();
        let again = SecretKey::parse(&key.to_text()).unwrap();
        assert_eq!(again.public().unwrap(), key.public().unwrap());
        assert!(!format!("{key:?}").contains(&STANDARD.encode(key.seed)));
        assert_ne!(SecretKey::generate("release").unwrap().seed, key.seed);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for text in
            ["", "sluicegate-key 1\n", "sluicegate-key 1\nname a\nsecret AAAA\n", "-----BEGIN KEY-----"]
        {
            assert!(matches!(SecretKey::parse(text), Err(KeyError::NotAKey)), "{text}");
        }
        assert!(matches!(SecretKey::generate("a key"), Err(KeyError::Name(_))));
    }
}
