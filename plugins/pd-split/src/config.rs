//! What an operator may set.

sluicegate_sdk::config_enum! {
    /// When a prefill goes elsewhere.
    pub enum Mode {
        /// When that is faster.
        Auto = "auto",
        /// Whenever there is an endpoint for it.
        Always = "always",
        /// Never.
        Never = "never",
        /// When the decode endpoint lacks at least `threshold_tokens` of the prompt.
        Threshold = "threshold",
    }
}

sluicegate_sdk::config! {
    /// The terms of the comparison. Each can be set; a term of 0 is left out.
    pub struct Config {
        /// When a prefill goes elsewhere: `auto` when that is faster, `always`, `never`, or `threshold`.
        pub mode: Mode = Mode::Auto;
        /// In mode `threshold`, tokens that the decode endpoint has to lack.
        pub threshold_tokens: f32 = 512.0, in 0.0..=10_000_000.0;
        /// In mode `auto`, tokens that the decode endpoint has to lack at least.
        pub min_tokens: f32 = 256.0, in 0.0..=10_000_000.0;
        /// In mode `auto`, milliseconds that have to be gained at least.
        pub min_gain_ms: f32 = 10.0, in 0.0..=1_000_000.0;
        /// Prefill rate of an endpoint while none of the pool has a measured one, tokens per second.
        pub prefill_tokens_per_s: f32 = 15_000.0, in 1.0..=10_000_000.0;
        /// Time to move the cache of a token that the decode endpoint lacks, milliseconds.
        pub transfer_ms_per_token: f32 = 0.01, in 0.0..=1_000.0;
        /// Time that a transfer takes however short it is, with the second request that it needs, milliseconds.
        pub transfer_ms: f32 = 5.0, in 0.0..=1_000_000.0;
        /// What a millisecond for which a stream at the decode endpoint is slowed down is worth.
        pub stream_slowdown: f32 = 0.05, in 0.0..=1_000.0;
        /// Whether endpoints of both roles prefill for each other in a pool where no endpoint has one role
        /// alone. Their engines have to be set up to hand over caches.
        pub mixed: bool = false;
        /// Labels that have to be equal at both endpoints, such as a revision.
        pub match_labels: Vec<String> = Vec::new();
        /// Endpoints named for the leg at most; those after the first are the order of retries.
        pub max_candidates: u32 = 4, in 1.0..=1_024.0;
    }
}
