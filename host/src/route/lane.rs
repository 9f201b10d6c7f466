//! What routing needs to know of one pool.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::clock::Clock;
use crate::policy::{Chain, Part, PoolFacts, Registry, Request, Serving};
use crate::pool::{Endpoint, Pool, Reservation, Windows};
use crate::prefix::{Exact, Index, Sessions};
use crate::types::Profile;

use super::{Candidates, Measure, ShadowSink};

/// Whether what policies say counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteMode {
    /// It does.
    Follow,
    /// They are asked and their answers recorded; requests go to the least loaded endpoint at once.
    Observe,
}

/// A pool with all that is known of what its endpoints hold.
#[derive(Debug)]
pub struct Lane {
    /// The endpoints.
    pub pool: Arc<Pool>,
    /// Which prefixes they are believed to hold, because they were sent there.
    pub index: Index,
    /// By how much the estimated lengths of prompts are wrong.
    pub measure: Measure,
    /// Which prefixes they report to hold.
    pub exact: Arc<Exact>,
    /// Which of them served a session last.
    pub sessions: Sessions,
    /// How requests fared in the last minutes.
    pub windows: Windows,
    /// Names of columns.
    pub registry: Arc<Registry>,
    /// Whether policies are followed.
    pub mode: RouteMode,
    /// Who asks shadows; none asks none.
    pub shadows: Option<Arc<dyn ShadowSink>>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

impl Lane {
    /// The endpoints that may serve a request in this profile: up, not draining, of the right role, and
    /// listing the model.
    #[must_use]
    pub fn candidates(
        self: &Arc<Self>,
        serving: &Serving,
        request: &Arc<Request>,
        profile: Profile,
    ) -> Arc<Candidates> {
        let fits = |endpoint: &Arc<Endpoint>| match profile {
            Profile::Decode => endpoint.role.decodes(),
            Profile::Prefill => endpoint.role.prefills(),
        };
        self.healthy(serving, request, profile, fits)
    }

    /// All endpoints that may take part in a request, whatever their role.
    #[must_use]
    pub fn everyone(self: &Arc<Self>, serving: &Serving, request: &Arc<Request>) -> Arc<Candidates> {
        self.healthy(serving, request, Profile::Decode, |_| true)
    }

    fn healthy(
        self: &Arc<Self>,
        serving: &Serving,
        request: &Arc<Request>,
        profile: Profile,
        fits: impl Fn(&Arc<Endpoint>) -> bool,
    ) -> Arc<Candidates> {
        let now = self.clock.now();
        let mut endpoints = self.those(|endpoint| endpoint.usable(now) && fits(endpoint));
        let lists = |endpoint: &Arc<Endpoint>| endpoint.lists(&request.model);
        // A model that only the configuration knows is not in any endpoint's list.
        if self.pool.lists_several() && !request.model.is_empty() && endpoints.iter().any(lists) {
            endpoints = Arc::new(endpoints.iter().filter(|endpoint| lists(endpoint)).cloned().collect());
        }
        if let Some(part) = &serving.part {
            endpoints = self.of_part(part, endpoints);
        }
        let resolved = Arc::clone(&serving.chain.columns);
        Candidates::new(Arc::clone(self), Some(Arc::clone(request)), profile, endpoints, resolved, now)
    }

    /// Those of one side of a split pool. A side where nobody can serve is no reason to refuse a request: it
    /// then goes where it would go without the split.
    fn of_part(&self, part: &Part, endpoints: Arc<Vec<Arc<Endpoint>>>) -> Arc<Vec<Arc<Endpoint>>> {
        let all = self.pool.endpoints();
        let keys: Vec<_> = all.iter().map(|endpoint| endpoint.key).collect();
        let side = all.iter().zip(part.of(&keys)).filter_map(|(endpoint, of)| of.then_some(endpoint.id));
        let side: BTreeSet<_> = side.collect();
        let of_side: Vec<_> =
            endpoints.iter().filter(|endpoint| side.contains(&endpoint.id)).cloned().collect();
        if of_side.is_empty() { endpoints } else { Arc::new(of_side) }
    }

    /// The pool, as far as a trial asks.
    #[must_use]
    pub fn facts(&self) -> PoolFacts<'_> {
        PoolFacts { name: &self.pool.name, chain: &self.pool.chain, endpoints: self.pool.endpoints().len() }
    }

    /// The endpoints of the pool that pass; nothing is copied when all do.
    fn those(&self, pass: impl Fn(&Arc<Endpoint>) -> bool) -> Arc<Vec<Arc<Endpoint>>> {
        let all = self.pool.endpoints();
        if all.iter().all(&pass) {
            return all;
        }
        Arc::new(all.iter().filter(|endpoint| pass(endpoint)).cloned().collect())
    }

    /// The endpoints that can decode, with no request in view: what saturation is about.
    #[must_use]
    pub fn standing(self: &Arc<Self>, chain: &Chain) -> Arc<Candidates> {
        let now = self.clock.now();
        let endpoints = self.those(|endpoint| endpoint.usable(now) && endpoint.role.decodes());
        Candidates::new(Arc::clone(self), None, Profile::Decode, endpoints, Arc::clone(&chain.columns), now)
    }

    /// Takes the endpoint for a request: what it will have to prefill counts at once.
    pub fn reserve(&self, request: &Request, endpoint: &Arc<Endpoint>) -> Reservation {
        let uncached = request.prompt_tokens.saturating_sub(self.cached_tokens(request, endpoint));
        endpoint.reserve(uncached, request.prompt_tokens)
    }

    /// The request has been sent: from now on the endpoint is believed to hold its prompt.
    pub fn sent(&self, request: &Request, endpoint: &Endpoint) {
        if let Some(source) = self.source(request) {
            self.index.insert(endpoint.id, source.hashes());
            self.expect(request, source, endpoint);
        }
        if let Some(session) = &request.session {
            self.sessions.note(session, endpoint.id, self.clock.now());
        }
    }

    /// The endpoint has kept an answer under this id; what continues it should go there.
    pub fn kept(&self, answer: &str, endpoint: &Endpoint) {
        self.sessions.note(answer, endpoint.id, self.clock.now());
    }

    /// The request came to nothing there: of its prompt only the first `held` tokens are believed.
    pub fn unsent(&self, request: &Request, endpoint: &Endpoint, held: u32) {
        if let Some(source) = self.source(request) {
            let blocks = source.blocks_in(held, request.prompt_tokens);
            self.index.truncate(endpoint.id, source.hashes(), usize::try_from(blocks).unwrap_or(0));
            self.expect_no_more(request, source, endpoint, held);
        }
    }
}
