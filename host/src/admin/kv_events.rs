//! What engines report of their caches, on the page of metrics and in the list of endpoints.

use serde_json::{Value, json};

use super::AdminPool;
use crate::clock::Nanos;
use crate::pool::Endpoint;
use crate::prefix::exact::{Dropped, Exact, Feed, Kind, Known, Tier};
use crate::telemetry::Page;

/// What was counted of all engines of a pool.
pub(super) fn metrics(page: &mut Page, AdminPool { lane, .. }: &AdminPool, now: Nanos) {
    if lane.exact.is_silent() {
        return;
    }
    let pool = ("pool", &*lane.pool.name);
    page.gauge("kv_index_bytes", "Memory of the index of what engines report")
        .set(&[pool], lane.exact.bytes() as f64);
    let mut blocks = page.gauge("kv_index_blocks", "Blocks in it, by tier");
    for tier in Tier::ALL {
        blocks.set(&[pool, ("tier", tier.as_str())], lane.exact.blocks(tier) as f64);
    }
    for endpoint in lane.pool.endpoints().iter() {
        if let Some(feed) = lane.exact.feed(endpoint.id) {
            of_feed(page, &[pool, ("endpoint", &endpoint.name)], &feed, now);
        }
    }
}

fn of_feed(page: &mut Page, labels: &[(&str, &str)], feed: &Feed, now: Nanos) {
    let with = |label, value| [labels, &[(label, value)]].concat();
    let mut taken = page.counter("kv_events", "Reports of engines that changed something");
    for kind in Kind::ALL {
        taken.add(&with("type", kind.as_str()), feed.taken(kind));
    }
    let mut dropped =
        page.counter("kv_events_dropped", "Reports and messages that changed nothing, by reason");
    for why in Dropped::ALL {
        dropped.add(&with("reason", why.as_str()), feed.dropped_for(why));
    }
    page.counter("kv_events_gaps", "Times that messages were missing").add(labels, feed.gaps());
    page.counter("kv_events_replayed", "Messages that came because they were asked for again")
        .add(labels, feed.replays());
    page.counter("kv_events_forgotten", "Times that all that was known of an engine was given up")
        .add(labels, feed.forgotten());
    let exact = match feed.known(now) {
        Known::Exact => 1.0,
        Known::Partial => 0.5,
        Known::Approximate => 0.0,
    };
    page.gauge("kv_events_exact", "Whether all that the engine holds is known").set(labels, exact);
    page.gauge("kv_events_age_seconds", "Age of the last message")
        .set(labels, feed.age_s(now).unwrap_or(f64::NAN));
    page.gauge("kv_events_lag_seconds", "By how much the last message came later than its engine made it")
        .set(labels, feed.lag_s().unwrap_or(f64::NAN));
}

/// What is known of one endpoint through its engine's reports; null where it does not report.
pub(super) fn shown(index: &Exact, endpoint: &Endpoint, now: Nanos) -> Value {
    let Some(feed) = index.feed(endpoint.id) else { return Value::Null };
    let dropped: u64 = Dropped::ALL.into_iter().map(|why| feed.dropped_for(why)).sum();
    json!({
        "known": feed.known(now).as_str(),
        "block_tokens": feed.block_tokens(),
        "age_s": feed.age_s(now),
        "stored": feed.taken(Kind::Stored),
        "removed": feed.taken(Kind::Removed),
        "cleared": feed.taken(Kind::Cleared),
        "dropped": dropped,
        "gaps": feed.gaps(),
        "replayed": feed.replays(),
        "forgotten": feed.forgotten(),
    })
}
