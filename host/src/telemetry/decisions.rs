//! The explanations of the latest requests.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::route::Explanation;

/// Explanations that a process keeps.
pub const DECISIONS: usize = 1_024;

/// A ring of explanations, found by request id. Of two requests with one id the newer is found.
#[derive(Debug)]
pub struct Decisions {
    /// Oldest first. Looking for one is rare and may take a scan; keeping one is what every request does.
    ring: Mutex<VecDeque<Arc<Explanation>>>,
    capacity: usize,
}

impl Default for Decisions {
    fn default() -> Self {
        Self::new(DECISIONS)
    }
}

impl Decisions {
    /// An empty ring of this many explanations, at least one.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { ring: Mutex::default(), capacity: capacity.max(1) }
    }

    /// Keeps an explanation, in the place of the oldest when the ring is full.
    pub fn push(&self, explanation: Explanation) {
        let new = Arc::new(explanation);
        let mut ring = self.ring.lock();
        let oldest = if ring.len() >= self.capacity { ring.pop_front() } else { None };
        ring.push_back(new);
        drop(ring);
        // What is let go may hold thousands of numbers; nobody has to wait for that.
        drop(oldest);
    }

    /// The explanation of the request with this id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<Arc<Explanation>> {
        self.ring.lock().iter().rev().find(|kept| kept.id() == id).cloned()
    }

    /// Up to `count` explanations, newest first.
    #[must_use]
    pub fn recent(&self, count: usize) -> Vec<Arc<Explanation>> {
        self.ring.lock().iter().rev().take(count).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Request;
    use crate::route::Trace;

    fn explanation(id: &str, status: u16) -> Explanation {
        let request = Request::unremarkable(id);
        Trace::new(Arc::new(request), "p", "default", 1).finish(status)
    }

    fn ids(decisions: &Decisions, count: usize) -> Vec<String> {
        decisions.recent(count).iter().map(|kept| kept.id().to_owned()).collect()
    }

    #[test]
    fn the_newest_are_kept() {
        let decisions = Decisions::new(2);
        for id in ["a", "b", "c"] {
            decisions.push(explanation(id, 200));
        }
        assert_eq!(ids(&decisions, 10), ["c", "b"]);
        assert_eq!(ids(&decisions, 1), ["c"]);
        assert!(decisions.get("a").is_none());
        assert!(decisions.get("b").is_some());
    }

    #[test]
    fn of_equal_ids_the_newest_is_found_as_long_as_it_is_kept() {
        let decisions = Decisions::new(2);
        let status = |decisions: &Decisions, id: &str| {
            let kept = decisions.get(id)?;
            let registry = crate::policy::Registry::default();
            kept.to_json(&registry)["status"].as_u64()
        };
        decisions.push(explanation("a", 500));
        decisions.push(explanation("a", 200));
        assert_eq!(status(&decisions, "a"), Some(200));
        decisions.push(explanation("b", 200));
        assert_eq!(status(&decisions, "a"), Some(200), "only the older of the two is gone");
        decisions.push(explanation("c", 200));
        assert_eq!(status(&decisions, "a"), None);
    }
}
