//! What an operator may set.

use std::collections::BTreeMap;

use crate::choice::{Between, Within};

sluicegate_sdk::config! {
    /// Who shares what, and when a pool is full.
    pub struct Config {
        /// Weights of flows, by fairness id or by tenant.
        pub weights: BTreeMap<String, f32> = BTreeMap::new(), in 0.001..=1_000_000.0;
        /// Weight of every other flow.
        pub default_weight: f32 = 1.0, in 0.001..=1_000_000.0;
        /// Which flow of a band goes next: "vtc" the one with the least service for its weight, "drr" each in turn by
        /// its weight in tokens, "round-robin" each in turn, "las" the one with the least service of late, "fcfs" the
        /// one whose head came first.
        pub between: Between = Between::Vtc;
        /// Which request of a flow goes next: "turns" later turns of a session first, "fcfs" who came first, "edf" the
        /// earliest deadline, "longest-prefix" who finds most of its prompt in a cache.
        pub within: Within = Within::Turns;
        /// Whether each session is a flow of its own.
        pub per_session: bool = false;
        /// Text that ends the name of a program in a fairness id: with "/", `job-7/worker-2` counts to the flow `job-7`.
        /// Empty for none.
        pub group_separator: String = String::new();
        /// Header that names the program that a request belongs to, in the place of the fairness id; it has to be
        /// granted. Empty for none.
        pub group_header: String = String::new();
        /// Seconds in which service loses half its weight under "las".
        pub half_life_s: f64 = 60.0, in 0.001..=1_000_000.0;
        /// Seconds for which a flow that needed less than its share may catch up later, under "vtc".
        pub burst_s: f64 = 10.0, in 0.0..=3_600.0;
        /// Share of what goes that flows which have sent fewer than four requests get together while others wait, under
        /// "vtc": a new name for each request gains nothing.
        pub new_share: f64 = 0.5, in 0.001..=1.0;
        /// Share of the pool that is kept free at most of flows with a backlog, for flows that have none: as much as they
        /// needed of late. 0 for nothing.
        pub keep_room: f32 = 0.5, in 0.0..=0.9;
        /// Tokens that a flow of weight 1 may have in a turn under "drr"; never less than its dearest request.
        pub quantum: f32 = 2_000.0, in 1.0..=1_000_000_000.0;
        /// Whether sessions wait until the pool's KV caches have room for their contexts. What contexts have in common is
        /// counted for each of them, so this is for agents whose contexts differ.
        pub sessions: bool = false;

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
        /// Milliseconds until the deadline of a request that sets none, under "edf".
        pub usual_deadline_ms: f32 = 60_000.0, in 0.0..=1_000_000_000.0;
        /// Rank that a prompt which is cached whole has over one that is not at all, under "longest-prefix".
        pub prefix_rank: f64 = 10.0, in 0.0..=1_000_000.0;
        /// Milliseconds of waiting after which a request counts as late while a higher band waits too; 0 for never.
        pub band_age_ms: f32 = 10_000.0, in 0.0..=1_000_000_000.0;
        /// Share of what goes that is for the late.
        pub late_share: f64 = 0.1, in 0.0..=1.0;

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
        /// Milliseconds of prompts to compute at which an endpoint counts as full; 0 for never.
        pub full_prefill_ms: f32 = 2_000.0, in 0.0..=1_000_000_000.0;
        /// Requests of ours at which an endpoint counts as full, if what was learned is not less; 0 for what was
        /// learned.
        pub full_requests: f32 = 0.0, in 0.0..=1_000_000.0;
        /// Age from which what an engine reports is not believed, milliseconds.
        pub stale_after_ms: f32 = 5_000.0, in 0.0..=1_000_000_000.0;
    }
}
