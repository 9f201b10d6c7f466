//! What engines report of their KV caches, block by block, into the exact index of their pool.
//!
//! Each publisher is listened to by a task of its own ([`subscriber`]). Its messages are ZeroMQ's ([`zmtp`]) and hold
//! events in MessagePack ([`batch`]); their numbers ([`sequence`]) tell whether any are missing, and those can be asked
//! for again ([`replay`]) where the engine offers it. Whatever comes costs bounded memory, is counted, and at worst
//! makes an endpoint one whose cache is known approximately, as it is without reports.
//!
//! An endpoint that is down holds nothing; it is listened to again when it is up.

mod batch;
mod discover;
mod msgpack;
mod replay;
mod sequence;
mod sources;
mod subscriber;
mod zmtp;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval};

pub use self::batch::{Batch, Event};
use self::discover::Asker;
use self::subscriber::Subscriber;
use crate::clock::Clock;
use crate::pool::{Endpoint, Pool, Status};
use crate::prefix::Exact;
use crate::prefix::exact::Feed;
use crate::types::{EndpointId, Publisher};

/// How often the pool is asked whether its endpoints have changed.
const LOOK: Duration = Duration::from_millis(200);
/// Time after which an engine that named no publisher is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// What all tasks of a pool share.
#[derive(Debug)]
struct Context {
    index: Arc<Exact>,
    clock: Arc<dyn Clock>,
    /// Through what engines are asked where they publish; none when they are not.
    asker: Option<Asker>,
}

/// Listens to the engines of the pool, those that join later too, until this future is dropped. Where `ask` is set,
/// engines of which nothing is configured are asked where they publish.
pub async fn run(pool: Arc<Pool>, index: Arc<Exact>, clock: Arc<dyn Clock>, ask: bool) {
    let context = Arc::new(Context { index, clock, asker: ask.then(Asker::new) });
    // Dropping the set ends its tasks.
    let mut tasks = JoinSet::new();
    let mut heard: HashMap<EndpointId, (Arc<Endpoint>, AbortHandle)> = HashMap::new();
    let mut seen = Arc::default();
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        context.index.sweep(context.clock.now());
        while tasks.try_join_next().is_some() {}
        let endpoints = pool.endpoints();
        if Arc::ptr_eq(&endpoints, &seen) {
            continue;
        }
        let mut before = std::mem::take(&mut heard);
        for endpoint in endpoints.iter().filter(|endpoint| ask || endpoint.kv_events.is_some()) {
            let entry = match before.remove(&endpoint.id) {
                Some((known, task)) if Arc::ptr_eq(&known, endpoint) => (known, task),
                other => {
                    if let Some((_, task)) = other {
                        task.abort();
                    }
                    let task = tasks.spawn(listen(Arc::clone(&context), Arc::clone(endpoint)));
                    (Arc::clone(endpoint), task)
                }
            };
            heard.insert(endpoint.id, entry);
        }
        before.into_values().for_each(|(_, task)| task.abort());
        seen = endpoints;
    }
}

/// Listens to one endpoint's engine whenever the endpoint is not down.
async fn listen(context: Arc<Context>, endpoint: Arc<Endpoint>) {
    let mut open: Option<Open> = None;
    loop {
        let ready = |status| match status {
            Status::Up => true,
            // One that is not reached yet cannot be asked.
            Status::Unknown => endpoint.kv_events.is_some(),
            Status::Down { .. } => false,
        };
        until(&endpoint, ready).await;
        let publishers = context.publishers(&endpoint).await;
        if publishers.is_empty() {
            open = None;
            tokio::time::sleep(ASK_AGAIN).await;
            continue;
        }
        let as_before = open.take().filter(|open| open.feed.streams().len() == publishers.len());
        let open = open.insert(match as_before {
            Some(open) => open.again(),
            None => Open::new(&context, &endpoint, publishers.len()),
        });
        let mut tasks = JoinSet::new();
        for (number, publisher) in (0..).zip(publishers) {
            let Context { index, clock, .. } = &*context;
            tasks.spawn(Subscriber::new(index, &open.feed, number, publisher, &endpoint, clock).run());
        }
        until(&endpoint, |status| matches!(status, Status::Down { .. })).await;
        tasks.shutdown().await;
    }
}

impl Context {
    async fn publishers(&self, endpoint: &Endpoint) -> Vec<Publisher> {
        match (&endpoint.kv_events, &self.asker) {
            (Some(source), _) => source.publishers(),
            (None, Some(asker)) => asker.ask(&endpoint.url).await,
            (None, None) => Vec::new(),
        }
    }
}

/// Waits until an endpoint's status is such.
async fn until(endpoint: &Endpoint, such: impl Fn(Status) -> bool) {
    while !such(endpoint.health.status()) {
        tokio::time::sleep(LOOK).await;
    }
}

/// A feed that is closed when nobody listens any more.
struct Open {
    index: Arc<Exact>,
    feed: Arc<Feed>,
}

impl Open {
    fn new(context: &Context, endpoint: &Endpoint, publishers: usize) -> Self {
        Self { index: Arc::clone(&context.index), feed: context.index.open(endpoint.id, publishers) }
    }

    /// The same for an engine that has come back: what was counted stays.
    fn again(self) -> Self {
        self.feed.restart();
        self
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.index.close(&self.feed);
    }
}
