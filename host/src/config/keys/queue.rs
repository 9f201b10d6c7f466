//! The keys of a pool's queue.

use super::Kind::{Bytes, Integer, Items, Number};
use super::{HOUR_MS, Section, key, optional, required};

/// Requests that any bound may be.
const REQUESTS: u64 = 10_000_000;
const TERA: u64 = 1 << 40;

/// A pool's `queue`.
pub static QUEUE: Section = Section {
    title: "[pool.queue]",
    keys: &[
        key("max_requests", Integer(0, REQUESTS), "10000", "Requests that wait at most; more are refused."),
        key("max_bytes", Bytes(0, TERA), r#""1 GiB""#, "Bytes that they keep at most."),
        key("max_tokens", Integer(0, TERA), "0", "Tokens of their prompts at most; 0 for no bound."),
        key(
            "band_requests",
            Integer(0, REQUESTS),
            "0",
            "Requests of one priority that wait at most; 0 for no bound of its own.",
        ),
        key("band_bytes", Bytes(0, TERA), "0", "The same in bytes."),
        key("band_tokens", Integer(0, TERA), "0", "The same in tokens."),
        key(
            "flow_requests",
            Integer(0, REQUESTS),
            "0",
            "Requests of one flow that wait at most; 0 for no bound of its own.",
        ),
        key("flow_bytes", Bytes(0, TERA), "0", "The same in bytes."),
        key("flow_tokens", Integer(0, TERA), "0", "The same in tokens."),
        key("bands", Items(&BANDS), "[]", "Priorities with settings of their own."),
        key("ttl_ms", Integer(1, 24 * HOUR_MS), "60000", "Time that a request waits at most."),
        key(
            "empty_ttl_ms",
            Integer(1, 24 * HOUR_MS),
            "30000",
            "The same while the pool has no endpoint that can be used.",
        ),
        key(
            "keep_alive_ms",
            Integer(0, HOUR_MS),
            "0",
            "After how long the client of a stream that has not begun gets a comment, and how often from then on; 0 for not.",
        ),
    ],
};

/// An item of a queue's `bands`.
pub static BANDS: Section = Section {
    title: "pool.queue.bands",
    keys: &[
        required("priority", Number(-1e3, 1e3), "Which, a whole number."),
        optional(
            "ttl_ms",
            Integer(1, 24 * HOUR_MS),
            "Time that its requests wait at most. None: the queue's `ttl_ms`.",
        ),
        key(
            "max_requests",
            Integer(0, REQUESTS),
            "0",
            "Its requests that wait at most; 0 for no bound of its own.",
        ),
        key("max_bytes", Bytes(0, TERA), "0", "The same in bytes."),
        key("max_tokens", Integer(0, TERA), "0", "The same in tokens."),
    ],
};
