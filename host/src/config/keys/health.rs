//! Keys of how endpoints are judged.

use super::Kind::{Integer, Text};
use super::{HOUR_MS, Section, key, optional};

/// `[pool.health]`
pub static HEALTH: Section = Section {
    title: "[pool.health]",
    keys: &[
        optional(
            "path",
            Text,
            "Path that must answer below 400, such as `/health`; three failures in a row take the endpoint down. None: \
             what it answers when asked for its metrics, or without metrics for /health.",
        ),
        key(
            "interval_ms",
            Integer(50, HOUR_MS),
            "5000",
            "Time between two questions to `path`; at least that between two readings of metrics.",
        ),
        key(
            "eject_after",
            Integer(0, 1_000_000),
            "5",
            "Failures of requests in a row (5xx, no answer in time, an answer that breaks off) that eject an endpoint; it \
             is ejected too when most of its latest 20 and more failed. 0 ejects none.",
        ),
        key(
            "eject_ms",
            Integer(10, 24 * HOUR_MS),
            "5000",
            "Time of a first ejection; then one request at a time tries the endpoint. The next ejection takes twice as \
             long.",
        ),
        key("max_eject_ms", Integer(10, 24 * HOUR_MS), "300000", "Longest time of an ejection."),
        key(
            "max_ejected_percent",
            Integer(0, 100),
            "50",
            "Share of the pool's endpoints that may be ejected at a time.",
        ),
        key(
            "slow_start_ms",
            Integer(0, HOUR_MS),
            "5000",
            "Time in which an endpoint that joins or comes back gets a growing share of the requests, from a tenth on.",
        ),
    ],
};
