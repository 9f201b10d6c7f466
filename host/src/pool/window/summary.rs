//! What a window amounts to.

use super::histogram::Histogram;
use super::spread::Spread;

/// Requests of one arm, or of all, that arrived in a time and have ended.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// Requests by how they ended.
    pub ended: EndedCounts,
    /// Times to first token, queueing included, of the answers that had one.
    pub ttft: Histogram,
    /// Prompt tokens that came out of caches, where engines said so.
    pub hits: Hits,
    /// Where the requests were sent.
    pub spread: Spread,
}

/// Requests by how they ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EndedCounts {
    /// Answered by an engine.
    pub answered: u64,
    /// The client's mistake, in the engine's judgement (4xx).
    pub client_errors: u64,
    /// No answer, 5xx, or an answer that broke off.
    pub failed: u64,
    /// Refused here: by a policy, a full queue, or for want of an endpoint.
    pub refused: u64,
    /// Given up by the client.
    pub cancelled: u64,
}

impl Summary {
    /// All requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.ended.cancelled + self.decided()
    }

    /// Requests that the client did not give up.
    #[must_use]
    pub fn decided(&self) -> u64 {
        let EndedCounts { answered, client_errors, failed, refused, .. } = self.ended;
        answered + client_errors + failed + refused
    }

    /// Requests that came to nothing, and not by the client's doing.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.ended.failed + self.ended.refused
    }

    /// Share of [`Self::lost`] in [`Self::decided`]; none without requests.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts of requests")]
    pub fn error_rate(&self) -> Option<f64> {
        (self.decided() > 0).then(|| self.lost() as f64 / self.decided() as f64)
    }

    /// The time to first token that nine of ten do not exceed, milliseconds, to 10 %.
    #[must_use]
    pub fn ttft_p90_ms(&self) -> Option<f64> {
        self.ttft.quantile_ms(0.9)
    }

    /// Share of prompt tokens that came out of caches, 0..=1; none where no engine said so.
    #[must_use]
    pub fn hit_ratio(&self) -> Option<f64> {
        self.hits.ratio()
    }
}

/// Sums over the requests whose engine said what it found in its cache: of prompt tokens `p`, cached tokens `c`, and
/// their products, from which the ratio's variance follows.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Hits {
    /// Requests.
    pub requests: u64,
    prompt: f64,
    cached: f64,
    prompt_squares: f64,
    products: f64,
    cached_squares: f64,
}

impl Hits {
    pub(super) fn add(&mut self, prompt: u32, cached: u32) {
        let (p, c) = (f64::from(prompt), f64::from(cached.min(prompt)));
        self.requests += 1;
        self.prompt += p;
        self.cached += c;
        self.prompt_squares += p * p;
        self.products += p * c;
        self.cached_squares += c * c;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.prompt += other.prompt;
        self.cached += other.cached;
        self.prompt_squares += other.prompt_squares;
        self.products += other.products;
        self.cached_squares += other.cached_squares;
    }

    /// Σc / Σp; none without prompt tokens.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        (self.prompt > 0.0).then(|| self.cached / self.prompt)
    }

    /// Variance of one request's part in the ratio, in units of the mean prompt: the variance of the ratio itself is
    /// this by the number of independent requests (Cochran, "Sampling Techniques", 3rd ed. 1977, §2.11). None with
    /// fewer than two requests.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
    pub fn variance(&self) -> Option<f64> {
        let ratio = self.ratio().filter(|_| self.requests > 1)?;
        let residuals =
            self.cached_squares - 2.0 * ratio * self.products + ratio * ratio * self.prompt_squares;
        let count = self.requests as f64;
        let mean = self.prompt / count;
        Some(residuals.max(0.0) / (count - 1.0) / (mean * mean))
    }
}

/// What came to the pool in a time, whoever served it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pulse {
    /// Requests that arrived.
    pub requests: u64,
    /// Tokens of their prompts.
    pub prompt_tokens: u64,
    /// Preemptions that engines reported; none where no engine reports them.
    pub preemptions: Option<f64>,
    /// Seconds of the time in which anything was recorded.
    pub seconds: f64,
}
