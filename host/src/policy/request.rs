//! One request as policies see it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::HeaderMap;
use parking_lot::Mutex;

use crate::clock::Nanos;
use crate::prefix;
use crate::types::{Api, Prompt};

/// Facts of one request. Built once when the body has been read; immutable from then on.
#[derive(Debug)]
pub struct Request {
    /// `x-request-id`, the client's or ours.
    pub id: Arc<str>,
    /// The API through which it came.
    pub api: Api,
    /// Path without query.
    pub path: Box<str>,
    /// Model after aliases and rewrites; empty where the API has none.
    pub model: Box<str>,
    /// LoRA adapter, when the model names one.
    pub adapter: Option<Box<str>>,
    /// Who called, when callers are known.
    pub tenant: Option<Box<str>>,
    /// Fairness id; empty for the default flow.
    pub flow: Box<str>,
    /// Higher first; negative is sheddable.
    pub priority: i32,
    /// Session id, when one is known.
    pub session: Option<Box<str>>,
    /// The answer that it continues, which the engine that gave it has kept.
    pub continues: Option<Box<str>>,
    /// Turns already seen in this session.
    pub turn: u32,
    /// Prompt length in tokens.
    pub prompt_tokens: u32,
    /// Whether `prompt_tokens` is a count and not an estimate.
    pub prompt_tokens_exact: bool,
    /// What the pool's tokenizer came to; none without one.
    pub tokenizer: Option<&'static str>,
    /// The limit on output tokens that the client set.
    pub max_output_tokens: Option<u32>,
    /// Whether the client asked for a stream.
    pub streaming: bool,
    /// Target for the time to first token, milliseconds.
    pub ttft_target_ms: Option<f32>,
    /// Target for the time per output token, milliseconds.
    pub tpot_target_ms: Option<f32>,
    /// How long the client lets it wait in the queue, milliseconds.
    pub ttl_ms: Option<u32>,
    /// When it arrived.
    pub arrived: Nanos,
    /// The client's headers.
    pub headers: HeaderMap,
    /// The client's body, as it came.
    pub body: Bytes,
    /// The canonical prompt and how it is hashed; none where there is no prompt.
    pub prefix: Option<PrefixSource>,
}

/// A prompt that is hashed at most once, and only if somebody asks.
#[derive(Debug)]
pub struct PrefixSource {
    prompt: Prompt,
    seed: u64,
    block_tokens: u32,
    salt: Box<str>,
    hashes: OnceLock<Arc<[u64]>>,
    tokens: OnceLock<Arc<[u32]>>,
    by_tokens: Mutex<Vec<Hashed>>,
}

/// The hashes of a prompt's token ids for one seed and one size of blocks.
#[derive(Debug)]
struct Hashed {
    seed: u64,
    block_tokens: u32,
    hashes: Arc<[u64]>,
}

impl PrefixSource {
    /// A prompt to be hashed in blocks of `block_tokens` tokens with `seed` before the first.
    #[must_use]
    pub fn new(prompt: Prompt, seed: u64, block_tokens: u32) -> Self {
        Self {
            prompt,
            seed,
            block_tokens,
            salt: Box::default(),
            hashes: OnceLock::new(),
            tokens: OnceLock::new(),
            by_tokens: Mutex::default(),
        }
    }

    /// The same prompt under a cache salt of the client's, which keeps engines' caches apart.
    #[must_use]
    pub fn salted(self, salt: &str) -> Self {
        Self { salt: salt.into(), ..self }
    }

    /// A prompt that is gone, of which these hashes were kept.
    #[must_use]
    pub fn hashed_before(hashes: Arc<[u64]>, block_tokens: u32) -> Self {
        Self { hashes: OnceLock::from(hashes), ..Self::new(Prompt::Text(Vec::new()), 0, block_tokens) }
    }

    /// The client's cache salt; empty without one.
    #[must_use]
    pub fn salt(&self) -> &str {
        &self.salt
    }

    /// The prompt's token ids as the engine will have them, if they are known.
    #[must_use]
    pub fn tokens(&self) -> Option<&Arc<[u32]>> {
        match &self.prompt {
            Prompt::Tokens(ids) => Some(self.tokens.get_or_init(|| ids.as_slice().into())),
            Prompt::Text(_) => self.tokens.get(),
        }
    }

    /// The engine's tokenizer makes these ids of the prompt's text. Once said it stays; of a prompt that came as
    /// token ids nothing needs to be said.
    pub fn tokenized(&self, ids: Arc<[u32]>) {
        if matches!(self.prompt, Prompt::Text(_)) {
            let _said_before = self.tokens.set(ids);
        }
    }

    /// Chained hashes of the full blocks of the token ids, without the last id: engines compute that one in any
    /// case. None while the ids are not known.
    #[must_use]
    pub fn token_hashes(&self, seed: u64, block_tokens: u32) -> Option<Arc<[u64]>> {
        let (_last, ids) = self.tokens()?.split_last()?;
        let mut chains = self.by_tokens.lock();
        let same = |chain: &&Hashed| chain.seed == seed && chain.block_tokens == block_tokens;
        if let Some(known) = chains.iter().find(same) {
            return Some(Arc::clone(&known.hashes));
        }
        let hashes: Arc<[u64]> = prefix::token_hashes(seed, ids, block_tokens).into();
        chains.push(Hashed { seed, block_tokens, hashes: Arc::clone(&hashes) });
        Some(hashes)
    }

    /// The hashes, if somebody has asked for them.
    #[must_use]
    pub fn hashed(&self) -> Option<&Arc<[u64]>> {
        self.hashes.get()
    }

    /// Tokens in one block.
    #[must_use]
    pub fn block_tokens(&self) -> u32 {
        self.block_tokens
    }

    /// Length of the prompt by the measure in which its blocks are cut; of text an estimate.
    #[must_use]
    pub fn estimate(&self) -> u32 {
        self.prompt.tokens()
    }

    /// Tokens in so many blocks of a prompt of `prompt_tokens`. Blocks of text are cut by an estimate, which the
    /// prompt's true length puts right.
    #[must_use]
    pub fn tokens_in(&self, blocks: u32, prompt_tokens: u32) -> u32 {
        let cut = blocks.saturating_mul(self.block_tokens);
        match self.prompt.tokens() {
            0 => cut.min(prompt_tokens),
            estimate => scaled(cut, prompt_tokens, estimate).min(prompt_tokens),
        }
    }

    /// Blocks that are full with so many tokens of a prompt of `prompt_tokens`.
    #[must_use]
    pub fn blocks_in(&self, tokens: u32, prompt_tokens: u32) -> u32 {
        let cut =
            if prompt_tokens == 0 { tokens } else { scaled(tokens, self.prompt.tokens(), prompt_tokens) };
        cut.checked_div(self.block_tokens).unwrap_or(0)
    }

    /// Chained hashes of the full blocks of the prompt.
    pub fn hashes(&self) -> &Arc<[u64]> {
        self.hashes.get_or_init(|| prefix::block_hashes(self.seed, &self.prompt, self.block_tokens).into())
    }
}

/// `count · to / from`, cut off at the largest number.
fn scaled(count: u32, to: u32, from: u32) -> u32 {
    let scaled = (u64::from(count) * u64::from(to)).checked_div(from.into()).unwrap_or(0);
    u32::try_from(scaled).unwrap_or(u32::MAX)
}

impl Request {
    /// A chat of 1,000 tokens about which nothing is remarkable: for trial calls, tests and benchmarks.
    #[must_use]
    pub fn unremarkable(id: &str) -> Self {
        Self {
            id: id.into(),
            api: Api::Chat,
            path: "/v1/chat/completions".into(),
            model: "unremarkable".into(),
            adapter: None,
            tenant: None,
            flow: "".into(),
            priority: 0,
            session: None,
            continues: None,
            turn: 0,
            prompt_tokens: 1_000,
            prompt_tokens_exact: false,
            tokenizer: None,
            max_output_tokens: Some(100),
            streaming: true,
            ttft_target_ms: None,
            tpot_target_ms: None,
            ttl_ms: None,
            arrived: 0,
            headers: HeaderMap::new(),
            body: Bytes::from_static(b"{}"),
            prefix: None,
        }
    }

    /// Chained hashes of the full blocks of the prompt; empty without a prompt.
    #[must_use]
    pub fn prefix_hashes(&self) -> &[u64] {
        self.prefix.as_ref().map_or(&[], |source| source.hashes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_clients_or_the_first_that_were_computed() {
        let given = PrefixSource::new(Prompt::Tokens(vec![1, 2]), 0, 16);
        given.tokenized([3].into());
        assert_eq!(given.tokens().map(|ids| &**ids), Some(&[1, 2][..]));
        let text = PrefixSource::new(Prompt::Text(b"abc".to_vec()), 0, 16);
        assert!(text.tokens().is_none());
        text.tokenized([3].into());
        text.tokenized([4].into());
        assert_eq!(text.tokens().map(|ids| &**ids), Some(&[3][..]));
    }

    #[test]
    fn the_true_length_puts_blocks_of_text_right() {
        // 1,000 tokens by estimate.
        let source = PrefixSource::new(Prompt::Text(vec![b'a'; 4_000]), 0, 10);
        assert_eq!((source.tokens_in(50, 1_000), source.blocks_in(500, 1_000)), (500, 50));
        assert_eq!((source.tokens_in(50, 600), source.blocks_in(300, 600)), (300, 50));
        assert_eq!((source.tokens_in(u32::MAX, 600), source.blocks_in(5, 0)), (600, 0));
        let gone = PrefixSource::hashed_before([].into(), 10);
        assert_eq!((gone.tokens_in(3, 100), gone.tokens_in(3, 20), gone.blocks_in(50, 0)), (30, 20, 5));
    }
}
