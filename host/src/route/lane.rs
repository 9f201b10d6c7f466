//! What routing needs to know of one pool.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::clock::{Clock, Nanos};
use crate::policy::{Chain, Part, PoolFacts, Registry, Request, Serving};
use crate::pool::{Endpoint, OutOfUse, Pool, Reservation, Windows};
use crate::prefix::{Exact, Index, Sessions};
use crate::types::{Dialect, Profile, Role};

use super::{Candidates, Measure, Order, ShadowSink};

/// Whether what policies say counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteMode {
    /// It does.
    Follow,
    /// They are asked and their answers recorded; requests go to the least loaded endpoint at once.
    Observe,
}

/// A pool with all that is known of what its endpoints hold. A copy is of the same pool: what is learned is learned in
/// both.
#[derive(Debug, Clone)]
pub struct Lane {
    /// The endpoints.
    pub pool: Arc<Pool>,
    /// Which prefixes they are believed to hold, because they were sent there.
    pub index: Arc<Index>,
    /// By how much the estimated lengths of prompts are wrong.
    pub measure: Arc<Measure>,
    /// Which prefixes they report to hold.
    pub exact: Arc<Exact>,
    /// Which of them served a session last.
    pub sessions: Arc<Sessions>,
    /// How requests fared in the last minutes.
    pub windows: Arc<Windows>,
    /// Names of columns.
    pub registry: Arc<Registry>,
    /// Whether policies are followed.
    pub mode: RouteMode,
    /// Who asks shadows; none asks none.
    pub shadows: Option<Arc<dyn ShadowSink>>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

/// How much the endpoints of a pool take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// Endpoints that answer clients.
    pub answering: usize,
    /// Requests that they take before their limits are reached.
    pub room: usize,
    /// Tokens that their KV caches hold together; none where one does not say.
    pub kv_tokens: Option<u64>,
}

impl Lane {
    /// The same pool under another configuration: all that was learned stays.
    #[must_use]
    pub fn reconfigured(&self, pool: Pool, mode: RouteMode) -> Self {
        Self { pool: Arc::new(pool), mode, ..self.clone() }
    }

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
        let some = self.healthy(serving, request, profile, fits);
        if some.endpoints().is_empty() && profile == Profile::Decode {
            return self.healthy(serving, request, profile, |endpoint| self.stands_in(endpoint));
        }
        some
    }

    /// The endpoints to ask when none of `order` has answered: those that prefill for others, the least loaded first.
    #[must_use]
    pub fn stand_ins(&self, order: &Order) -> Vec<Arc<Endpoint>> {
        let all = self.pool.endpoints();
        if all.iter().all(|endpoint| endpoint.role != Role::Prefill) {
            return Vec::new();
        }
        let now = self.clock.now();
        let asked = |endpoint: &Arc<Endpoint>| order.iter().any(|known| known.id == endpoint.id);
        let fits =
            |endpoint: &&Arc<Endpoint>| endpoint.usable(now) && self.stands_in(endpoint) && !asked(endpoint);
        let mut fitting: Vec<_> = all.iter().filter(fits).cloned().collect();
        fitting.sort_by_key(|endpoint| endpoint.load.prefill_tokens());
        fitting
    }

    /// Whether an endpoint that prefills for others may answer clients while nobody else can. SGLang's engines do
    /// not: one that was started to prefill does nothing but that.
    fn stands_in(&self, endpoint: &Endpoint) -> bool {
        let engine = self.pool.engine.or(endpoint.report().engine);
        let dialect = self.pool.dialect.or_else(|| engine.and_then(Dialect::usual));
        endpoint.role == Role::Prefill && dialect != Some(Dialect::Sglang)
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

    /// Puts those behind all others that are ejected or busy, and of those that come back each but for its share of the
    /// requests. They are tried last, because an attempt is better than none. True when there are any.
    pub(super) fn trusted_first(&self, order: &mut Order, request: &str) -> bool {
        let (now, slow_start) = (self.clock.now(), self.pool.ejection.slow_start);
        let trusted = |endpoint: &Endpoint| {
            let share = endpoint.circuit.share(now, slow_start);
            endpoint.circuit.admits(now) && (share >= 1.0 || lot(request, endpoint) < share)
        };
        if order.iter().all(|endpoint| trusted(endpoint)) {
            return false;
        }
        order.put_first(trusted);
        true
    }

    /// The endpoints that are out of use or get less than others, with why, when there are any.
    #[must_use]
    pub fn out_of_use(&self, now: Nanos) -> Vec<(Arc<Endpoint>, OutOfUse)> {
        let slow_start = self.pool.ejection.slow_start;
        let endpoints = self.pool.endpoints();
        let why = endpoints.iter().map(|endpoint| (endpoint, endpoint.out_of_use(now, slow_start)));
        why.filter_map(|(endpoint, why)| Some((Arc::clone(endpoint), why?))).collect()
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

    /// The endpoints that can be used, with no request in view: what saturation is about.
    #[must_use]
    pub fn standing(self: &Arc<Self>, chain: &Chain) -> Arc<Candidates> {
        let now = self.clock.now();
        let mut endpoints = self.those(|endpoint| endpoint.usable(now));
        if !endpoints.iter().any(|endpoint| endpoint.role.decodes()) {
            endpoints = self.those(|endpoint| endpoint.usable(now) && self.stands_in(endpoint));
        }
        Candidates::new(Arc::clone(self), None, Profile::Decode, endpoints, Arc::clone(&chain.columns), now)
    }

    /// What the host itself knows of how much these endpoints take.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole numbers of requests and tokens, and a cast saturates"
    )]
    pub fn state_of(&self, standing: &Candidates) -> State {
        let mut state = State { answering: 0, room: 0, kv_tokens: Some(0) };
        let any = standing.endpoints().iter().any(|endpoint| endpoint.role.decodes());
        let answers = |endpoint: &&Arc<Endpoint>| endpoint.role.decodes() || !any;
        for endpoint in standing.endpoints().iter().filter(answers) {
            let limit = endpoint.limit.requests() as u64;
            let free = limit.saturating_sub(endpoint.load.requests());
            let tokens = endpoint.engine.kv_tokens();
            state.answering += 1;
            state.room += usize::try_from(free).unwrap_or(usize::MAX);
            state.kv_tokens =
                state.kv_tokens.filter(|_| tokens > 0.0).map(|sum| sum.saturating_add(tokens as u64));
        }
        state
    }

    /// Takes the endpoint for a request: what it will have to prefill counts at once.
    pub fn reserve(&self, request: &Request, endpoint: &Arc<Endpoint>) -> Reservation {
        holding(request, endpoint, self.cached_tokens(request, endpoint))
    }

    /// The same for the first of an order, of which those that ordered it may have asked already what it holds.
    pub(super) fn reserve_first(&self, request: &Request, order: &Order) -> Option<Reservation> {
        let first = order.first()?;
        let held = order.held_by_first().unwrap_or_else(|| self.cached_tokens(request, first));
        Some(holding(request, first, held))
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

fn holding(request: &Request, endpoint: &Arc<Endpoint>, held: u32) -> Reservation {
    endpoint.reserve(request.prompt_tokens.saturating_sub(held), request.prompt_tokens)
}

/// A number in 0..1 that is the same whenever this request and this endpoint meet.
#[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
fn lot(request: &str, endpoint: &Endpoint) -> f64 {
    let lot = xxhash_rust::xxh64::xxh64(request.as_bytes(), endpoint.key.0);
    (lot >> 11) as f64 / (1_u64 << 53) as f64
}
