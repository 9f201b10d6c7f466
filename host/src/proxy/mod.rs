//! The data plane: from a client's connection to an engine's and back.
//!
//! The files follow a request:
//!
//! ```text
//! server ─► service ─► callers (who it is) ─► intake (body, facts, pool) ─► tokenize ─► infer: admit, place ─ turn: wait, choose
//!                 │                                      │
//!                 ├─► models (GET /v1/models, merged)    ▼
//!                 └─► passthrough ────────────────► attempt (endpoints in order) ─ split, legs (prefill first)
//!                                                        │
//!                                                        ▼
//!                                                   relay: bytes as they come, load, usage, events
//! ```
//!
//! `server` and `http2` speak with clients, in either version of HTTP, `upstream` with engines. A connection that becomes
//! another protocol's goes to `tunnel`.
//!
//! What is no request never comes to `service`: `wire` keeps back what hyper would say to it, `framing` and
//! `malformed` know what is wrong, and `farewell` says it and closes.
//!
//! Everything that a request holds (a place in the queue, a reservation, an upstream connection) is owned by its
//! future or its response body: a client that goes away drops them, and that is all there is to cancellation.

mod arrival;
mod attempt;
mod body;
mod callers;
mod farewell;
mod framing;
mod headers;
mod http2;
mod idle;
mod infer;
mod intake;
mod introduce;
mod job;
mod keep_alive;
mod legs;
mod malformed;
mod models;
mod outcome;
mod passthrough;
mod patience;
mod priority;
mod record;
mod relay;
mod retry;
mod server;
mod service;
mod split;
mod tokenize;
mod trace_context;
mod tunnel;
mod turn;
mod upstream;
mod verdict;
mod wire;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use self::outcome::Failure;
use crate::clock::{Clock, nanos};
use crate::config::{Forwarded, Limits, PoolConfig, Traceparent};
use crate::net::Dialer;
use crate::plugin::{Catalog, Controller};
use crate::policy::Budget;
use crate::route::Lane;
use crate::telemetry::{Decisions, PoolMetrics, Usage};
use crate::tenants::Tenants;
use crate::types::Api;

pub use retry::RetryBudget;
pub use server::serve;
pub use tokenize::Tokenizing;
pub use upstream::Upstream;

/// A pool as the proxy uses it.
#[derive(Debug)]
pub struct Service {
    /// Endpoints and what is known of them.
    pub lane: Arc<Lane>,
    /// The queue, and the thread that empties it.
    pub controller: Arc<Controller>,
    /// How the pool is configured.
    pub config: PoolConfig,
    /// The model's own tokens, where the pool has a tokenizer.
    pub tokenizing: Option<Tokenizing>,
    /// Attempts beyond the first.
    pub retries: RetryBudget,
    /// Its metrics.
    pub metrics: Arc<PoolMetrics>,
    /// How its endpoints are reached.
    pub dialer: Dialer,
}

/// Everything that serving a request needs. It never changes: another configuration makes another one, and a request
/// keeps the one that it began with.
#[derive(Debug)]
pub struct Proxy {
    /// The policies in force.
    pub catalog: Arc<Catalog>,
    /// The pools, in the order of the configuration; the first takes what names no model.
    pub pools: Vec<Arc<Service>>,
    /// Connections to engines.
    pub upstream: Arc<Upstream>,
    /// Who may call.
    pub tenants: Arc<Tenants>,
    /// Bounds.
    pub limits: Limits,
    /// What clients hold of what is bounded.
    pub usage: Arc<Usage>,
    /// What engines are told of clients.
    pub forwarded: Forwarded,
    /// Whether requests without a trace are given one.
    pub traceparent: Traceparent,
    /// Metrics of requests that were refused before a pool was found for them.
    pub unrouted: Arc<PoolMetrics>,
    /// Explanations of the last requests.
    pub decisions: Arc<Decisions>,
    /// Whether streams that still run are to end now, with a word to their clients.
    pub closing: Arc<AtomicBool>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

/// Whether connections are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// They are.
    No,
    /// The process ends: those that are idle are closed.
    Leave,
    /// Another process takes them: those that are there are closed after an answer, or after having been idle for a
    /// while, so that no client has just written to one.
    HandOver,
}

impl Proxy {
    /// A request was refused before a pool was found for it.
    fn refused(&self, api: Api, failure: &Failure) {
        self.unrouted.request(api, failure.status(), 0.0);
        if let Some(limit) = failure.limit() {
            self.usage.hit(limit);
        }
    }

    /// The time that the policies of one request have together.
    fn policy_budget(&self) -> Budget {
        Budget::new(nanos(self.limits.policy))
    }
}
