//! What became of requests.

use crate::{EventsView, Policy};

/// What became of requests. In order, off the path of requests, on one instance of its own.
pub trait Observer: Policy {
    /// Takes a batch of events.
    fn observe(&mut self, events: &dyn EventsView);
}
