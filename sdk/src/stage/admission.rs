//! Whether a request is taken at all.

use crate::{EndpointsView, Policy, RequestView};

/// A refusal as the client sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// HTTP status, 400 to 599.
    pub status: u16,
    /// Shown to the client in the error of its API.
    pub reason: String,
    /// Becomes the header `retry-after`, rounded up to seconds.
    pub retry_after_ms: Option<u32>,
    /// Room to grow; a host ignores what it does not know.
    pub extra: Vec<(String, String)>,
}

/// What admission says of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The request is taken.
    Accept,
    /// The request is refused.
    Reject(Rejection),
}

impl Verdict {
    /// A refusal.
    #[must_use]
    pub fn reject(status: u16, reason: impl Into<String>) -> Self {
        Self::Reject(Rejection { status, reason: reason.into(), retry_after_ms: None, extra: Vec::new() })
    }

    /// A refusal that says when to come back.
    #[must_use]
    pub fn retry_after(status: u16, reason: impl Into<String>, ms: u32) -> Self {
        Self::Reject(Rejection { status, reason: reason.into(), retry_after_ms: Some(ms), extra: Vec::new() })
    }
}

/// Whether a request is taken at all. Once a request, before it may wait; on any instance.
pub trait Admission: Policy {
    /// Judges one request.
    fn admit(&self, request: &dyn RequestView, endpoints: &dyn EndpointsView) -> Verdict;
}
