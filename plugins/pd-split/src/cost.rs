//! What a prefill costs, here and elsewhere.

use crate::{Config, Mode};

/// The columns of one call. A value of 0 is not known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pool {
    /// Prompt tokens of the request.
    pub(crate) prompt: f32,
    /// Milliseconds to the first token that the request's client allows; 0 where it says nothing.
    pub(crate) target: f32,
    /// Tokens of the prompt that each endpoint holds.
    pub(crate) cached: Vec<f32>,
    /// Uncached tokens ahead at each.
    pub(crate) ahead: Vec<f32>,
    /// Prefill rate of each, tokens per second.
    pub(crate) rate: Vec<f32>,
    /// Milliseconds that every prompt takes at each, however short it is.
    pub(crate) fixed: Vec<f32>,
    /// Requests that decode at each.
    pub(crate) streams: Vec<f32>,
    /// Milliseconds that an answer takes at each, from the first token to the last.
    pub(crate) answer: Vec<f32>,
    /// Milliseconds that a token takes at each.
    pub(crate) tpot: Vec<f32>,
    /// The same where next to nothing else runs.
    pub(crate) least_tpot: Vec<f32>,
    /// Whether each may prefill for the decode endpoint.
    pub(crate) serves: Vec<bool>,
    /// How many of the labels that say where an endpoint stands differ from the decode endpoint's; empty for none.
    pub(crate) far: Vec<f32>,
    /// Milliseconds that the decode endpoint takes for taking over any cache.
    pub(crate) transfer: f32,
    /// Rate at which it takes over caches beyond that, tokens per second.
    pub(crate) transfer_rate: f32,
}

impl Pool {
    fn at(column: &[f32], position: usize) -> f32 {
        column.get(position).copied().unwrap_or(0.0)
    }

    /// Tokens of the prompt that an endpoint lacks; it computes one at least.
    fn lacking(&self, position: usize) -> f32 {
        (self.prompt - Self::at(&self.cached, position)).max(1.0)
    }

    /// Takes the request itself out of what stands before it at the decode endpoint, which was reserved for it.
    pub(crate) fn leave_out_own(&mut self, decode: usize) {
        let own = self.lacking(decode);
        if let Some(ahead) = self.ahead.get_mut(decode) {
            *ahead = (*ahead - own).max(0.0);
        }
    }

    /// The rate that stands in where none was measured: the mean of those that were.
    fn usual_rate(&self, config: &Config) -> f64 {
        let known = self.rate.iter().filter(|rate| **rate > 0.0);
        let (sum, count) = known.fold((0.0, 0.0), |(sum, count), rate| (sum + f64::from(*rate), count + 1.0));
        if count > 0.0 { sum / count } else { f64::from(config.prefill_tokens_per_s) }
    }

    fn tokens_ms(&self, tokens: f32, position: usize, usual_rate: f64) -> f64 {
        let rate = f64::from(Self::at(&self.rate, position));
        f64::from(tokens) * 1_000.0 / if rate > 0.0 { rate } else { usual_rate }
    }

    /// Milliseconds until the prompt is computed at an endpoint: what every prompt takes there, what is ahead, and its
    /// own tokens.
    fn wait_ms(&self, position: usize, decode: usize, usual_rate: f64) -> f64 {
        let tokens = Self::at(&self.ahead, position).max(0.0) + self.lacking(position);
        let fixed = Some(Self::at(&self.fixed, position)).filter(|fixed| *fixed > 0.0);
        let fixed = fixed.unwrap_or_else(|| Self::at(&self.least_tpot, decode));
        self.tokens_ms(tokens, position, usual_rate) + f64::from(fixed)
    }

    /// What those pay who come after it: whatever it waits, they wait behind it.
    fn followed(&self, position: usize, config: &Config) -> f64 {
        f64::from(config.queue_weight * Self::at(&self.ahead, position).max(0.0) / self.lacking(position))
    }

    /// What the streams at an endpoint pay for the prompt that is computed there: for so much of their time each of
    /// them stands still.
    fn slowed(&self, position: usize, usual_rate: f64, config: &Config) -> f64 {
        let stall = self.tokens_ms(self.lacking(position), position, usual_rate);
        let known = |column: &[f32]| Some(Self::at(column, position)).filter(|value| *value > 0.0);
        let answer = known(&self.answer).unwrap_or(config.answer_ms);
        let alone = known(&self.least_tpot).zip(known(&self.tpot)).map_or(1.0, |(least, now)| least / now);
        let answer = f64::from(answer * alone);
        f64::from(Self::at(&self.streams, position) * config.stream_weight) * stall / answer
    }

    /// Whether so little is lacking that it is not looked at further.
    pub(crate) fn is_short(&self, decode: usize, config: &Config) -> bool {
        let lacking = self.lacking(decode);
        match config.mode {
            Mode::Never => true,
            Mode::Always => false,
            Mode::Threshold => lacking < config.threshold_tokens,
            Mode::Auto => lacking < config.min_tokens,
        }
    }

    /// Milliseconds to move what the decode endpoint lacks.
    fn moving_ms(&self, decode: usize, config: &Config) -> f64 {
        let is_measured = self.transfer > 0.0 || self.transfer_rate > 0.0;
        let fixed = if is_measured { self.transfer } else { config.transfer_ms };
        let per_token = if self.transfer_rate > 0.0 {
            1_000.0 / self.transfer_rate
        } else {
            config.transfer_ms_per_token
        };
        f64::from(fixed) + f64::from(self.lacking(decode) * per_token)
    }

    /// Positions to prefill at, best first; empty to prefill at the decode endpoint.
    pub(crate) fn split(&self, decode: usize, config: &Config) -> Vec<u32> {
        if self.is_short(decode, config) {
            return Vec::new();
        }
        let usual = self.usual_rate(config);
        let moving = self.moving_ms(decode, config);
        let far = |position: u32| f64::from(Self::at(&self.far, position as usize) * config.far_ms);
        // What the request takes alone: its own slowdown is counted in this.
        let alone = f64::from(Self::at(&self.least_tpot, decode))
            + self.tokens_ms(self.lacking(decode), decode, usual);
        // What is within the client's target is no wait.
        let slower = |wait: f64| wait.max(f64::from(self.target)) / alone;
        // A cache that arrives while a prompt is computed at the decode endpoint waits for it.
        let busy = self.tokens_ms(Self::at(&self.ahead, decode).max(0.0), decode, usual);
        let mut elsewhere: Vec<(f64, u32)> = (0_u32..)
            .zip(&self.serves)
            .filter(|(position, serves)| **serves && *position as usize != decode)
            .map(|(position, _)| {
                let there = position as usize;
                let wait = (self.wait_ms(there, decode, usual) + moving + far(position)).max(busy);
                (slower(wait) + self.followed(there, config) + self.slowed(there, usual, config), position)
            })
            .collect();
        if config.mode == Mode::Auto {
            let here = slower(self.wait_ms(decode, decode, usual))
                + self.followed(decode, config)
                + self.slowed(decode, usual, config);
            // What does not gain enough is no better as a retry: then the decode endpoint does it.
            elsewhere.retain(|(cost, _)| cost + f64::from(config.min_gain) < here);
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
            streams: vec![20.0, 0.0, 0.0],
            ..Pool::default()
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
        assert!(Pool { streams: vec![0.0; 3], ..pool(20_000.0) }.split(0, &auto()).is_empty());
    }

    #[test]
    fn a_slow_transfer_keeps_it_here() {
        let config = Config { transfer_ms_per_token: 2.0, ..auto() };
        assert!(pool(20_000.0).split(0, &config).is_empty());
    }

    #[test]
    fn a_measured_transfer_counts_more_than_the_configured_one() {
        assert!(Pool { transfer_rate: 500.0, ..pool(20_000.0) }.split(0, &auto()).is_empty());
        let config = Config { transfer_ms_per_token: 2.0, ..auto() };
        assert_eq!(Pool { transfer_rate: 1e6, ..pool(20_000.0) }.split(0, &config), [1, 2]);
    }

    #[test]
    fn the_nearer_of_two_is_taken() {
        assert_eq!(Pool { far: vec![0.0, 2.0, 1.0], ..pool(20_000.0) }.split(0, &auto()), [2, 1]);
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
            streams in prop::collection::vec(0.0..200.0_f32, len),
            decode in 0..len,
        ) -> (Pool, usize) {
            (Pool { prompt, cached, ahead, rate, serves, streams, ..Pool::default() }, decode)
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
