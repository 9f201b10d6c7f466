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
        pub min_tokens: f32 = 128.0, in 0.0..=10_000_000.0;
        /// In mode `auto`, share by which it has to be better at least.
        pub min_gain: f32 = 0.05, in 0.0..=1_000.0;
        /// What the slowdown of a stream at an endpoint counts beside that of the request itself.
        pub stream_weight: f32 = 1.0, in 0.0..=1_000.0;
        /// What the wait of those who come after it counts: each waits behind what is ahead of the request itself.
        pub queue_weight: f32 = 1.0, in 0.0..=1_000.0;
        /// Time that an answer takes from its first token to its last while none was measured there, milliseconds.
        pub answer_ms: f32 = 2_000.0, in 1.0..=10_000_000.0;
        /// Prefill rate of an endpoint while none of the pool has a measured one, tokens per second.
        pub prefill_tokens_per_s: f32 = 15_000.0, in 1.0..=10_000_000.0;
        /// Time to move the cache of a token that the decode endpoint lacks while none was measured there, milliseconds.
        pub transfer_ms_per_token: f32 = 0.01, in 0.0..=1_000.0;
        /// Time that a transfer takes however short it is, with the second request that it needs and the step for which
        /// it waits, while none was measured there, milliseconds.
        pub transfer_ms: f32 = 20.0, in 0.0..=1_000_000.0;
        /// Labels that have to be equal at both endpoints, so that a rolling upgrade never mixes revisions.
        pub match_labels: Vec<String> = vec!["version".to_owned()];
        /// Labels that say where an endpoint stands, such as a host, a rack or a zone.
        pub near_labels: Vec<String> = Vec::new();
        /// What each of `near_labels` that differs between the two endpoints costs, milliseconds.
        pub far_ms: f32 = 20.0, in 0.0..=1_000_000.0;
        /// Endpoints named for the leg at most; those after the first are the order of retries.
        pub max_candidates: u32 = 4, in 1.0..=1_024.0;
    }
}
