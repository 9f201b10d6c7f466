//! The scheduler of a simulated engine: pure logic in injected time.
//!
//! It follows vLLM's V1 scheduler: one loop of steps, each a batch of decoding sequences and of prefill chunks under
//! a token budget; paged blocks with a prefix cache; preemption by recomputation when blocks run out. It owns no
//! clock: whoever drives it says what time it is, and learns when to come back.

mod cache;
mod config;
mod core;
mod event;
mod journal;
mod lease;
mod plan;
mod sequence;
mod stats;
#[cfg(test)]
mod tests;

pub use self::core::{Core, Gauges};
pub use cache::{BlockCache, BlockId};
pub use config::{Config, Nanos};
pub use event::{Event, Finish, Usage};
pub use journal::{Change, Stored};
pub use lease::{LeaseState, Pinned};
pub use sequence::{Request, SequenceId, Transfer};
pub use stats::{Histogram, Stats};
