//! Flow control judged in virtual time: who waits, who goes first, who is refused.
//!
//! The router's own queue, with the very plugin that it would run, in front of simulated engines. A scenario is run
//! more than once with one thing changed, and what comes of each is printed side by side: the figures are the same on
//! every machine.

mod args;
mod clients;
mod queue;
mod report;
mod scenarios;
mod world;

pub use args::{Args, Scenario};
pub use report::{Group, Outcome};
pub use scenarios::{FairError, run};
