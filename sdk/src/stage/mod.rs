//! The stages: one trait each, and the types they answer with.

mod admission;
mod disaggregation;
mod filter;
mod flow_control;
mod handoff;
mod observer;
mod picker;
mod scorer;

pub use admission::{Admission, Rejection, Verdict};
pub use disaggregation::{Disaggregation, Leg, Stage};
pub use filter::Filter;
pub use flow_control::{FlowControl, Placement};
pub use handoff::Handoff;
pub use observer::Observer;
pub use picker::Picker;
pub use scorer::Scorer;
