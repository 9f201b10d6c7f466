//! Chained hashes of the blocks of a prompt.
//!
//! `h(0)` is the seed and `h(i) = H(h(i-1), block i)`: two prompts have a hash in common exactly where they
//! have everything up to there in common (but for collisions of 64 bits). Only full blocks have one, as only
//! full blocks are shared by engines. Equal in every replica and after a restart.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::types::{BYTES_PER_TOKEN, Prompt};

/// The most blocks of a prompt that are hashed; what lies beyond shares nothing.
pub const MAX_BLOCKS: usize = 16_384;

/// A seed of what keeps caches apart: model, adapter, salt, tenant. How the parts are cut matters.
#[must_use]
pub fn seed(parts: &[&[u8]]) -> u64 {
    parts.iter().fold(parts.len() as u64, |seed, part| xxh3_64_with_seed(&xxh3_64(part).to_le_bytes(), seed))
}

/// The chained hashes of the full blocks of `prompt`, at most [`MAX_BLOCKS`].
///
/// A block is `block_tokens` token ids, or the text that is taken for as many. With blocks of no tokens there
/// are none.
#[must_use]
pub fn block_hashes(seed: u64, prompt: &Prompt, block_tokens: u32) -> Vec<u64> {
    let Ok(tokens) = usize::try_from(block_tokens) else { return Vec::new() };
    if tokens == 0 {
        return Vec::new();
    }
    match prompt {
        Prompt::Text(text) => {
            let block = tokens.saturating_mul(BYTES_PER_TOKEN);
            let mut chain = Chain::new(seed, text.len() / block);
            text.chunks_exact(block).take(MAX_BLOCKS).for_each(|block| chain.push(block));
            chain.hashes
        }
        Prompt::Tokens(ids) => token_hashes(seed, ids, block_tokens),
    }
}

/// The same of a prompt of these token ids.
#[must_use]
pub fn token_hashes(seed: u64, ids: &[u32], block_tokens: u32) -> Vec<u64> {
    let Ok(tokens) = usize::try_from(block_tokens) else { return Vec::new() };
    if tokens == 0 {
        return Vec::new();
    }
    let mut chain = TokenChain::after(token_root(seed));
    ids.chunks_exact(tokens).take(MAX_BLOCKS).map(|block| chain.push(block)).collect()
}

/// What precedes the first block of a prompt of token ids. Token ids and text that happen to have the same bytes
/// are different prompts.
#[must_use]
pub fn token_root(seed: u64) -> u64 {
    !seed
}

/// A chain of blocks of token ids, as it grows.
#[derive(Debug)]
pub struct TokenChain {
    last: u64,
    bytes: Vec<u8>,
}

impl TokenChain {
    /// The chain that goes on after the block of this hash, or after [`token_root`].
    #[must_use]
    pub fn after(parent: u64) -> Self {
        Self { last: parent, bytes: Vec::new() }
    }

    /// Adds a block; its hash.
    pub fn push(&mut self, ids: &[u32]) -> u64 {
        self.bytes.clear();
        ids.iter().for_each(|id| self.bytes.extend_from_slice(&id.to_le_bytes()));
        self.last = link(self.last, &self.bytes);
        self.last
    }

    /// Adds a block that differs from others of the same ids by `key`; its hash.
    pub fn push_keyed(&mut self, ids: &[u32], key: u64) -> u64 {
        let plain = self.push(ids);
        self.last = xxh3_64_with_seed(&key.to_le_bytes(), !plain);
        self.last
    }
}

fn link(parent: u64, block: &[u8]) -> u64 {
    xxh3_64_with_seed(&xxh3_64(block).to_le_bytes(), parent)
}

struct Chain {
    last: u64,
    hashes: Vec<u64>,
}

impl Chain {
    fn new(seed: u64, blocks: usize) -> Self {
        Self { last: seed, hashes: Vec::with_capacity(blocks.min(MAX_BLOCKS)) }
    }

    fn push(&mut self, block: &[u8]) {
        self.last = link(self.last, block);
        self.hashes.push(self.last);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_full_blocks_and_only_so_many() {
        let text = |len: usize| Prompt::Text(vec![b'a'; len]);
        assert!(block_hashes(1, &text(63), 16).is_empty());
        assert_eq!(block_hashes(1, &text(64), 16).len(), 1);
        assert_eq!(block_hashes(1, &text(200), 16).len(), 3);
        assert!(block_hashes(1, &text(200), 0).is_empty());
        assert!(block_hashes(1, &text(200), u32::MAX).is_empty());
        assert_eq!(block_hashes(1, &text(4 * (MAX_BLOCKS + 9)), 1).len(), MAX_BLOCKS);
        assert_eq!(block_hashes(1, &Prompt::Tokens(vec![7; 33]), 16).len(), 2);
    }

    #[test]
    fn seeds_and_kinds_keep_apart() {
        assert_ne!(seed(&[b"ab", b"c"]), seed(&[b"a", b"bc"]));
        assert_ne!(seed(&[b"a"]), seed(&[b"a", b""]));
        let tokens = Prompt::Tokens(vec![0x6161_6161; 16]);
        let text = Prompt::Text(vec![b'a'; 64]);
        assert_ne!(block_hashes(1, &tokens, 16), block_hashes(1, &text, 16));
        assert_ne!(block_hashes(1, &text, 16), block_hashes(2, &text, 16));
    }

    #[test]
    fn equal_in_every_release() {
        // Replicas and warm state rely on these.
        let hashes = block_hashes(seed(&[b"model"]), &Prompt::Text(vec![b'a'; 128]), 16);
        assert_eq!(hashes, block_hashes(seed(&[b"model"]), &Prompt::Text(vec![b'a'; 191]), 16));
        assert_eq!(hashes, [11_365_539_863_919_995_442, 3_932_878_581_634_475_616]);
    }

    proptest! {
        #[test]
        fn tokens_share_exactly_their_common_blocks(
            shared in proptest::collection::vec(0_u32..4, 0..40),
            a in proptest::collection::vec(0_u32..4, 0..20),
            b in proptest::collection::vec(0_u32..4, 0..20),
            block in 1_u32..6,
        ) {
            let (one, other) = ([shared.clone(), a].concat(), [shared, b].concat());
            let common = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
            let hash = |ids: Vec<u32>| block_hashes(3, &Prompt::Tokens(ids), block);
            let (one, other) = (hash(one), hash(other));
            let blocks = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(blocks, common / block as usize);
        }

        #[test]
        fn text_shares_exactly_its_common_blocks(
            shared in proptest::collection::vec(0_u8..3, 0..80),
            a in proptest::collection::vec(0_u8..3, 0..40),
            b in proptest::collection::vec(0_u8..3, 0..40),
            block in 1_u32..5,
        ) {
            let (one, other) = ([shared.clone(), a].concat(), [shared, b].concat());
            let common = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
            let hash = |text: Vec<u8>| block_hashes(3, &Prompt::Text(text), block);
            let (one, other) = (hash(one), hash(other));
            let blocks = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(blocks, common / (block as usize * BYTES_PER_TOKEN));
            // And nothing meets again after it has parted.
            prop_assert!(one.iter().zip(&other).skip(blocks).all(|(a, b)| a != b));
        }
    }
}
