//! Prefill and decode apart, judged in virtual time: each mode of `pd-split` beside the others, on several mixes of
//! traffic from light load to nearly all that the engines can do.
//!
//! Four engines that prefill and four that decode, and eight that do both, with and without handing over to each other.
//! The same requests come at the same times in each set-up, and the router's own routing decides with the very plugins
//! that it would run.

mod args;
mod mixes;
mod report;
mod run;

pub use args::{Args, Mix};
pub use report::Row;
pub use run::{SplitError, run};
