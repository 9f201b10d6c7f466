//! Endpoints, what runs on them and what is known of them.
//!
//! A [`Pool`] is a changing list of [`Endpoint`]s. Everything that a policy's column reads of an endpoint is a
//! plain number in an atomic, so that a column over thousands of endpoints takes no lock. Load is held
//! by [`Reservation`]s, which give back what they took when they are dropped and so cannot leak.
//!
//! How requests fared in the last minutes, by arm of an experiment, is in [`window`].
//!
//! An endpoint keeps its handle, its load and what was learned of it as long as its name is in the
//! pool, also when its role, weight or labels change.

mod atomic;
mod circuit;
mod endpoint;
mod health;
mod latency;
pub mod limit;
mod load;
mod members;
mod report;
mod throughput;
mod trend;
pub mod window;

pub use circuit::{Circuit, Ejection, Passage};
pub use endpoint::{Endpoint, EndpointSpec, Live, OutOfUse};
pub use health::{Health, PROBES, RETRY_AFTER, Status, Why};
pub use latency::Latency;
pub use limit::Limit;
pub use load::{Load, Reservation};
pub use members::{Changes, Check, Pool, PoolSpec};
pub use report::{Numbers, Report};
pub use window::Windows;

pub use crate::types::{Url, UrlError};
