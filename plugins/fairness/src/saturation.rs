//! How full a pool is.
//!
//! An endpoint is as full as the fullest of what bounds it: requests against the limit that was learned, prompts to
//! compute against the measured rate, the KV cache with what will come into it, the queue inside the engine. What an
//! engine reported too long ago does not count: then our own numbers do alone, and those fall as requests end, so
//! dispatch never halts.

use sluicegate_sdk::{Column, Columns, EndpointsView, UnknownColumn};

use crate::Config;

/// The columns that tell.
pub(crate) struct Load {
    decodes: Column,
    requests: Column,
    limit: Column,
    prefill: Column,
    rate: Column,
    waiting: Column,
    kv_usage: Column,
    kv_tokens: Column,
    age: Column,
}

/// What is known of one endpoint; NaN is not known.
#[derive(Debug, Clone, Copy)]
struct Endpoint {
    requests: f32,
    limit: f32,
    prefill: f32,
    rate: f32,
    waiting: f32,
    kv_usage: f32,
    kv_tokens: f32,
}

impl Load {
    pub(crate) fn resolve(columns: &mut Columns) -> Result<Self, UnknownColumn> {
        Ok(Self {
            decodes: columns.resolve("role.decode")?.or(1.0),
            requests: columns.resolve("load.requests")?.or(0.0),
            limit: columns.resolve("limit.requests")?,
            prefill: columns.resolve("load.prefill_tokens")?.or(0.0),
            rate: columns.resolve("rate.prefill_tokens_per_s")?,
            waiting: columns.resolve("engine.waiting")?,
            kv_usage: columns.resolve("engine.kv_usage")?,
            kv_tokens: columns.resolve("engine.kv_tokens")?,
            age: columns.resolve("engine.metrics_age_ms")?,
        })
    }

    /// How full each endpoint that answers clients is, 0..=1. In a pool whose prompts are computed elsewhere none is
    /// less so than the emptiest endpoint that computes them. `output` is the usual length of an answer, tokens.
    pub(crate) fn of(&self, endpoints: &dyn EndpointsView, output: f32, config: &Config) -> Fullness {
        let table = endpoints.columns(&[
            self.decodes,
            self.requests,
            self.limit,
            self.prefill,
            self.rate,
            self.waiting,
            self.kv_usage,
            self.kv_tokens,
            self.age,
        ]);
        let [decodes, requests, limit, prefill, rate, waiting, kv_usage, kv_tokens, age] = table.split();
        let own = requests.iter().zip(limit).zip(prefill.iter().zip(rate));
        let engine = waiting.iter().zip(kv_usage).zip(kv_tokens.iter().zip(age));
        let rows = own.zip(engine).zip(decodes);
        let mut each = Vec::with_capacity(decodes.len());
        let mut prefilling = Vec::new();
        let (mut running, mut prefills) = (0.0, 0.0);
        for ((((requests, limit), (prefill, rate)), ((waiting, kv_usage), (kv_tokens, age))), decodes) in rows
        {
            let fresh = age.is_nan() || *age <= config.stale_after_ms;
            let reported = |value: &f32| if fresh { *value } else { f32::NAN };
            let endpoint = Endpoint {
                requests: *requests,
                limit: *limit,
                prefill: *prefill,
                rate: *rate,
                waiting: reported(waiting),
                kv_usage: reported(kv_usage),
                kv_tokens: *kv_tokens,
            };
            let full = endpoint.saturation(output, config);
            let (each, running) =
                if *decodes > 0.0 { (&mut each, &mut running) } else { (&mut prefilling, &mut prefills) };
            each.push(full);
            *running += *requests;
        }
        // Those that prefill for others answer clients while nobody else can.
        if each.is_empty() {
            return Fullness { each: prefilling, running: prefills };
        }
        let emptiest = prefilling.into_iter().reduce(f32::min).unwrap_or(0.0);
        each.iter_mut().for_each(|full| *full = full.max(emptiest));
        Fullness { each, running }
    }
}

/// How full a pool is.
pub(crate) struct Fullness {
    /// Each endpoint that answers clients, 0..=1.
    pub(crate) each: Vec<f32>,
    /// Requests that run there.
    pub(crate) running: f32,
}

/// How full a pool has to be to say how many requests fill it.
const TELLING: f32 = 0.1;

impl Fullness {
    /// Requests that fill the pool, by how full it is with those that run; none where that says nothing.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(crate) fn places(&self) -> Option<f32> {
        let mean = self.each.iter().sum::<f32>() / self.each.len() as f32;
        (mean >= TELLING && self.running > 0.0).then(|| self.running / mean)
    }

    /// A pool is as full as the emptiest of its endpoints; one without endpoints is full.
    pub(crate) fn least(&self) -> f32 {
        self.each.iter().copied().fold(1.0, f32::min)
    }
}

impl Endpoint {
    fn saturation(self, output: f32, config: &Config) -> f32 {
        let learned = if self.limit > 0.0 { self.limit } else { f32::INFINITY };
        let set = if config.full_requests > 0.0 { config.full_requests } else { f32::INFINITY };
        let requests = self.requests / learned.min(set);
        let prefill = self.prefill / self.rate * 1_000.0 / config.full_prefill_ms;
        let prefill = if config.full_prefill_ms > 0.0 && self.requests > 1.0 { prefill } else { f32::NAN };
        // `max` takes the number where the other is NaN.
        let full = requests.max(prefill).max(self.waiting / config.full_waiting).max(self.kv(output, config));
        full.clamp(0.0, 1.0)
    }

    /// The KV cache as it will be: with the prompts that are under way, and half an answer more for each request.
    fn kv(self, output: f32, config: &Config) -> f32 {
        let coming = (self.prefill + self.requests * output / 2.0) / self.kv_tokens;
        // Of what an idle engine keeps nothing is in use.
        let coming = if coming.is_finite() && self.requests > 1.0 { coming } else { 0.0 };
        (self.kv_usage + coming) / config.full_kv_usage
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sluicegate_sdk::fake::{self, Endpoints};

    use super::*;

    fn of(endpoints: &Endpoints) -> f32 {
        let load = Load::resolve(&mut fake::columns()).unwrap();
        load.of(endpoints, 100.0, &Config::default()).least()
    }

    #[test]
    fn one_free_endpoint_makes_a_free_pool() {
        assert_eq!(of(&Endpoints::new(3).with("engine.waiting", [9.0, 0.0, 9.0])), 0.0);
        assert_eq!(of(&Endpoints::new(2).with("engine.waiting", [9.0, 5.0])), 1.0);
    }

    #[test]
    fn a_split_pool_is_as_full_as_the_fuller_of_its_stages() {
        let full = |prefills: f32, decodes: f32| {
            let endpoints = Endpoints::new(3).with("role.decode", [0.0, 0.0, 1.0]);
            of(&endpoints.with("engine.waiting", [5.0, prefills, decodes]))
        };
        assert_eq!((full(0.0, 5.0), full(5.0, 0.0), full(1.0, 0.0)), (1.0, 1.0, 0.2));
    }

    #[test]
    fn prompts_count_by_the_time_that_they_take() {
        let endpoints = Endpoints::new(1).with("load.requests", [2.0]).with("load.prefill_tokens", [5_000.0]);
        assert_eq!(of(&endpoints), 0.0);
        assert_eq!(of(&endpoints.clone().with("rate.prefill_tokens_per_s", [5_000.0])), 0.5);
        // A prompt that is long by itself keeps nobody out of an endpoint that has nothing else.
        let alone = endpoints.with("load.requests", [1.0]).with("rate.prefill_tokens_per_s", [100.0]);
        assert_eq!(of(&alone), 0.0);
    }

    #[test]
    fn what_will_come_into_the_cache_counts() {
        let endpoints = Endpoints::new(1)
            .with("engine.kv_usage", [0.5])
            .with("engine.kv_tokens", [10_000.0])
            .with("load.requests", [10.0])
            .with("load.prefill_tokens", [4_000.0]);
        // 5,000 in use, 4,000 under way, 10 answers of which half is to come.
        assert!((of(&endpoints) - 0.95 / 0.95).abs() < 1e-6);
    }

    #[test]
    fn a_stale_report_gives_way_to_our_own_count() {
        let endpoints = Endpoints::new(1)
            .with("engine.waiting", [99.0])
            .with("engine.metrics_age_ms", [60_000.0])
            .with("load.requests", [64.0]);
        assert_eq!(of(&endpoints), 0.0);
        assert_eq!(of(&endpoints.with("limit.requests", [128.0])), 0.5);
    }

    #[test]
    fn a_learned_limit_counts_beside_what_the_engine_reports() {
        let endpoints = Endpoints::new(1).with("engine.waiting", [0.0]).with("load.requests", [8.0]);
        assert_eq!(of(&endpoints), 0.0);
        assert_eq!(of(&endpoints.with("limit.requests", [8.0])), 1.0);
    }

    #[test]
    fn nobody_is_full() {
        assert_eq!(of(&Endpoints::new(0)), 1.0);
    }

    proptest! {
        #[test]
        fn a_pool_without_requests_is_never_full(
            waiting in prop_oneof![Just(f32::NAN), Just(1e6_f32)], age in 5_001.0..1e9_f32, limit in prop_oneof![Just(f32::NAN), 0.0..1e3_f32],
        ) {
            let endpoints = Endpoints::new(1)
                .with("engine.waiting", [waiting])
                .with("engine.metrics_age_ms", [age])
                .with("limit.requests", [limit])
                .with("load.requests", [0.0]);
            prop_assert_eq!(of(&endpoints), 0.0);
        }

        #[test]
        fn saturation_is_in_range(waiting in any::<f32>(), kv in any::<f32>(), requests in 0.0..1e9_f32) {
            let endpoints = Endpoints::new(1)
                .with("engine.waiting", [waiting]).with("engine.kv_usage", [kv]).with("load.requests", [requests]);
            prop_assert!((0.0..=1.0).contains(&of(&endpoints)));
        }
    }
}
