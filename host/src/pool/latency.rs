//! How fast an endpoint has been.
//!
//! Moving averages over its latest requests, NaN until there was one; and lines through what prompts and transfers of
//! several lengths took.

use super::atomic::AtomicF32;
use super::trend::{Line, Trend};

/// Uncached tokens from which a prompt says something about the prefill rate: below, the fixed cost
/// of a request outweighs the computing.
const RATE_TOKENS: u32 = 128;
/// Tokens up to which the fixed time of a transfer outweighs its rate.
const FEW_TOKENS: f64 = 1_024.0;

/// Latencies of one endpoint.
#[derive(Debug, Default)]
pub struct Latency {
    ttft: AtomicF32,
    tpot: AtomicF32,
    least_tpot: AtomicF32,
    answer: AtomicF32,
    prefill: Trend,
    transfer: Trend,
    /// Rates that another process had learned, which hold until the first sample.
    rate_before: AtomicF32,
    transfer_before: AtomicF32,
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

    /// The least that [`Self::tpot_ms`] has been, milliseconds: what a token takes where next to nothing else runs.
    #[must_use]
    pub fn least_tpot_ms(&self) -> f32 {
        self.least_tpot.get()
    }

    /// From the first token of an answer to its last, milliseconds.
    #[must_use]
    pub fn answer_ms(&self) -> f32 {
        self.answer.get()
    }

    /// Prefill rate, tokens per second: what a token more takes, without what every request takes.
    #[must_use]
    pub fn prefill_tokens_per_s(&self) -> f32 {
        self.prefill_line().map_or_else(|| self.rate_before.get(), |line| line.tokens_per_s)
    }

    /// What prefilling takes however short the prompt is, milliseconds: the step that is under way, and the one that
    /// makes the first token.
    #[must_use]
    pub fn prefill_ms(&self) -> f32 {
        self.prefill_line().map_or(f32::NAN, |line| line.fixed_ms)
    }

    /// A prompt waits for the end of one step at most, and is computed in the next.
    fn prefill_line(&self) -> Option<Line> {
        self.prefill.line(2.0 * self.tpot.get())
    }

    /// Rate at which it takes over caches from others, tokens per second: what a token more takes. Not known while only
    /// short ones were taken over.
    #[must_use]
    pub fn transfer_tokens_per_s(&self) -> f32 {
        if self.transfer.small(FEW_TOKENS).is_some() {
            return self.transfer_before.get();
        }
        self.transfer.line(f32::NAN).map_or_else(|| self.transfer_before.get(), |line| line.tokens_per_s)
    }

    /// What taking over a cache takes however short it is, milliseconds: from asking for the answer to its first
    /// token, the engine's step included.
    #[must_use]
    pub fn transfer_ms(&self) -> f32 {
        let whole = || self.transfer.line(f32::NAN).map_or(f32::NAN, |Line { fixed_ms, .. }| fixed_ms);
        self.transfer.small(FEW_TOKENS).unwrap_or_else(whole)
    }

    /// A first token came `ms` after the endpoint was asked to fetch `tokens` of the prompt from another one.
    pub fn fetched(&self, ms: f32, tokens: u32) {
        self.transfer.take(tokens, ms);
    }

    /// Takes over what another process had learned, as [`Self::learned`] gave it; what is no positive number is not
    /// known.
    pub fn restore(&self, learned: [f32; 4]) {
        let places = [&self.ttft, &self.tpot, &self.rate_before, &self.transfer_before];
        for (place, value) in places.into_iter().zip(learned) {
            if value.is_finite() && value > 0.0 {
                place.set(value);
            }
        }
    }

    /// All that it knows: [`Self::ttft_ms`], [`Self::tpot_ms`], [`Self::prefill_tokens_per_s`] and
    /// [`Self::transfer_tokens_per_s`].
    #[must_use]
    pub fn learned(&self) -> [f32; 4] {
        [self.ttft.get(), self.tpot.get(), self.prefill_tokens_per_s(), self.transfer_tokens_per_s()]
    }

    /// A first token came after `ttft_ms`. The prefill rate is learned from it when nothing stood
    /// before the request (`ahead`, see [`super::Reservation::ahead`]) and its own part was long enough.
    pub fn first_token(&self, ttft_ms: f32, uncached_tokens: u32, ahead: u64) {
        if ttft_ms < 0.0 {
            return;
        }
        self.ttft.average(ttft_ms);
        if ahead == 0 && uncached_tokens >= RATE_TOKENS {
            self.prefill.take(uncached_tokens, ttft_ms);
        }
    }

    /// `tokens` came in the `ms` milliseconds after the first one.
    #[expect(clippy::cast_precision_loss, reason = "a duration, not a count")]
    pub fn output(&self, ms: f32, tokens: u32) {
        if tokens > 0 && ms >= 0.0 {
            self.tpot.average(ms / tokens as f32);
            self.least_tpot.least(self.tpot.get());
            self.answer.average(ms);
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
    fn what_every_request_takes_is_not_taken_for_a_slow_rate() {
        let latency = Latency::default();
        for tokens in [200_u16, 400, 8_000, 300] {
            latency.first_token(20.0 + f32::from(tokens) / 10.0, tokens.into(), 0);
            latency.fetched(15.0 + f32::from(tokens) / 100.0, tokens.into());
        }
        assert!((latency.prefill_tokens_per_s() / 10_000.0 - 1.0).abs() < 0.01);
        assert!((latency.prefill_ms() - 20.0).abs() < 0.1);
        assert!((latency.transfer_tokens_per_s() / 100_000.0 - 1.0).abs() < 0.01);
        assert!((latency.transfer_ms() - 15.0).abs() < 0.1);
    }

    #[test]
    fn what_another_process_learned_holds_until_something_is_seen() {
        let latency = Latency::default();
        latency.restore([10.0, 5.0, 9_000.0, 90_000.0]);
        assert!((latency.prefill_tokens_per_s() - 9_000.0).abs() < 0.1);
        assert!((latency.transfer_tokens_per_s() - 90_000.0).abs() < 0.1);
        latency.first_token(100.0, 1_000, 0);
        assert!((latency.prefill_tokens_per_s() - 10_000.0).abs() < 0.1);
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
