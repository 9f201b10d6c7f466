//! What belongs to a request from its arrival to its end, beside what it says.

use std::sync::Arc;

use super::service::Line;
use super::wire::Exchange;
use crate::config::Forwarded;
use crate::net::Peer;
use crate::telemetry::Held;

/// Where a connection came from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    pub(super) peer: Peer,
    pub(super) tls: bool,
    /// What engines are told of it.
    pub(super) forwarded: Forwarded,
}

impl Origin {
    /// The scheme that the client used.
    pub(super) const fn scheme(self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }
}

/// What a request holds of what is bounded.
#[derive(Debug)]
pub(super) struct Holds {
    pub(super) _request: Held,
    pub(super) body: Option<Held>,
}

/// A request's way here, and what it holds until it is done.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) line: Line,
    pub(super) origin: Origin,
    pub(super) holds: Holds,
    /// The connection that may become another protocol's; none where it cannot.
    pub(super) exchange: Option<Arc<Exchange>>,
}
