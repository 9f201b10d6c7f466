//! What an operator may set.

use std::collections::BTreeMap;

sluicegate_sdk::config! {
    /// Who shares what, and when a pool is full.
    pub struct Config {
        /// Weights of flows, by fairness id or by tenant.
        pub weights: BTreeMap<String, f32> = BTreeMap::new(), in 0.001..=1_000_000.0;
        /// Weight of every other flow.
        pub default_weight: f32 = 1.0, in 0.001..=1_000_000.0;
        /// Whether each session is a flow of its own.
        pub per_session: bool = false;

        /// Price of a prompt token that was computed.
        pub input_price: f32 = 1.0, in 0.0..=1_000.0;
        /// Price of a prompt token that came out of a cache.
        pub cached_price: f32 = 0.1, in 0.0..=1_000.0;
        /// Price of an output token.
        pub output_price: f32 = 2.0, in 0.0..=1_000.0;
        /// Output tokens expected of a request while nothing is known of its flow.
        pub expected_output_tokens: f32 = 256.0, in 0.0..=1_000_000.0;

        /// Rank that a turn of a session gives over the turn before.
        pub turn_rank: f64 = 1.0, in 0.0..=1_000_000.0;
        /// Rank that a second of waiting gives.
        pub second_rank: f64 = 0.5, in 0.0..=1_000_000.0;
        /// Milliseconds of waiting after which a flow counts as of the next higher band; 0 for never.
        pub band_age_ms: f32 = 10_000.0, in 0.0..=1_000_000_000.0;

        /// Saturation below which band 0 may go.
        pub ceiling: f32 = 0.95, in 0.0..=1.0;
        /// What each band above adds to it.
        pub headroom: f32 = 0.05, in 0.0..=1.0;
        /// What each band below takes off.
        pub holdback: f32 = 0.15, in 0.0..=1.0;
        /// The least ceiling of any band.
        pub min_ceiling: f32 = 0.3, in 0.0..=1.0;

        /// Requests waiting in an engine at which it counts as full.
        pub full_waiting: f32 = 5.0, in 0.001..=1_000_000.0;
        /// Share of the KV cache in use at which an engine counts as full.
        pub full_kv_usage: f32 = 0.95, in 0.001..=1.0;
        /// Requests of ours at which an endpoint counts as full while neither a limit is known nor the
        /// engine reports.
        pub full_requests: f32 = 256.0, in 0.001..=1_000_000.0;
        /// Age from which what an engine reports is not believed, milliseconds.
        pub stale_after_ms: f32 = 5_000.0, in 0.0..=1_000_000_000.0;
    }
}
