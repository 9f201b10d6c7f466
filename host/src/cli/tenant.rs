//! `sluicegate tenant key`

use std::io::Read as _;
use std::process::ExitCode;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::Args;
use ring::rand::{SecureRandom as _, SystemRandom};

use super::output::{bad, good};
use crate::config::KeyHash;

/// By which people, and programs that look for leaked keys, know one.
const PREFIX: &str = "sk-sluice-";
/// Random bytes of a key.
const BYTES: usize = 32;
/// Characters that a key from elsewhere has at least.
const MIN_LENGTH: usize = 16;

/// Makes a key, or hashes one that is there.
#[derive(Debug, Args)]
pub(super) struct Key {
    /// Hash the key that comes by standard input, and make none.
    #[arg(long)]
    stdin: bool,
}

#[derive(Debug, thiserror::Error)]
enum KeyError {
    #[error("the system gives no random bytes")]
    Random,
    #[error("standard input cannot be read: {0}")]
    Input(std::io::Error),
    #[error("a key is one line of {MIN_LENGTH} visible ASCII characters or more")]
    Form,
}

/// Prints the key, once, and its hash for `key_hashes`.
pub(super) fn key(key: &Key) -> ExitCode {
    match if key.stdin { given() } else { made() } {
        Ok(text) => good(&text),
        Err(error) => bad(&error),
    }
}

fn made() -> Result<String, KeyError> {
    let mut bytes = [0; BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| KeyError::Random)?;
    let key = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes));
    Ok(format!("{key}\n{}\n", KeyHash::of(&key)))
}

fn given() -> Result<String, KeyError> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(KeyError::Input)?;
    let key = text.trim();
    if key.len() < MIN_LENGTH || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(KeyError::Form);
    }
    Ok(format!("{}\n", KeyHash::of(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_key_has_the_hash_that_is_printed_with_it() {
        let text = made().unwrap();
        let (key, hash) = text.trim_end().split_once('\n').unwrap();
        assert_eq!(KeyHash::parse(hash), Ok(KeyHash::of(key)));
        assert_eq!(key.len(), PREFIX.len() + 43);
        assert_ne!(made().unwrap(), text);
    }
}
