//! What a policy may look at. Each view is borrowed for the length of one call.
//!
//! The views are traits, so that the same policy runs over the host's handles, over the
//! [`fake`](crate::fake) host, and over whatever else implements them.

mod endpoints;
mod events;
mod flows;
mod request;

pub use endpoints::{EndpointsView, Profile, Table};
pub use events::{EventKind, EventsView};
pub use flows::FlowsView;
pub use request::{Api, RequestView};
