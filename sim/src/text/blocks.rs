//! Chained block hashes: equal hash, equal prefix.

use super::token::Token;
use xxhash_rust::xxh3::Xxh3;

/// Where a chain begins: the model or adapter, and the request's cache salt.
///
/// vLLM puts both among the extra keys of a block's hash, so that what may not be shared never is.
#[must_use]
pub fn chain_seed(model: &str, salt: &str) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(model.as_bytes());
    hasher.update(&[0]);
    hasher.update(salt.as_bytes());
    hasher.digest()
}

/// The hash of a block of `tokens` that follows the block whose hash is `parent`.
#[must_use]
pub fn next_hash(parent: u64, tokens: &[Token]) -> u64 {
    let mut hasher = Xxh3::with_seed(parent);
    for token in tokens {
        hasher.update(&token.to_le_bytes());
    }
    hasher.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_depends_on_all_before_it() {
        let (a, b) = (chain_seed("m", ""), chain_seed("m", "s"));
        assert_ne!(a, b);
        assert_ne!(next_hash(a, &[1, 2]), next_hash(b, &[1, 2]));
        assert_eq!(next_hash(a, &[1, 2]), next_hash(a, &[1, 2]));
        assert_ne!(next_hash(a, &[1, 2]), next_hash(a, &[2, 1]));
    }
}
