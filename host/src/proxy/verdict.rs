//! What an endpoint is believed after what became of a request there.

use super::Service;
use super::upstream::SendError;
use crate::clock::Nanos;
use crate::pool::Endpoint;

impl Service {
    /// A request was served there.
    pub(super) fn succeeded(&self, endpoint: &Endpoint, now: Nanos) {
        if self.lane.pool.succeeded(endpoint, now) {
            tracing::info!(endpoint = %endpoint.name, "endpoint is no longer ejected");
        }
    }

    /// A request failed there after it was sent.
    pub(super) fn failed(&self, endpoint: &Endpoint, now: Nanos, why: &str) {
        if self.lane.pool.failed(endpoint, now, why) {
            tracing::warn!(endpoint = %endpoint.name, why, "endpoint is ejected");
        }
    }

    /// A request was not answered there.
    pub(super) fn unanswered(&self, endpoint: &Endpoint, now: Nanos, error: &SendError) {
        match error {
            SendError::Dial(_) => _ = endpoint.health.connect_failed(now, &error.to_string()),
            SendError::Broken(_) | SendError::Timeout(_) => self.failed(endpoint, now, &error.to_string()),
            SendError::Body(_) | SendError::NoBody => {}
        }
    }
}
