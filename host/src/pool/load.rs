//! What runs on an endpoint because we sent it there.
//!
//! A [`Reservation`] is taken the moment an endpoint is picked, before a byte is sent, and gives back
//! whatever it still holds when it is dropped: on every path, panics included. It subtracts only what
//! it added, so no counter goes below zero.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Endpoint, Passage};
use crate::clock::Nanos;

/// The load of one endpoint.
#[derive(Debug, Default)]
pub struct Load {
    requests: AtomicU64,
    decoding: AtomicU64,
    prefill_tokens: AtomicU64,
    decode_tokens: AtomicU64,
    output_tokens: AtomicU64,
}

impl Load {
    /// Requests that run there.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Of them, those that decode.
    #[must_use]
    pub fn decoding(&self) -> u64 {
        self.decoding.load(Ordering::Relaxed)
    }

    /// Uncached prompt tokens sent and not yet answered by a first token.
    #[must_use]
    pub fn prefill_tokens(&self) -> u64 {
        self.prefill_tokens.load(Ordering::Relaxed)
    }

    /// Tokens in the contexts of requests that decode there.
    #[must_use]
    pub fn decode_tokens(&self) -> u64 {
        self.decode_tokens.load(Ordering::Relaxed)
    }

    /// Output tokens that have come from there, in all.
    #[must_use]
    pub fn output_tokens(&self) -> u64 {
        self.output_tokens.load(Ordering::Relaxed)
    }
}

impl Load {
    /// Counts output tokens that came all at once, with the end of an answer.
    pub fn produced(&self, tokens: u32) {
        self.output_tokens.fetch_add(tokens.into(), Ordering::Relaxed);
    }
}

/// One request's share of an endpoint's [`Load`].
#[derive(Debug)]
#[must_use = "the load is given back as soon as this is dropped"]
pub struct Reservation {
    endpoint: Arc<Endpoint>,
    ahead: u64,
    prefill: u64,
    context: u64,
    decode: u64,
    held: u32,
    /// Whether it counts among those that decode.
    decodes: bool,
    /// Whether it tries an endpoint that was ejected.
    trial: bool,
}

impl Endpoint {
    /// Puts a request on this endpoint: `prefill_tokens` that it must compute and, from the first token
    /// on, a context of `context_tokens`.
    pub fn reserve(self: &Arc<Self>, prefill_tokens: u32, context_tokens: u32) -> Reservation {
        let prefill = u64::from(prefill_tokens);
        self.load.requests.fetch_add(1, Ordering::Relaxed);
        let ahead = self.load.prefill_tokens.fetch_add(prefill, Ordering::Relaxed);
        Reservation {
            endpoint: Arc::clone(self),
            ahead,
            prefill,
            context: u64::from(context_tokens),
            decode: 0,
            held: context_tokens.saturating_sub(prefill_tokens),
            decodes: false,
            trial: false,
        }
    }
}

impl Reservation {
    /// Where the load is.
    #[must_use]
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// Takes the one place that an endpoint has which is being tried after an ejection, until this is dropped. False
    /// when another request has it.
    pub fn try_out(&mut self, now: Nanos) -> bool {
        let circuit = &self.endpoint.circuit;
        self.trial = self.trial || circuit.begin_trial(now);
        self.trial || circuit.passage(now) != Passage::HalfOpen
    }

    /// Tokens of the context that the endpoint was believed to hold when it was taken.
    #[must_use]
    pub fn held(&self) -> u32 {
        self.held
    }

    /// Uncached tokens of others that stood before this request when it was put there.
    #[must_use]
    pub fn ahead(&self) -> u64 {
        self.ahead
    }

    /// The first token has come: the prompt is computed, and its context now decodes. Once only;
    /// later calls change nothing.
    pub fn first_token(&mut self) {
        let load = &self.endpoint.load;
        if !std::mem::replace(&mut self.decodes, true) {
            load.decoding.fetch_add(1, Ordering::Relaxed);
        }
        load.prefill_tokens.fetch_sub(std::mem::take(&mut self.prefill), Ordering::Relaxed);
        let context = std::mem::take(&mut self.context);
        load.decode_tokens.fetch_add(context, Ordering::Relaxed);
        self.decode = self.decode.saturating_add(context);
    }

    /// The context has grown by so many tokens. Output that comes first is a first token too.
    pub fn output(&mut self, tokens: u32) {
        self.first_token();
        let tokens = u64::from(tokens);
        self.endpoint.load.decode_tokens.fetch_add(tokens, Ordering::Relaxed);
        self.endpoint.load.output_tokens.fetch_add(tokens, Ordering::Relaxed);
        self.decode = self.decode.saturating_add(tokens);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let load = &self.endpoint.load;
        load.prefill_tokens.fetch_sub(self.prefill, Ordering::Relaxed);
        load.decode_tokens.fetch_sub(self.decode, Ordering::Relaxed);
        load.decoding.fetch_sub(self.decodes.into(), Ordering::Relaxed);
        load.requests.fetch_sub(1, Ordering::Relaxed);
        if self.trial {
            self.endpoint.circuit.end_trial();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pool::{EndpointSpec, Url};

    fn endpoint() -> Arc<Endpoint> {
        Arc::new(Endpoint::new(EndpointSpec::new(Url::parse("a:1").unwrap())))
    }

    fn numbers(load: &Load) -> (u64, u64, u64, u64) {
        (load.requests(), load.decoding(), load.prefill_tokens(), load.decode_tokens())
    }

    #[test]
    fn load_follows_a_request() {
        let endpoint = endpoint();
        let mut first = endpoint.reserve(100, 300);
        let second = endpoint.reserve(10, 10);
        assert_eq!((first.ahead(), second.ahead()), (0, 100));
        assert_eq!(numbers(&endpoint.load), (2, 0, 110, 0));
        first.first_token();
        first.output(5);
        assert_eq!(numbers(&endpoint.load), (2, 1, 10, 305));
        drop(first);
        assert_eq!(numbers(&endpoint.load), (1, 0, 10, 0));
        drop(second);
        assert_eq!(numbers(&endpoint.load), (0, 0, 0, 0));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Reserve(u32, u32),
        FirstToken(usize),
        Output(usize, u32),
        Drop(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let tokens = prop_oneof![Just(0u32), 1..5_000u32, Just(u32::MAX)];
        prop_oneof![
            (tokens.clone(), tokens.clone()).prop_map(|(a, b)| Step::Reserve(a, b)),
            any::<usize>().prop_map(Step::FirstToken),
            (any::<usize>(), tokens).prop_map(|(i, n)| Step::Output(i, n)),
            any::<usize>().prop_map(Step::Drop),
        ]
    }

    proptest! {
        /// Whatever order things come in, the counters are the sums of what the live requests hold.
        #[test]
        fn the_counters_are_the_sum_of_the_live_requests(steps in prop::collection::vec(step(), 0..200)) {
            let endpoint = endpoint();
            // Each with what the counters ought to hold for it: prefill, context, decode, and whether it decodes.
            let mut live: Vec<(Reservation, u64, u64, u64, u64)> = Vec::new();
            for step in steps {
                let count = live.len().max(1);
                match step {
                    Step::Reserve(prefill, context) => {
                        live.push((endpoint.reserve(prefill, context), prefill.into(), context.into(), 0, 0));
                    }
                    Step::FirstToken(i) => if let Some(entry) = live.get_mut(i % count) {
                        entry.0.first_token();
                        entry.1 = 0;
                        entry.3 += std::mem::take(&mut entry.2);
                        entry.4 = 1;
                    },
                    Step::Output(i, tokens) => if let Some(entry) = live.get_mut(i % count) {
                        entry.0.output(tokens);
                        entry.1 = 0;
                        entry.3 += std::mem::take(&mut entry.2) + u64::from(tokens);
                        entry.4 = 1;
                    },
                    Step::Drop(i) => if i % count < live.len() { drop(live.swap_remove(i % count)); },
                }
                let expected = (
                    live.len() as u64,
                    live.iter().map(|entry| entry.4).sum(),
                    live.iter().map(|entry| entry.1).sum(),
                    live.iter().map(|entry| entry.3).sum(),
                );
                prop_assert_eq!(numbers(&endpoint.load), expected);
            }
            live.clear();
            prop_assert_eq!(numbers(&endpoint.load), (0, 0, 0, 0));
        }
    }

    #[test]
    fn threads_and_panics_leave_nothing_behind() {
        let endpoint = endpoint();
        std::thread::scope(|scope| {
            for seed in 0..4u32 {
                let endpoint = &endpoint;
                scope.spawn(move || {
                    for i in 0..2_000u32 {
                        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                            let mut held = endpoint.reserve(i % 7, i % 11);
                            if (i + seed) % 3 == 0 {
                                held.output(i % 5);
                            }
                            if i % 500 == 0 {
                                std::panic::resume_unwind(Box::new(()));
                            }
                        }));
                        assert_eq!(caught.is_err(), i % 500 == 0);
                    }
                });
            }
        });
        assert_eq!(numbers(&endpoint.load), (0, 0, 0, 0));
    }
}
