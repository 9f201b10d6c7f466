//! Flow control: who waits where, and who goes next.
//!
//! Bands are strict, with less of the pool for lower ones, so that there is room when more important work comes.
//! Between the flows of a band the one goes that has had the least service for its weight, counted in tokens
//! priced by kind: a virtual token counter, charged at dispatch by an estimate and corrected by what the
//! engine reports. Within a flow later turns of a session go first, because what they hold in caches is
//! lost otherwise. Everything ages, so nothing starves. Each of these rules can be replaced by another in the
//! configuration.

mod band;
mod choice;
mod config;
mod contest;
mod counters;
mod drr;
mod late;
mod ledger;
mod light;
mod place;
mod policy;
mod saturation;
mod select;
mod state;
mod virtual_time;

pub use choice::{Between, Within};
pub use config::Config;
pub use policy::Fairness;

sluicegate_sdk::export!(Fairness: flow_control, observer, handoff);
