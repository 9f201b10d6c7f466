//! Counters and histograms, under the meaning that vLLM gives them.

use super::config::Nanos;

/// vLLM's buckets of the time to the first token, in seconds.
const TTFT: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0, 2560.0,
];
/// vLLM's buckets of the time between tokens, in seconds.
const ITL: &[f64] = &[
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
];
/// vLLM's buckets of whole requests and their phases, in seconds.
const REQUEST: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
];

/// A histogram of seconds.
#[derive(Debug, Clone)]
pub struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
    count: u64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len()], sum: 0.0, count: 0 }
    }

    /// Adds one duration.
    pub fn observe(&mut self, duration: Nanos) {
        let seconds = duration as f64 / 1e9;
        self.sum += seconds;
        self.count += 1;
        if let Some((_, count)) =
            self.bounds.iter().zip(&mut self.counts).find(|(bound, _)| seconds <= **bound)
        {
            *count += 1;
        }
    }

    /// Upper bounds in seconds with the cumulative count up to each.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.bounds.iter().zip(&self.counts).scan(0, |sum, (bound, count)| {
            *sum += count;
            Some((*bound, *sum))
        })
    }

    /// Sum of all, in seconds.
    #[must_use]
    pub const fn sum(&self) -> f64 {
        self.sum
    }

    /// How many.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }
}

/// All that the engine counts; tokens unless said otherwise.
#[derive(Debug, Clone)]
pub struct Stats {
    /// Prompt tokens of requests that were started.
    pub prompt_tokens: u64,
    /// Tokens generated.
    pub generation_tokens: u64,
    /// Prompt tokens computed here.
    pub local_compute: u64,
    /// Prompt tokens found in this engine's cache.
    pub local_cache_hit: u64,
    /// Prompt tokens fetched from another engine.
    pub external_kv_transfer: u64,
    /// Prompt tokens looked up in the cache.
    pub prefix_queries: u64,
    /// Prompt tokens found there.
    pub prefix_hits: u64,
    /// Prompt tokens that another engine was asked for.
    pub external_queries: u64,
    /// Requests set back for want of blocks.
    pub preemptions: u64,
    /// Sequences that ended by themselves.
    pub finished_stop: u64,
    /// Sequences that ended at their limit.
    pub finished_length: u64,
    /// Sequences that were given up by their client.
    pub aborted: u64,
    /// Leases that ran out before a decode engine came.
    pub leases_expired: u64,
    /// Steps of the batching loop.
    pub steps: u64,
    /// Arrival to first token.
    pub ttft: Histogram,
    /// Between two tokens.
    pub inter_token: Histogram,
    /// Arrival to end.
    pub e2e: Histogram,
    /// Arrival to start.
    pub queue: Histogram,
    /// Start to first token.
    pub prefill: Histogram,
    /// First token to end.
    pub decode: Histogram,
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            prompt_tokens: 0,
            generation_tokens: 0,
            local_compute: 0,
            local_cache_hit: 0,
            external_kv_transfer: 0,
            prefix_queries: 0,
            prefix_hits: 0,
            external_queries: 0,
            preemptions: 0,
            finished_stop: 0,
            finished_length: 0,
            aborted: 0,
            leases_expired: 0,
            steps: 0,
            ttft: Histogram::new(TTFT),
            inter_token: Histogram::new(ITL),
            e2e: Histogram::new(REQUEST),
            queue: Histogram::new(REQUEST),
            prefill: Histogram::new(REQUEST),
            decode: Histogram::new(REQUEST),
        }
    }
}
