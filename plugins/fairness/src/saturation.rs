//! How full a pool is.

use sluicegate_sdk::{Column, Columns, EndpointsView, UnknownColumn};

use crate::Config;

/// The columns that tell.
pub(crate) struct Load {
    decodes: Column,
    requests: Column,
    limit: Column,
    waiting: Column,
    kv_usage: Column,
    age: Column,
}

impl Load {
    pub(crate) fn resolve(columns: &mut Columns) -> Result<Self, UnknownColumn> {
        Ok(Self {
            decodes: columns.resolve("role.decode")?.or(1.0),
            requests: columns.resolve("load.requests")?.or(0.0),
            limit: columns.resolve("limit.requests")?,
            waiting: columns.resolve("engine.waiting")?,
            kv_usage: columns.resolve("engine.kv_usage")?,
            age: columns.resolve("engine.metrics_age_ms")?,
        })
    }

    /// How full each endpoint that answers clients is, 0..=1.
    pub(crate) fn each(&self, endpoints: &dyn EndpointsView, config: &Config) -> Vec<f32> {
        let table = endpoints.columns(&[
            self.decodes,
            self.requests,
            self.limit,
            self.waiting,
            self.kv_usage,
            self.age,
        ]);
        let [decodes, requests, limit, waiting, kv_usage, age] = table.split();
        let own = requests.iter().zip(limit);
        let engine = waiting.iter().zip(kv_usage).zip(age);
        let rows = own.zip(engine).zip(decodes);
        rows.filter(|(_, decodes)| **decodes > 0.0)
            .map(|(((requests, limit), ((waiting, kv_usage), age)), _)| {
                let fresh = age.is_nan() || *age <= config.stale_after_ms;
                endpoint(*requests, *limit, fresh.then_some((*waiting, *kv_usage)), config)
            })
            .collect()
    }
}

/// The fuller of what the engine reports and what we know ourselves. An engine that reports nothing, or has
/// stopped to, is judged by our own count: that falls as requests end, so dispatch never halts.
fn endpoint(requests: f32, limit: f32, engine: Option<(f32, f32)>, config: &Config) -> f32 {
    let (waiting, kv_usage) = engine.unwrap_or((f32::NAN, f32::NAN));
    let reported = (waiting / config.full_waiting).max(kv_usage / config.full_kv_usage);
    let own = if limit > 0.0 {
        requests / limit
    } else if reported.is_nan() {
        requests / config.full_requests
    } else {
        0.0
    };
    // `max` takes the number where the other is NaN.
    reported.max(own).clamp(0.0, 1.0)
}

/// A pool is as full as the emptiest of its endpoints; one without endpoints is full.
pub(crate) fn pool(each: &[f32]) -> f32 {
    each.iter().copied().fold(1.0, f32::min)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sluicegate_sdk::fake::{self, Endpoints};

    use super::*;

    fn of(endpoints: &Endpoints) -> f32 {
        let load = Load::resolve(&mut fake::columns()).unwrap();
        pool(&load.each(endpoints, &Config::default()))
    }

    #[test]
    fn one_free_endpoint_makes_a_free_pool() {
        assert_eq!(of(&Endpoints::new(3).with("engine.waiting", [9.0, 0.0, 9.0])), 0.0);
        assert_eq!(of(&Endpoints::new(2).with("engine.waiting", [9.0, 5.0])), 1.0);
    }

    #[test]
    fn a_prefill_endpoint_does_not_count() {
        let endpoints = Endpoints::new(2).with("engine.waiting", [0.0, 9.0]).with("role.decode", [0.0, 1.0]);
        assert_eq!(of(&endpoints), 1.0);
    }

    #[test]
    fn a_stale_report_gives_way_to_our_own_count() {
        let endpoints = Endpoints::new(1)
            .with("engine.waiting", [99.0])
            .with("engine.metrics_age_ms", [60_000.0])
            .with("load.requests", [64.0]);
        assert_eq!(of(&endpoints), 0.25);
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
