//! Policies judged in virtual time: the traffic of [`crate::load`], the engines of [`crate::scheduler`], and the
//! router's own routing with the very plugins that it would run, in one process and without waiting.
//!
//! An hour of traffic takes seconds, nothing else on the machine shows in it, and the same flags give the same
//! figures: what a change of a policy does can be told from chance. Left out is what routing does not decide: the
//! network, the queue (a request goes as soon as it is there) and failures.

mod args;
mod cache_aware;
pub(crate) mod engines;
pub(crate) mod router;
mod run;

pub use args::{Args, By};
pub(crate) use run::{MODEL, tokens};
pub use run::{ReplayError, replay};
