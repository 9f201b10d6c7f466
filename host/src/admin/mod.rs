//! The operator's side: health, metrics, plugins, endpoints, decisions, configuration, and a page.
//!
//! [`serve`] answers HTTP/1 on a listener of its own. One table in [`router`] says which path is answered by
//! which function; those functions take the [`Admin`] and return an answer, and each lives in the file of its
//! subject. They run on threads that may block, so that a long page or a lock that is held while a plugin
//! compiles never keeps a client of the proxy waiting. [`access`] says who may:
//! without tokens reading is free to whoever reaches the listener, and writing needs a loopback `Host` and no foreign
//! `Origin` ([`guard`]), so that no web page can do it. What is written goes into the audit.

mod access;
mod additions;
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
mod tenants;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::audit::Audit;
use crate::clock::Clock;
use crate::discovery::Addition;
use crate::flow::Gate;
use crate::plugin::Catalog;
use crate::plugin::watch::DirectoryStatus;
use crate::route::Lane;
use crate::telemetry::{Decisions, Metrics, Reloaded, Reloads};
use crate::tenants::Tenants;

pub use access::Access;
pub use server::serve;

/// A pool as the admin API sees it.
#[derive(Debug)]
pub struct AdminPool {
    /// Its endpoints and what is known of them.
    pub lane: Arc<Lane>,
    /// Its queue.
    pub gate: Arc<Gate>,
}

/// What the admin API asks of the whole process.
pub trait Control: std::fmt::Debug + Send + Sync {
    /// Reads the configuration again, and applies it whole or refuses it whole.
    fn reload(&self) -> Reloaded;

    /// Adds an endpoint to its pool.
    ///
    /// # Errors
    /// When it is not added.
    fn add_endpoint(&self, addition: Addition) -> Result<(), EndpointRefusal>;

    /// Takes away an endpoint that was added.
    ///
    /// # Errors
    /// When it stays.
    fn remove_endpoint(&self, id: &str) -> Result<(), EndpointRefusal>;
}

/// Why an endpoint is not added or not taken away.
#[derive(Debug, thiserror::Error)]
pub enum EndpointRefusal {
    /// No pool has this name.
    #[error("no pool is named `{0}`")]
    NoPool(Box<str>),
    /// The configuration does not allow it.
    #[error("pool `{0}` takes none this way: its `admin_endpoints` is false")]
    NotAllowed(Box<str>),
    /// The id is not free.
    #[error("`{id}` is already an endpoint of pool `{pool}`")]
    Taken {
        /// The id.
        id: Box<str>,
        /// Whose it is.
        pool: Box<str>,
    },
    /// No endpoint has this id.
    #[error("no endpoint is named `{0}`; names are HOST:PORT")]
    Unknown(Box<str>),
    /// It is named in the configuration.
    #[error("`{0}` comes from the configuration: take it out there, or drain it")]
    Configured(Box<str>),
    /// `state_dir` cannot be written.
    #[error("it cannot be kept, so nothing is changed: {0}")]
    NotKept(#[from] std::io::Error),
    /// The process is ending.
    #[error("the process is ending")]
    Ending,
}

/// What the admin API shows and changes. It never changes itself: another configuration makes another one.
#[derive(Debug)]
pub struct Admin {
    /// The plugins.
    pub catalog: Arc<Catalog>,
    /// How the directory that they come from fares, if one is watched.
    pub directory: Option<Arc<ArcSwap<DirectoryStatus>>>,
    /// The pools.
    pub lanes: Vec<AdminPool>,
    /// Who may read, and who may change something.
    pub access: Access,
    /// What was changed, by whom.
    pub audit: Arc<Audit>,
    /// Who may call the proxy.
    pub tenants: Arc<Tenants>,
    /// What was counted.
    pub metrics: Arc<Metrics>,
    /// The explanations of the latest requests.
    pub decisions: Arc<Decisions>,
    /// The configuration in force, without secrets.
    pub config_json: serde_json::Value,
    /// What became of changes of the configuration.
    pub reloads: Arc<Reloads>,
    /// The process.
    pub control: Arc<dyn Control>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}
