//! Sizes and speeds of the simulated engine.

/// Time in nanoseconds since the engine started.
pub type Nanos = u64;

/// Sizes and speeds. All times are those that the clock shows: a speed-up is applied before.
#[derive(Debug, Clone)]
pub struct Config {
    /// Tokens in one block.
    pub block_size: usize,
    /// Blocks of the cache.
    pub num_blocks: usize,
    /// Sequences that may run at once.
    pub max_num_seqs: usize,
    /// Tokens computed in one step at most, prefill and decode together.
    pub max_num_batched_tokens: usize,
    /// Longest prompt and answer together, in tokens.
    pub max_model_len: usize,
    /// Nanoseconds of any step.
    pub step_base: f64,
    /// Nanoseconds that one prefill token adds to a step.
    pub prefill_token: f64,
    /// Nanoseconds that one decoding sequence adds to a step.
    pub decode_seq: f64,
    /// Nanoseconds that a transfer from another engine takes whatever its size.
    pub transfer_base: f64,
    /// Nanoseconds that each token transferred adds.
    pub transfer_token: f64,
    /// How long blocks stay pinned for a decode engine; vLLM's `kv_lease_duration` is 30 s.
    pub lease: Nanos,
}

impl Default for Config {
    /// About an 8B model on one H100: 15,000 tok/s prefill, 8 ms a token, 262,144 tokens of cache.
    fn default() -> Self {
        Self {
            block_size: 16,
            num_blocks: 16_384,
            max_num_seqs: 256,
            max_num_batched_tokens: 8192,
            max_model_len: 131_072,
            step_base: 8e6,
            prefill_token: 1e9 / 15_000.0,
            decode_seq: 8e6 / 64.0,
            transfer_base: 2e6,
            transfer_token: 1e9 / 200_000.0,
            lease: 30_000_000_000,
        }
    }
}

impl Config {
    /// How long a step takes:
    /// `step_base + prefill_token · prefill tokens + decode_seq · decoding sequences`.
    ///
    /// The linear form is that of the roofline fits used for vLLM (a step is bound by weights read once, plus compute
    /// per prefill token, plus KV read per decoding sequence).
    #[must_use]
    pub fn step_time(&self, prefill_tokens: usize, decode_seqs: usize) -> Nanos {
        let time = self
            .decode_seq
            .mul_add(decode_seqs as f64, self.prefill_token.mul_add(prefill_tokens as f64, self.step_base));
        (time as Nanos).max(1)
    }

    /// How long it takes to fetch the cache of `tokens` from another engine.
    #[must_use]
    pub fn transfer_time(&self, tokens: usize) -> Nanos {
        (self.transfer_token.mul_add(tokens as f64, self.transfer_base) as Nanos).max(1)
    }

    /// Longest sequence that this engine takes: what the model and the whole cache allow.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.max_model_len.min(self.num_blocks.saturating_mul(self.block_size))
    }
}
