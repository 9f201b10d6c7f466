//! The operator's side: health, metrics, plugins, endpoints, decisions, configuration, and a page.
//!
//! [`serve`] answers HTTP/1 on a listener of its own. One table in [`router`] says which path is answered by
//! which function; those functions take the [`Admin`] and return an answer, and each lives in the file of its
//! subject. They run on threads that may block, so that a long page or a lock that is held while a plugin
//! compiles never keeps a client of the proxy waiting. Reading is free to whoever reaches the listener;
//! writing needs a loopback `Host` and no foreign `Origin` ([`guard`]), so that no web page can do it.

mod answer;
mod cases;
mod config;
mod decisions;
mod endpoints;
mod guard;
mod health;
mod kv_events;
mod metrics;
mod page;
mod plugins;
mod router;
mod server;
mod shadow;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::clock::Clock;
use crate::flow::Gate;
use crate::plugin::Catalog;
use crate::plugin::watch::DirectoryStatus;
use crate::route::Lane;
use crate::telemetry::{Decisions, Metrics};

pub use server::serve;

/// A pool as the admin API sees it.
#[derive(Debug)]
pub struct AdminPool {
    /// Its endpoints and what is known of them.
    pub lane: Arc<Lane>,
    /// Its queue.
    pub gate: Arc<Gate>,
}

/// What the admin API shows and changes.
#[derive(Debug)]
pub struct Admin {
    /// The plugins.
    pub catalog: Arc<Catalog>,
    /// How the directory that they come from fares, if one is watched.
    pub directory: Option<Arc<ArcSwap<DirectoryStatus>>>,
    /// The pools.
    pub lanes: Vec<AdminPool>,
    /// What was counted.
    pub metrics: Arc<Metrics>,
    /// The explanations of the latest requests.
    pub decisions: Arc<Decisions>,
    /// The configuration in force, without secrets.
    pub config_json: serde_json::Value,
    /// Time.
    pub clock: Arc<dyn Clock>,
}
