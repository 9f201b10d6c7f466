//! Engines, router and load together: the same traffic by round-robin and through Sluicegate, with a policy swapped
//! while it flows.

mod args;
mod child;
mod engines;
mod outcome;
mod router;
mod run;
mod swap;
mod ticker;
mod traffic;

pub use args::Args;
pub use child::ChildError;
pub use outcome::Outcome;
pub use run::{DemoError, run};
pub use swap::SwapError;
