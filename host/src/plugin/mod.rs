//! The Wasm host: from a file's bytes to policies behind the ports of [`crate::policy`].
//!
//! ```text
//! bytes ── supply ──► may be loaded ── artifact ──► component bytes ── compile ──► code
//!                                                          │ component: linked, stages known
//!                                                          │ probe (describe, configure, trial calls)
//!                                                          ▼
//! catalog: which file or built-in is in force ──► policies (pooled instances) ──► PolicySet, swapped whole
//!    ▲                                                          own (one instance a plugin and pool)
//!    └── watch: the directory
//! ```
//!
//! Consequences worth knowing:
//! - A guest has no ambient authority: its only imports are those of `wit/policy.wit`.
//! - Calls are synchronous on the thread that serves the request. Each is bounded by a deadline in CPU
//!   time of that thread ([`budget`]) and a memory cap ([`host`]).
//! - A failed call spoils its instance, which is replaced: on the spot, or beforehand where making one takes
//!   long ([`instance`]).
//! - Nothing here decides about a request: answers go back through the ports, cleaned by
//!   [`crate::policy::clean`].

pub mod anatomy;
pub mod artifact;
mod bindings;
mod budget;
pub mod builtin;
pub mod case;
pub mod catalog;
mod chains;
pub mod compile;
mod component;
pub mod conformance;
pub mod controller;
pub mod directory;
pub mod engine;
mod host;
pub mod inspect;
mod instance;
mod kv;
pub mod load;
pub mod loader;
pub mod measure;
mod own;
mod policies;
pub mod probe;
mod quota;
mod series;
pub(crate) mod settle;
pub mod shadow;
mod status;
pub mod supervise;
pub mod supply;
mod synthetic;
mod wasi;
pub mod watch;

pub use catalog::{ActError, Action, Catalog, Prepared, ReloadError, RolledBack, Watched};
pub use compile::{Compiled, Compiling};
pub use controller::Controller;
pub use engine::Runtime;
pub use instance::Population;
pub use quota::Dropped;
pub use series::{SeriesSnapshot, SeriesValue};
pub use shadow::Shadowing;
pub use status::{CandidateStatus, Counted, PluginStatus, Refused};
