//! The data plane: from a client's connection to an engine's and back.
//!
//! The files follow a request:
//!
//! ```text
//! server ─► service ─► intake (body, facts, pool) ─► tokenize ─► infer: admit, place, wait, choose
//!                 │                                      │
//!                 ├─► models (GET /v1/models, merged)    ▼
//!                 └─► passthrough ────────────────► attempt (endpoints in order) ─ legs (prefill first)
//!                                                        │
//!                                                        ▼
//!                                                   relay: bytes as they come, load, usage, events
//! ```
//!
//! What is no request never comes to `service`: `wire` keeps back what hyper would say to it, `framing` and
//! `malformed` know what is wrong, and `farewell` says it and closes.
//!
//! Everything that a request holds (a place in the queue, a reservation, an upstream connection) is owned by its
//! future or its response body: a client that goes away drops them, and that is all there is to cancellation.

mod attempt;
mod body;
mod farewell;
mod framing;
mod headers;
mod idle;
mod infer;
mod intake;
mod legs;
mod malformed;
mod models;
mod outcome;
mod passthrough;
mod record;
mod relay;
mod retry;
mod server;
mod service;
mod tokenize;
mod upstream;
mod wire;

use std::sync::Arc;

use crate::clock::{Clock, Nanos};
use crate::config::{Limits, PoolConfig};
use crate::plugin::{Catalog, Controller};
use crate::policy::Budget;
use crate::route::Lane;
use crate::telemetry::{Decisions, PoolMetrics};

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
    pub controller: Controller,
    /// How the pool is configured.
    pub config: PoolConfig,
    /// The model's own tokens, where the pool has a tokenizer.
    pub tokenizing: Option<Tokenizing>,
    /// Attempts beyond the first.
    pub retries: RetryBudget,
    /// Its metrics.
    pub metrics: Arc<PoolMetrics>,
}

/// Everything that serving a request needs.
#[derive(Debug)]
pub struct Proxy {
    /// The policies in force.
    pub catalog: Arc<Catalog>,
    /// The pools, in the order of the configuration; the first takes what names no model.
    pub pools: Vec<Arc<Service>>,
    /// Connections to engines.
    pub upstream: Upstream,
    /// Bounds.
    pub limits: Limits,
    /// Metrics of requests that were refused before a pool was found for them.
    pub unrouted: Arc<PoolMetrics>,
    /// Explanations of the last requests.
    pub decisions: Arc<Decisions>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

impl Proxy {
    /// The time that the policies of one request have together.
    fn policy_budget(&self) -> Budget {
        Budget::new(Nanos::try_from(self.limits.policy.as_nanos()).unwrap_or(Nanos::MAX))
    }
}
