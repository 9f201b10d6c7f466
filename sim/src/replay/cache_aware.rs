//! The policy that SGLang's and vLLM's routers come with, for comparison: `cache_aware` with its default values.
//!
//! Whoever was sent the longest beginning of a prompt gets it, if that is more than 0.3 of it; else whoever was sent the
//! least text. When one has 64 more than another, and 1.5 times as many, all goes to the one with the fewest.

use crate::text::{Token, next_hash};
use std::collections::HashMap;

/// Share of a prompt from which affinity counts.
const THRESHOLD: f64 = 0.3;
/// Difference in requests from which load counts alone.
const ABSOLUTE: usize = 64;
/// The same as a ratio; both have to be exceeded.
const RELATIVE: f64 = 1.5;
/// Tokens that are compared together; the routers compare characters.
const BLOCK: usize = 16;

/// What it knows: what it sent where.
#[derive(Debug)]
pub(crate) struct CacheAware {
    /// The engine that was sent a prompt's beginning last. Nothing is forgotten, as in its first hours.
    sent: HashMap<u64, usize>,
    engines: Vec<Load>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Load {
    requests: usize,
    /// Of all prompts so far.
    tokens: usize,
}

impl CacheAware {
    pub(crate) fn new(engines: usize) -> Self {
        Self { sent: HashMap::new(), engines: vec![Load::default(); engines] }
    }

    /// The engine that gets a prompt.
    pub(crate) fn choose(&mut self, prompt: &[Token]) -> usize {
        let chain: Vec<u64> = prompt
            .chunks_exact(BLOCK)
            .scan(0, |hash, block| {
                *hash = next_hash(*hash, block);
                Some(*hash)
            })
            .collect();
        let engine = self.best(&chain, prompt.len());
        self.sent.extend(chain.into_iter().map(|hash| (hash, engine)));
        if let Some(load) = self.engines.get_mut(engine) {
            load.requests += 1;
            load.tokens += prompt.len();
        }
        engine
    }

    /// A request has been answered.
    pub(crate) fn done(&mut self, engine: usize) {
        if let Some(load) = self.engines.get_mut(engine) {
            load.requests = load.requests.saturating_sub(1);
        }
    }

    fn best(&self, chain: &[u64], tokens: usize) -> usize {
        let requests = || self.engines.iter().map(|load| load.requests);
        let (least, most) = (requests().min().unwrap_or(0), requests().max().unwrap_or(0));
        if most - least > ABSOLUTE && most as f64 > least as f64 * RELATIVE {
            return self.least(|load| load.requests);
        }
        let matched = chain.iter().map_while(|hash| self.sent.get(hash)).enumerate().last();
        match matched {
            Some((last, engine)) if ((last + 1) * BLOCK) as f64 > tokens as f64 * THRESHOLD => *engine,
            _ => self.least(|load| (load.tokens, load.requests)),
        }
    }

    fn least<K: Ord>(&self, by: impl Fn(&Load) -> K) -> usize {
        self.engines.iter().enumerate().min_by_key(|(_, load)| by(load)).map_or(0, |(engine, _)| engine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(seed: u64, tokens: usize) -> Vec<Token> {
        (0..tokens as u64).map(|at| crate::rng::mix(seed ^ at) as Token).collect()
    }

    #[test]
    fn what_begins_alike_stays_together_until_load_differs_greatly() {
        let mut policy = CacheAware::new(4);
        let first = policy.choose(&prompt(1, 160));
        assert!((0..64).all(|_| policy.choose(&prompt(1, 160)) == first));
        assert_ne!(policy.choose(&prompt(1, 160)), first, "65 requests here and none elsewhere");
    }

    #[test]
    fn what_nobody_was_sent_goes_to_the_least_text() {
        let mut policy = CacheAware::new(2);
        let first = policy.choose(&prompt(1, 160));
        let second = policy.choose(&prompt(2, 160));
        assert_ne!(first, second);
        policy.done(second);
        assert_eq!(policy.choose(&prompt(3, 160)), second);
    }
}
