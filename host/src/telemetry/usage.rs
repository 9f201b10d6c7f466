//! What the process holds for clients at a time, and how often a bound was met.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Something of which only so much may be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Connections of clients.
    Connections,
    /// Requests, those that wait included.
    Requests,
    /// Bytes of request bodies.
    BufferedBytes,
}

/// A bound on what a client may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// [`Resource::Connections`].
    Connections,
    /// [`Resource::Requests`].
    Requests,
    /// [`Resource::BufferedBytes`].
    BufferedBytes,
    /// Length of a head.
    HeaderBytes,
    /// Length of a body.
    BodyBytes,
    /// Time for a head.
    HeaderTime,
    /// Time for a body.
    BodyTime,
    /// Time to take an answer.
    WriteTime,
}

impl Limit {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Connections,
        Self::Requests,
        Self::BufferedBytes,
        Self::HeaderBytes,
        Self::BodyBytes,
        Self::HeaderTime,
        Self::BodyTime,
        Self::WriteTime,
    ];

    /// The key that sets it, without its section.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Requests => "requests",
            Self::BufferedBytes => "buffered_bytes",
            Self::HeaderBytes => "header_bytes",
            Self::BodyBytes => "body_bytes",
            Self::HeaderTime => "header_timeout_ms",
            Self::BodyTime => "body_timeout_ms",
            Self::WriteTime => "write_timeout_ms",
        }
    }
}

/// What is held, and how often a bound was met.
#[derive(Debug, Default)]
pub struct Usage {
    held: [AtomicUsize; 3],
    hits: [AtomicU64; Limit::ALL.len()],
}

/// A share of a [`Resource`]; given back when it is dropped.
#[derive(Debug)]
#[must_use = "what is held is given back as soon as this is dropped"]
pub struct Held {
    usage: Arc<Usage>,
    resource: Resource,
    amount: usize,
    limit: usize,
}

impl Usage {
    /// Takes so much, if no more than `limit` is held then. What does not fit counts as a bound that was met.
    #[must_use]
    pub fn take(self: &Arc<Self>, resource: Resource, amount: usize, limit: usize) -> Option<Held> {
        let mut held = Held { usage: Arc::clone(self), resource, amount: 0, limit };
        held.grow(amount).then_some(held)
    }

    /// How much is held.
    #[must_use]
    pub fn held(&self, resource: Resource) -> usize {
        self.of(resource).load(Relaxed)
    }

    /// A bound was met.
    pub fn hit(&self, limit: Limit) {
        if let Some(hits) = self.hits.get(limit as usize) {
            hits.fetch_add(1, Relaxed);
        }
    }

    /// How often each bound was met.
    pub fn hits(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Limit::ALL.iter().zip(&self.hits).map(|(limit, hits)| (limit.as_str(), hits.load(Relaxed)))
    }

    fn of(&self, resource: Resource) -> &AtomicUsize {
        let [connections, requests, bytes] = &self.held;
        match resource {
            Resource::Connections => connections,
            Resource::Requests => requests,
            Resource::BufferedBytes => bytes,
        }
    }
}

impl Held {
    /// Takes so much more. False when that does not fit; then nothing has changed.
    #[must_use]
    pub fn grow(&mut self, amount: usize) -> bool {
        let counter = self.usage.of(self.resource);
        let before = counter.fetch_add(amount, Relaxed);
        if before.saturating_add(amount) <= self.limit {
            self.amount += amount;
            return true;
        }
        counter.fetch_sub(amount, Relaxed);
        self.usage.hit(match self.resource {
            Resource::Connections => Limit::Connections,
            Resource::Requests => Limit::Requests,
            Resource::BufferedBytes => Limit::BufferedBytes,
        });
        false
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.usage.of(self.resource).fetch_sub(self.amount, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_bounded_and_given_back() {
        let usage = Arc::<Usage>::default();
        let mut held = usage.take(Resource::BufferedBytes, 60, 100).unwrap();
        assert!(usage.take(Resource::BufferedBytes, 50, 100).is_none());
        assert!(held.grow(40) && !held.grow(1));
        assert_eq!(usage.held(Resource::BufferedBytes), 100);
        drop(held);
        assert_eq!(usage.held(Resource::BufferedBytes), 0);
        assert!(usage.hits().any(|hit| hit == ("buffered_bytes", 2)));
    }
}
