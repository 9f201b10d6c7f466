//! What an operator may set.

sluicegate_sdk::config! {
    /// The terms of the estimate. Each can be set; a term of 0 is left out.
    pub struct Config {
        /// Prefill rate of an endpoint while none of the pool has a measured one, tokens per second.
        pub prefill_tokens_per_s: f32 = 15_000.0, in 1.0..=10_000_000.0;
        /// What a token cached in CPU memory saves, as a share of what one in GPU memory saves.
        pub cpu_credit: f32 = 0.8, in 0.0..=1.0;
        /// What computing again costs others, of what some endpoint of the pool holds: so many come each second until the
        /// endpoint has computed all that waits there, and wait for it.
        pub waiting_per_s: f32 = 1.0, in 0.0..=1_000.0;
        /// What it costs them beyond that because it displaces what they have cached, as a multiple of its own time;
        /// charged by the share of its cache that the endpoint has in use.
        pub displacing: f32 = 2.0, in 0.0..=1_000.0;
        /// What of the time to compute again is forgiven at an endpoint that is idle and holds nothing, because later
        /// requests find it there: a share. Without it an endpoint that is new gets next to nothing of prefixes that
        /// others hold.
        pub warming: f32 = 1.0, in 0.0..=1.0;
        /// Share of the pool's mean requests below which an endpoint counts as idle for that, the less it has the more.
        pub idle_ratio: f32 = 0.5, in 0.01..=1.0;
        /// Prompt length assumed of each request that waits in an engine and is none of ours, tokens.
        pub foreign_prompt_tokens: f32 = 1_000.0, in 0.0..=10_000_000.0;
        /// What each request that runs at an endpoint costs one more, milliseconds: it and the others decode more
        /// slowly together.
        pub decode_request_ms: f32 = 5.0, in 0.0..=100_000.0;
        /// What each 1,000 tokens of context that decode at an endpoint add, milliseconds.
        pub decode_kilotoken_ms: f32 = 0.1, in 0.0..=100_000.0;
        /// What each request beyond the number that an endpoint serves well at once costs, milliseconds: it waits there
        /// for one of the others to end.
        pub over_limit_ms: f32 = 100.0, in 0.0..=1_000_000.0;
        /// Share of the KV cache in use from which a request risks to wait for blocks.
        pub kv_free_below: f32 = 0.8, in 0.0..=1.0;
        /// What a full KV cache adds, milliseconds; between the share above and full it grows by the square.
        pub kv_pressure_ms: f32 = 500.0, in 0.0..=1_000_000.0;
        /// Age from which what an engine reports is not believed, milliseconds.
        pub stale_after_ms: f32 = 5_000.0, in 0.0..=1_000_000_000.0;
        /// Credit of the endpoint that has kept the answer which the request continues, milliseconds: any other one
        /// refuses it.
        pub state_ms: f32 = 600_000.0, in 0.0..=1_000_000_000.0;
        /// Credit of the endpoint that served the session last, milliseconds.
        pub session_ms: f32 = 5.0, in 0.0..=1_000_000.0;
        /// Difference below which endpoints count as equal, milliseconds.
        pub near_ms: f32 = 20.0, in 0.0..=1_000_000.0;
        /// The same as a share of the shortest time to first token; the greater of the two counts.
        pub near_ratio: f32 = 0.1, in 0.0..=10.0;
        /// Tokens of prefix below which a prompt counts as cold among endpoints that are equal otherwise.
        pub cold_tokens: f32 = 128.0, in 0.0..=10_000_000.0;
        /// Difference to the shortest time to first token at which the score is one half, milliseconds.
        pub scale_ms: f32 = 100.0, in 0.001..=10_000_000.0;
    }
}
