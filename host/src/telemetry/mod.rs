//! What the process says of itself: metrics, the decision log and the text log.
//!
//! - [`Metrics`] counts what happens to requests. Its handles are resolved once a pool, so that counting
//!   one request is a few atomics. State that is merely there (load, queues, plugins) is not counted but
//!   read when somebody scrapes, through a [`Page`].
//! - [`Usage`] is what clients hold at a time, and how often a bound was met.
//! - [`Decisions`] keeps the explanations of the last [`DECISIONS`] requests.
//! - [`log`] sets up the text log on stderr.
//!
//! Nothing here decides, and nothing here waits except for short locks.

mod decisions;
pub mod log;
mod metrics;
mod page;
mod reloads;
mod split;
#[cfg(test)]
mod tests;
mod usage;

pub use decisions::{DECISIONS, Decisions};
pub use metrics::{Format, Metrics, PoolMetrics};
pub use page::{Page, Sheet};
pub use reloads::{ReloadStatus, Reloaded, Reloads};
pub use split::{Lease, SplitMetrics};
pub use usage::{Held, Limit, Resource, Usage};
