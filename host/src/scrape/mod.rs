//! What engines report: numbers, models, whether they are there at all.
//!
//! Each endpoint is read by a task of its own, so a slow one delays nobody and is never read twice at a
//! time. Only the series that are wanted are parsed: the fixed ones of each engine ([`engines`]) and
//! those that policies have resolved. Whatever an endpoint answers, in whatever length, costs bounded
//! time and memory and at worst a failed probe.

mod engines;
mod http;
mod models;
mod page;
mod probe;
mod prometheus;
#[cfg(test)]
mod tests;
mod wanted;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, sleep_until};

pub use self::page::Page;
use self::probe::Probe;
pub use self::prometheus::{Labels, Parser, Sample};
use self::wanted::Shared;
pub use self::wanted::Wanted;
use crate::clock::Clock;
use crate::config::Scrape;
use crate::net::Dialer;
use crate::policy::Registry;
use crate::pool::{Endpoint, Pool};
use crate::types::EndpointId;

/// How often the pool is asked whether its endpoints have changed.
const LOOK: Duration = Duration::from_millis(200);

/// Reads every endpoint of the pool, those that join later too, until this future is dropped.
pub async fn run(
    pool: Arc<Pool>,
    registry: Arc<Registry>,
    dialer: Dialer,
    clock: Arc<dyn Clock>,
    settings: Scrape,
) {
    let wanted = Arc::new(Shared::new(registry));
    // Dropping the set ends its tasks.
    let mut tasks = JoinSet::new();
    let mut read: HashMap<EndpointId, (Arc<Endpoint>, AbortHandle)> = HashMap::new();
    let mut seen = Arc::default();
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        while tasks.try_join_next().is_some() {}
        let endpoints = pool.endpoints();
        if Arc::ptr_eq(&endpoints, &seen) {
            continue;
        }
        let mut before = std::mem::take(&mut read);
        // The first readings of a big pool are spread out, a millisecond for each endpoint.
        let spread = settings.interval.min(Duration::from_millis(endpoints.len() as u64));
        for endpoint in endpoints.iter() {
            let entry = match before.remove(&endpoint.id) {
                Some((known, task)) if Arc::ptr_eq(&known, endpoint) => (known, task),
                other => {
                    if let Some((_, task)) = other {
                        task.abort();
                    }
                    let probe = Probe::new(&pool, endpoint, &wanted, &dialer, &clock, &settings);
                    let task =
                        tasks.spawn(again_and_again(probe, Arc::clone(endpoint), settings.clone(), spread));
                    (Arc::clone(endpoint), task)
                }
            };
            read.insert(endpoint.id, entry);
        }
        before.into_values().for_each(|(_, task)| task.abort());
        seen = endpoints;
    }
}

async fn again_and_again(mut probe: Probe, endpoint: Arc<Endpoint>, settings: Scrape, spread: Duration) {
    let mut random = endpoint.key.0;
    let mut next = Instant::now() + spread.mul_f64(unit(&mut random));
    loop {
        sleep_until(next).await;
        let begun = Instant::now();
        probe.once().await;
        // Up to 5 % early or late, so that endpoints do not fall into step; and a rest of a quarter
        // after a reading that took long.
        let interval = if is_busy(&endpoint) { settings.busy_interval } else { settings.interval };
        let due = begun + interval.mul_f64(0.95 + unit(&mut random) / 10.0);
        next = due.max(Instant::now() + interval / 4);
    }
}

/// Whether an endpoint has so much to do that a second is long: from a quarter of its limit on.
#[expect(clippy::cast_precision_loss, reason = "a number of requests")]
fn is_busy(endpoint: &Endpoint) -> bool {
    endpoint.load.requests() as f32 >= endpoint.limit.requests() / 4.0 || endpoint.engine.waiting() > 0.0
}

/// The next number in 0..1 of a sequence (splitmix64).
#[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
fn unit(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}
