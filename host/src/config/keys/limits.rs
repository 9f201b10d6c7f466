//! Keys of the proxy's own bounds.

use super::Kind::{Bytes, Integer};
use super::{GIB, HOUR_MS, Section, key};

/// `[limits]`
pub static LIMITS: Section = Section {
    title: "[limits]",
    keys: &[
        key(
            "body_bytes",
            Bytes(1_024, 16 * GIB),
            r#""64 MiB""#,
            "Longest request body; a longer one is answered 413.",
        ),
        key(
            "header_bytes",
            Bytes(8_192, 1 << 20),
            r#""64 KiB""#,
            "Longest request head; a longer one is answered 431.",
        ),
        key(
            "connections",
            Integer(1, 1_000_000),
            "10000",
            "Client connections at a time; one more is answered 503 and closed.",
        ),
        key(
            "header_timeout_ms",
            Integer(10, HOUR_MS),
            "30000",
            "Time in which a client must send a request's head.",
        ),
        key(
            "body_timeout_ms",
            Integer(10, HOUR_MS),
            "60000",
            "Time in which a client must send the next 1,024 bytes of a body that it began, or its end.",
        ),
        key(
            "write_timeout_ms",
            Integer(10, 24 * HOUR_MS),
            "300000",
            "Time in which a client must take more of an answer that waits for it; then its connection is closed.",
        ),
        key(
            "requests",
            Integer(1, 10_000_000),
            "100000",
            "Requests at a time, those that wait included; one more is answered 503.",
        ),
        key(
            "buffered_bytes",
            Bytes(1_024, 1 << 44),
            r#""4 GiB""#,
            "Bytes of all request bodies that are held at a time; a request above is answered 503.",
        ),
        key(
            "drain_timeout_ms",
            Integer(0, 24 * HOUR_MS),
            "30000",
            "Time that running requests have when the proxy shuts down.",
        ),
        key(
            "handover_timeout_ms",
            Integer(0, 24 * HOUR_MS),
            "600000",
            "Time that running requests have in a process whose place another one took.",
        ),
        key(
            "policy_ms",
            Integer(1, 10_000),
            "10",
            "CPU time that all policies of one request have together; the rest then take their defaults.",
        ),
    ],
};
