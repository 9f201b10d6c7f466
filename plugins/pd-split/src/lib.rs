//! Decides when a prompt is computed elsewhere than where it is decoded.
//!
//! For the decode endpoint that was picked it compares two times, in milliseconds: to prefill there, behind what
//! waits there and at the cost of the streams that decode there, and to prefill at the best other endpoint and
//! move the cache over. Short remainders stay, because moving costs more than computing. Dedicated pools,
//! mixed pools and revisions that must match are all the same comparison.

mod config;
mod cost;
mod policy;

pub use config::{Config, Mode};
pub use policy::PdSplit;

sluicegate_sdk::export!(PdSplit: disaggregation);
