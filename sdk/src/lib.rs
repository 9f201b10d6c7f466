//! All that a Sluicegate policy needs.
//!
//! A policy is a plain Rust type that implements [`Policy`] and one trait for each stage it serves
//! ([`Scorer`], [`Filter`], [`Admission`], [`Picker`], [`Disaggregation`], [`FlowControl`],
//! [`Observer`], [`Handoff`]). [`export!`] turns it into a WebAssembly component that exports exactly
//! those stages and imports nothing but what the host of this project offers. Natively the same type
//! runs against the [`fake`] host, so `cargo test` is all that its logic needs.
//!
//! A whole plugin, with a test:
//!
//! ```
//! use sluicegate_sdk::{Column, Columns, EndpointsView, Error, Manifest, Policy, RequestView, Scorer};
//!
//! /// Prefers endpoints with fewer requests of ours.
//! struct LeastLoad {
//!     requests: Column,
//! }
//!
//! impl Policy for LeastLoad {
//!     fn manifest() -> Manifest {
//!         Manifest::new("least-load", env!("CARGO_PKG_VERSION"), "prefers endpoints with fewer requests")
//!     }
//!     fn configure(_json: &str, columns: &mut Columns) -> Result<Self, Error> {
//!         Ok(Self { requests: columns.resolve("load.requests")?.or(0.0) })
//!     }
//! }
//!
//! impl Scorer for LeastLoad {
//!     fn score(&self, _request: &dyn RequestView, endpoints: &dyn EndpointsView) -> Vec<f32> {
//!         endpoints.column(self.requests).into_iter().map(|load| 1.0 / (1.0 + load)).collect()
//!     }
//! }
//!
//! sluicegate_sdk::export!(LeastLoad: scorer);
//!
//! use sluicegate_sdk::fake;
//! let policy: LeastLoad = fake::configure("").unwrap();
//! let endpoints = fake::Endpoints::new(2).with("load.requests", [3.0, 0.0]);
//! assert_eq!(policy.score(&fake::Request::default(), &endpoints), [0.25, 1.0]);
//! ```
//!
//! # Calls and memory
//!
//! Calls are synchronous and have a deadline of some milliseconds of CPU time. The host keeps several
//! instances of a plugin, and a call of a request's own stages may land on any of them: what such an
//! instance remembers is a cache, and what must be shared goes to the [`store`]. `select`, `saturation`,
//! `observe`, `save` and `restore` all run on one instance of their own, so that they may keep state in
//! `self`. A panic is logged with its place, then traps; the host replaces the instance.
//!
//! # Cost
//!
//! Everything a view answers is a call into the host: a getter costs about 0.1 µs, text more, and a column
//! of a thousand values about a microsecond. Read columns, not endpoints one by one.

pub mod clock;
mod column;
pub mod config;
mod error;
mod export;
#[cfg(not(target_arch = "wasm32"))]
pub mod fake;
pub mod log;
mod manifest;
pub mod metrics;
pub mod random;
pub mod stage;
pub mod store;
pub mod view;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod wasm;

pub use column::{Column, Columns, UnknownColumn};
pub use error::Error;
pub use manifest::{Manifest, Policy};
pub use stage::{
    Admission, Disaggregation, Filter, FlowControl, Handoff, Leg, Observer, Picker, Placement, Rejection,
    Scorer, Stage, Verdict,
};
pub use view::{Api, EndpointsView, EventKind, EventsView, FlowsView, Profile, RequestView, Table};
