//! What joins the traits of this crate to the generated bindings. Only the code that [`export!`](crate::export)
//! expands to names it.

pub mod bindings;
mod guests;
mod instance;
mod panics;
mod views;

pub use bindings::policy::sluicegate::policy as imports;
pub use instance::{Exported, Instance};
