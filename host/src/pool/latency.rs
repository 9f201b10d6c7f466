//! How fast an endpoint has been.
//!
//! Moving averages over its latest requests, NaN until there was one.

use super::atomic::AtomicF32;

/// Uncached tokens from which a prompt says something about the prefill rate: below, the fixed cost
/// of a request outweighs the computing.
const RATE_TOKENS: u32 = 128;

/// Latencies of one endpoint.
#[derive(Debug, Default)]
pub struct Latency {
    ttft: AtomicF32,
    tpot: AtomicF32,
    rate: AtomicF32,
}

impl Latency {
    /// Time to first token, milliseconds.
    #[must_use]
    pub fn ttft_ms(&self) -> f32 {
        self.ttft.get()
    }

    /// Time per output token after the first, milliseconds.
    #[must_use]
    pub fn tpot_ms(&self) -> f32 {
        self.tpot.get()
    }

    /// Prefill rate, tokens per second.
    #[must_use]
    pub fn prefill_tokens_per_s(&self) -> f32 {
        self.rate.get()
    }

    /// A first token came after `ttft_ms`. The prefill rate is learned from it when nothing stood
    /// before the request (`ahead`, see [`super::Reservation::ahead`]) and its own part was long enough.
    #[expect(clippy::cast_precision_loss, reason = "a rate, not a count")]
    pub fn first_token(&self, ttft_ms: f32, uncached_tokens: u32, ahead: u64) {
        if ttft_ms < 0.0 {
            return;
        }
        self.ttft.average(ttft_ms);
        if ahead == 0 && uncached_tokens >= RATE_TOKENS && ttft_ms > 0.0 {
            self.rate.average(uncached_tokens as f32 * 1_000.0 / ttft_ms);
        }
    }

    /// `tokens` came in the `ms` milliseconds after the first one.
    #[expect(clippy::cast_precision_loss, reason = "a duration, not a count")]
    pub fn output(&self, ms: f32, tokens: u32) {
        if tokens > 0 && ms >= 0.0 {
            self.tpot.average(ms / tokens as f32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_learned_from_undisturbed_long_prompts_only() {
        let latency = Latency::default();
        latency.first_token(100.0, 1_000, 5);
        latency.first_token(100.0, RATE_TOKENS - 1, 0);
        latency.first_token(0.0, 1_000, 0);
        assert!(latency.prefill_tokens_per_s().is_nan());
        latency.first_token(100.0, 1_000, 0);
        assert!((latency.prefill_tokens_per_s() - 10_000.0).abs() < 0.1);
        latency.first_token(f32::NAN, 1_000, 0);
        assert!(latency.ttft_ms().is_finite());
    }

    #[test]
    fn time_per_token_needs_tokens() {
        let latency = Latency::default();
        latency.output(100.0, 0);
        assert!(latency.tpot_ms().is_nan());
        latency.output(100.0, 10);
        assert!((latency.tpot_ms() - 10.0).abs() < 1e-6);
    }
}
