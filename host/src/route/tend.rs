//! What is believed of the endpoints' caches, held against what they say of themselves.
//!
//! The index believes that an endpoint holds what it was sent. That is wrong when the engine's cache is smaller than
//! the index, when its process is another one, and when others use it too. [`Lane::tend`] takes over size and process
//! from the latest report, once a second and off the path of requests; [`Lane::reported`] takes over what the engine
//! says of one request that it has answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::Lane;
use crate::policy::Request;
use crate::pool::Endpoint;

/// Share of a new sample in the moving average of [`Measure`].
const NEWEST: f32 = 0.05;
/// Prompts below this length are mostly what the chat template adds, and say nothing of longer ones.
const MIN_TOKENS: u32 = 64;

/// Tokens of the engines for a token of an estimate: by how much estimated lengths are wrong, on average.
#[derive(Debug)]
pub struct Measure(AtomicU32);

impl Default for Measure {
    fn default() -> Self {
        Self(AtomicU32::new(1.0_f32.to_bits()))
    }
}

impl Measure {
    /// The average; 1 before anything is known.
    #[must_use]
    pub fn ratio(&self) -> f32 {
        f32::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Takes over what another process had learned; what is no ratio changes nothing.
    pub fn restore(&self, ratio: f32) {
        if (0.1..=10.0).contains(&ratio) {
            self.0.store(ratio.to_bits(), Ordering::Relaxed);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    fn learn(&self, estimated: u32, counted: u32) {
        if estimated < MIN_TOKENS || counted < MIN_TOKENS {
            return;
        }
        let sample = (counted as f32 / estimated as f32).clamp(0.1, 10.0);
        let ratio = self.ratio();
        // A sample that another thread adds meanwhile may be lost: it is an average.
        self.0.store((ratio + NEWEST * (sample - ratio)).to_bits(), Ordering::Relaxed);
    }
}

impl Lane {
    /// Takes over what the endpoints report: how much their caches hold, and whether their processes are still the
    /// same. Endpoints that have left the pool are forgotten.
    pub fn tend(&self, block_tokens: u32) {
        let endpoints = self.pool.endpoints();
        let ids = endpoints.iter().map(|endpoint| endpoint.id).collect();
        self.index.retain(&ids);
        for endpoint in endpoints.iter() {
            self.index.set_life(endpoint.id, endpoint.health.lost(), started(endpoint));
            if let Some(blocks) = self.capacity(endpoint, block_tokens) {
                self.index.set_capacity(endpoint.id, blocks);
            }
        }
    }

    /// Share of its cache that each endpoint is believed to have filled, 0 to 1; NaN where its size is not known.
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    pub(super) fn occupancy(&self, endpoints: &[Arc<Endpoint>], block_tokens: u32) -> Vec<f32> {
        let blocks = self.index.blocks_of(endpoints.iter().map(|endpoint| endpoint.id));
        let share = |endpoint: &Endpoint, blocks: usize| {
            let capacity = self.capacity(endpoint, block_tokens)?;
            Some((blocks as f32 / capacity.max(1) as f32).min(1.0))
        };
        let endpoints = endpoints.iter().zip(blocks);
        endpoints.map(|(endpoint, blocks)| share(endpoint, blocks).unwrap_or(f32::NAN)).collect()
    }

    /// Blocks of the index that the endpoint's cache can hold.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a size, and the cast saturates"
    )]
    fn capacity(&self, endpoint: &Endpoint, block_tokens: u32) -> Option<usize> {
        let tokens = endpoint.report().cache_tokens()?;
        let block = f64::from(block_tokens) * f64::from(self.measure.ratio());
        Some((tokens as f64 / block.max(1.0)) as usize)
    }

    /// The engine has answered and says that it found `cached` of `prompt` tokens in its cache, where it was
    /// believed to hold `held` of ours. Where it held less, what lies behind is forgotten, but for this prompt, which
    /// it has computed by now.
    pub fn reported(&self, request: &Request, endpoint: &Endpoint, held: u32, prompt: u32, cached: u32) {
        let Some(source) = self.source(request) else { return };
        self.measure.learn(source.estimate(), prompt);
        let ours = u64::from(cached) * u64::from(request.prompt_tokens) / u64::from(prompt.max(1));
        let found = u32::try_from(ours).unwrap_or(u32::MAX);
        // The engine rounds down to its own blocks, and counts the template, which we do not see.
        let doubt = source.block_tokens().saturating_mul(4).max(request.prompt_tokens / 50);
        if found.saturating_add(doubt) >= held {
            return;
        }
        let blocks = source.blocks_in(found, request.prompt_tokens);
        self.index.truncate(endpoint.id, source.hashes(), usize::try_from(blocks).unwrap_or(0));
        self.index.insert(endpoint.id, source.hashes());
    }
}

/// When the endpoint's process started, whole seconds since 1970.
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds since 1970")]
pub fn started(endpoint: &Endpoint) -> Option<u64> {
    endpoint.report().started.map(|seconds| seconds.max(0.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Report;
    use crate::route::tests::{lane, request};

    fn holding(lane: &Lane, request: &Request) -> u32 {
        lane.registry.resolve("prefix.tokens").unwrap();
        lane.cached_tokens(request, &lane.pool.endpoints()[0])
    }

    #[test]
    fn a_cache_of_the_reported_size_forgets_what_does_not_fit() {
        let lane = lane(1);
        let endpoint = &lane.pool.endpoints()[0];
        let (old, new) = (request("a", &"old ".repeat(160)), request("b", &"new ".repeat(160)));
        let _ = holding(&lane, &old);
        lane.sent(&old, endpoint);
        lane.sent(&new, endpoint);
        assert_eq!(holding(&lane, &old), 160);
        let report = Report { kv_blocks: Some(10), block_tokens: Some(16), ..Report::default() };
        endpoint.publish(report);
        lane.tend(16);
        assert_eq!((holding(&lane, &old), holding(&lane, &new)), (0, 160));
    }

    #[test]
    fn another_process_holds_nothing() {
        let lane = lane(1);
        let endpoint = &lane.pool.endpoints()[0];
        let request = request("a", &"text ".repeat(160));
        let _ = holding(&lane, &request);
        lane.tend(16);
        lane.sent(&request, endpoint);
        lane.tend(16);
        assert_eq!(holding(&lane, &request), 192);
        endpoint.publish(Report { started: Some(1_700_000_000.0), ..Report::default() });
        lane.tend(16);
        assert_eq!(holding(&lane, &request), 0);
        lane.sent(&request, endpoint);
        endpoint.health.connect_failed(1, "refused");
        lane.tend(16);
        assert_eq!(holding(&lane, &request), 0);
    }

    #[test]
    fn an_engine_that_found_less_is_believed_and_holds_this_prompt_now() {
        let lane = lane(1);
        let endpoint = &lane.pool.endpoints()[0];
        let shared = "shared ".repeat(100);
        let (first, second) =
            (request("a", &format!("{shared}one")), request("b", &format!("{shared}{}", "two ".repeat(200))));
        let _ = holding(&lane, &first);
        lane.sent(&second, endpoint);
        assert!(holding(&lane, &first) > 150);
        lane.reported(&first, endpoint, 176, first.prompt_tokens, 0);
        assert!(holding(&lane, &first) > 150, "it has computed it by now");
        let held = holding(&lane, &second);
        assert!(held < 200, "{held} tokens of what came after are believed still");
    }

    #[test]
    fn lengths_are_measured_by_what_engines_count() {
        let measure = Measure::default();
        for _ in 0..200 {
            measure.learn(1_000, 1_300);
        }
        assert!((measure.ratio() - 1.3).abs() < 0.01, "{}", measure.ratio());
        measure.learn(10, 1_000);
        measure.learn(1_000, 0);
        assert!((measure.ratio() - 1.3).abs() < 0.01);
    }
}
