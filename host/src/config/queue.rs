//! From the table of a queue to its configuration.

use std::collections::BTreeSet;

use super::model::{BandConfig, QueueBounds, QueueConfig};
use super::read::Table;

/// A pool's `queue`.
pub(super) fn queue(table: &Table<'_>) -> QueueConfig {
    let mut named = BTreeSet::new();
    let keep_alive = table.millis("keep_alive_ms");
    QueueConfig {
        pool: bounds(table, "max"),
        band: bounds(table, "band"),
        flow: bounds(table, "flow"),
        bands: table.tables("bands").iter().filter_map(|table| band(table, &mut named)).collect(),
        ttl: table.millis("ttl_ms"),
        empty_ttl: table.millis("empty_ttl_ms"),
        keep_alive: (!keep_alive.is_zero()).then_some(keep_alive),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
fn band(table: &Table<'_>, named: &mut BTreeSet<i32>) -> Option<BandConfig> {
    let number = table.number("priority");
    let ttl = table.has("ttl_ms").then(|| table.millis("ttl_ms"));
    let bounds = bounds(table, "max");
    let number = number?;
    if number.fract() != 0.0 {
        table.error("priority", "is no whole number", None);
    }
    let priority = number as i32;
    if !named.insert(priority) {
        table.error("priority", format!("{priority} is named twice"), None);
    }
    Some(BandConfig { priority, ttl, bounds })
}

fn bounds(table: &Table<'_>, of: &str) -> QueueBounds {
    QueueBounds {
        requests: table.usize(&format!("{of}_requests")),
        bytes: table.usize(&format!("{of}_bytes")),
        tokens: table.usize(&format!("{of}_tokens")) as u64,
    }
}
