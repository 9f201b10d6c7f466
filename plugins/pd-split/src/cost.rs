//! What a prefill costs, here and elsewhere.

use crate::{Config, Mode};

/// The columns of one call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pool {
    /// Prompt tokens of the request.
    pub(crate) prompt: f32,
    /// Tokens of it that each endpoint holds.
    pub(crate) cached: Vec<f32>,
    /// Uncached tokens ahead at each.
    pub(crate) ahead: Vec<f32>,
    /// Prefill rate of each, tokens per second; 0 where it is not known.
    pub(crate) rate: Vec<f32>,
    /// Whether each may prefill for the decode endpoint.
    pub(crate) serves: Vec<bool>,
    /// Requests at the decode endpoint.
    pub(crate) streams: f32,
}

impl Pool {
    fn at(column: &[f32], position: usize) -> f32 {
        column.get(position).copied().unwrap_or(0.0)
    }

    /// Tokens of the prompt that an endpoint lacks; it computes one at least.
    fn lacking(&self, position: usize) -> f32 {
        (self.prompt - Self::at(&self.cached, position)).max(1.0)
    }

    /// The rate that stands in where none was measured: the mean of those that were.
    fn usual_rate(&self, config: &Config) -> f64 {
        let known = self.rate.iter().filter(|rate| **rate > 0.0);
        let (sum, count) = known.fold((0.0, 0.0), |(sum, count), rate| (sum + f64::from(*rate), count + 1.0));
        if count > 0.0 { sum / count } else { f64::from(config.prefill_tokens_per_s) }
    }

    /// Milliseconds until the prompt is computed at an endpoint.
    fn prefill_ms(&self, position: usize, usual_rate: f64) -> f64 {
        let tokens = Self::at(&self.ahead, position).max(0.0) + self.lacking(position);
        self.tokens_ms(tokens, position, usual_rate)
    }

    fn tokens_ms(&self, tokens: f32, position: usize, usual_rate: f64) -> f64 {
        let rate = f64::from(Self::at(&self.rate, position));
        f64::from(tokens) * 1_000.0 / if rate > 0.0 { rate } else { usual_rate }
    }

    /// Positions to prefill at, best first; empty to prefill at the decode endpoint.
    pub(crate) fn split(&self, decode: usize, config: &Config) -> Vec<u32> {
        let lacking = self.lacking(decode);
        let stays = match config.mode {
            Mode::Never => true,
            Mode::Always => false,
            Mode::Threshold => lacking < config.threshold_tokens,
            Mode::Auto => lacking < config.min_tokens,
        };
        if stays {
            return Vec::new();
        }
        let usual = self.usual_rate(config);
        let moving = f64::from(config.transfer_ms) + f64::from(lacking * config.transfer_ms_per_token);
        let mut elsewhere: Vec<(f64, u32)> = (0_u32..)
            .zip(&self.serves)
            .filter(|(position, serves)| **serves && *position as usize != decode)
            .map(|(position, _)| (self.prefill_ms(position as usize, usual) + moving, position))
            .collect();
        if config.mode == Mode::Auto {
            let stalled = self.tokens_ms(lacking, decode, usual) * f64::from(self.streams);
            let here = self.prefill_ms(decode, usual) + stalled * f64::from(config.stream_slowdown);
            // What does not gain enough is no better as a retry: then the decode endpoint does it.
            elsewhere.retain(|(ms, _)| ms + f64::from(config.min_gain_ms) < here);
        }
        elsewhere.sort_unstable_by(|(a, first), (b, second)| a.total_cmp(b).then(first.cmp(second)));
        elsewhere.truncate(config.max_candidates as usize);
        elsewhere.into_iter().map(|(_, position)| position).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A decode endpoint at 0 and two prefill endpoints.
    fn pool(prompt: f32) -> Pool {
        Pool {
            prompt,
            cached: vec![0.0; 3],
            ahead: vec![0.0; 3],
            rate: vec![10_000.0; 3],
            serves: vec![false, true, true],
            streams: 20.0,
        }
    }

    fn auto() -> Config {
        Config::default()
    }

    #[test]
    fn a_long_prompt_goes_and_a_short_one_stays() {
        assert_eq!(pool(20_000.0).split(0, &auto()), [1, 2]);
        assert!(pool(200.0).split(0, &auto()).is_empty());
    }

    #[test]
    fn a_cached_prompt_stays() {
        let cached = vec![19_900.0, 0.0, 0.0];
        assert!(Pool { cached, ..pool(20_000.0) }.split(0, &auto()).is_empty());
    }

    #[test]
    fn a_queue_elsewhere_keeps_it_here() {
        let ahead = vec![0.0, 1e6, 1e6];
        assert!(Pool { ahead, ..pool(20_000.0) }.split(0, &auto()).is_empty());
    }

    #[test]
    fn the_cache_elsewhere_decides_between_two() {
        let cached = vec![0.0, 0.0, 15_000.0];
        assert_eq!(Pool { cached, ..pool(20_000.0) }.split(0, &auto()), [2, 1]);
    }

    #[test]
    fn an_idle_decode_endpoint_prefills_by_itself() {
        assert!(Pool { streams: 0.0, ..pool(20_000.0) }.split(0, &auto()).is_empty());
    }

    #[test]
    fn a_slow_transfer_keeps_it_here() {
        let config = Config { transfer_ms_per_token: 1.0, ..auto() };
        assert!(pool(20_000.0).split(0, &config).is_empty());
    }

    #[test]
    fn modes_do_as_they_say() {
        let mode = |mode| Config { mode, ..auto() };
        assert!(pool(1e6).split(0, &mode(Mode::Never)).is_empty());
        assert_eq!(pool(1.0).split(0, &mode(Mode::Always)), [1, 2]);
        assert!(pool(511.0).split(0, &mode(Mode::Threshold)).is_empty());
        assert_eq!(pool(512.0).split(0, &mode(Mode::Threshold)), [1, 2]);
    }

    #[test]
    fn nobody_else_is_no_leg() {
        let serves = vec![true, false, false];
        assert!(Pool { serves, ..pool(1e6) }.split(0, &Config { mode: Mode::Always, ..auto() }).is_empty());
    }

    prop_compose! {
        fn pools()(len in 1_usize..16)(
            prompt in 0.0..100_000.0_f32,
            cached in prop::collection::vec(0.0..50_000.0_f32, len),
            ahead in prop::collection::vec(0.0..100_000.0_f32, len),
            rate in prop::collection::vec(prop_oneof![Just(0.0_f32), 1_000.0..100_000.0_f32], len),
            serves in prop::collection::vec(any::<bool>(), len),
            streams in 0.0..200.0_f32,
            decode in 0..len,
        ) -> (Pool, usize) {
            (Pool { prompt, cached, ahead, rate, serves, streams }, decode)
        }
    }

    proptest! {
        #[test]
        fn candidates_serve_and_are_not_the_decode_endpoint((pool, decode) in pools(), limit in 1_u32..6) {
            let chosen = pool.split(decode, &Config { max_candidates: limit, ..auto() });
            prop_assert!(chosen.len() <= limit as usize);
            for (at, position) in chosen.iter().enumerate() {
                prop_assert!(pool.serves[*position as usize] && *position as usize != decode);
                prop_assert!(!chosen[..at].contains(position));
            }
        }

        #[test]
        fn more_queue_here_never_brings_it_back((pool, decode) in pools(), more in 0.0..1e5_f32) {
            let before = pool.split(decode, &auto());
            let mut busier = pool;
            busier.ahead[decode] += more;
            prop_assert!(before.is_empty() || !busier.split(decode, &auto()).is_empty());
        }

        #[test]
        fn dearer_transfer_never_sends_it_away((pool, decode) in pools(), more in 0.0..1.0_f32) {
            let dearer = Config { transfer_ms_per_token: auto().transfer_ms_per_token + more, ..auto() };
            prop_assert!(!pool.split(decode, &auto()).is_empty() || pool.split(decode, &dearer).is_empty());
        }
    }
}
