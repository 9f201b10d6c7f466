//! State that outlives an instance.

use crate::{Error, Policy};

/// State of the instance that observes, carried to a new version, and back after a trap.
pub trait Handoff: Policy {
    /// The state, in a form that the policy versions by itself.
    fn save(&self) -> Vec<u8>;

    /// Takes a saved state.
    ///
    /// # Errors
    /// An error starts clean, and its text is logged.
    fn restore(&mut self, state: &[u8]) -> Result<(), Error>;
}
