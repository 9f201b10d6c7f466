//! Endpoints in the order in which they are tried.

use std::sync::Arc;

use super::Candidates;
use crate::pool::Endpoint;

/// Positions among candidates, best first. A pool may have thousands of endpoints and a request needs one of them:
/// nothing is copied until it is tried.
#[derive(Debug, Clone)]
pub struct Order {
    candidates: Arc<Candidates>,
    positions: Vec<u32>,
}

impl Order {
    pub(super) fn new(candidates: &Arc<Candidates>, positions: Vec<u32>) -> Self {
        Self { candidates: Arc::clone(candidates), positions }
    }

    /// The endpoints, best first.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        let endpoints = self.candidates.endpoints();
        self.positions.iter().filter_map(|position| endpoints.get(usize::try_from(*position).ok()?))
    }

    /// The best.
    #[must_use]
    pub fn first(&self) -> Option<&Arc<Endpoint>> {
        self.iter().next()
    }

    /// Prompt tokens that the best is believed to hold, if whoever ordered them asked.
    pub(super) fn held_by_first(&self) -> Option<u32> {
        self.candidates.held_at(*self.positions.first()?)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Those that fit before those that do not; among either the order stays.
    pub(super) fn put_first(&mut self, fits: impl Fn(&Endpoint) -> bool) {
        let endpoints = Arc::clone(self.candidates.endpoints());
        self.positions.sort_by_cached_key(|position| {
            let endpoint = usize::try_from(*position).ok().and_then(|index| endpoints.get(index));
            !endpoint.is_some_and(|endpoint| fits(endpoint))
        });
    }

    /// All but one.
    pub(super) fn without(mut self, endpoint: &Endpoint) -> Self {
        if let Some(position) = self.candidates.position(endpoint) {
            self.positions.retain(|kept| *kept != position);
        }
        self
    }
}
