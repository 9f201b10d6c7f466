//! A host to test against, natively.
//!
//! [`Request`], [`Endpoints`], [`Flows`] and [`Events`] are built by hand and implement the views; the clock, the
//! log, random numbers, the store and metrics of a test are those of its thread, reached through [`host`].
//! Columns have the names of the contract, and a name that the contract does not have is an error here too.
//!
//! ```
//! use sluicegate_sdk::{clock, fake, log};
//!
//! fake::host().set_now_ms(1_500);
//! assert_eq!(clock::now_ms(), 1_500);
//! log::warn("late");
//! assert_eq!(fake::host().logs(), [(log::Level::Warn, "late".to_owned())]);
//! ```

mod columns;
mod endpoints;
mod events;
mod flows;
mod host;
mod request;
mod store;
mod table;

pub use endpoints::Endpoints;
pub use events::{Event, Events};
pub use flows::Flows;
pub use host::{Host, host};
pub use request::Request;

pub(crate) use host::with;

use crate::{Columns, Error, Policy};

/// Configures a policy as the host would.
///
/// # Errors
/// When the policy refuses the configuration.
pub fn configure<P: Policy>(json: &str) -> Result<P, Error> {
    P::configure(json, &mut Columns::new())
}

/// What resolves names of columns, for tests that read columns themselves.
#[must_use]
pub const fn columns() -> Columns {
    Columns::new()
}
