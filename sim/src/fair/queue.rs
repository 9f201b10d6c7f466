//! The router's queue in virtual time.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use sluicegate::clock::{Clock as _, MILLI, Nanos, SECOND};
use sluicegate::flow::{
    Amount, Claim, Controls, Entered, Gate, Limits, Outcome as Told, Pass, Place, Room, Waiting, dispatch,
};
use sluicegate::policy::{Budget, EndpointView, Event, EventKind, Own, Placement, Plugin, Request};
use sluicegate::route::{Trace, place};
use sluicegate::types::Profile;

use crate::replay::router::{Router, Sent};

/// Requests that may wait: what the router allows when nothing else is configured.
const REQUESTS: usize = 10_000;

/// What became of a request at the gate.
pub(super) enum Fate {
    /// It goes.
    Goes(Passed),
    /// It is refused, and may come again after so many seconds.
    Refused { retry_after_s: Option<f64> },
}

/// A request that has left the queue.
pub(super) struct Passed {
    pub(super) request: Arc<Request>,
    pub(super) pass: Pass,
    /// How long it was to wait, and did, in seconds.
    pub(super) estimate: Option<(f64, f64)>,
}

struct Waits {
    request: Arc<Request>,
    placement: Placement,
    came: Nanos,
    waiting: Waiting,
}

/// The gate, the policy's own instance, and who waits.
pub(super) struct Queue {
    gate: Arc<Gate>,
    own: Option<(Arc<Plugin>, Box<dyn Own>)>,
    unselected: u32,
    /// How long a request may wait.
    ttl: Nanos,
    waits: HashMap<u64, Waits>,
    told: Arc<Mutex<Vec<(u64, Told)>>>,
    events: Vec<Event>,
}

impl Queue {
    pub(super) fn new(router: &Router, ttl: Nanos) -> Self {
        let chain = router.catalog.current().chain(sluicegate::config::DEFAULT);
        let own = chain.flow_own.as_ref();
        let own = own.and_then(|slot| Some((Arc::clone(&slot.plugin), slot.policy.own().ok()?)));
        let pool = Amount { requests: REQUESTS, bytes: 1 << 30, tokens: u64::MAX };
        Self {
            gate: Gate::new(Limits::of(pool), Box::new(|| ())),
            own,
            unselected: 0,
            ttl,
            waits: HashMap::new(),
            told: Arc::default(),
            events: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }

    /// Places a request; what becomes of it if that is known at once.
    pub(super) fn enter(&mut self, router: &Router, number: u64, request: Request) -> Option<Fate> {
        let request = Arc::new(request);
        let now = router.clock.now();
        let serving = router.catalog.current().serving(router.lane.facts(), &request);
        let candidates = router.lane.candidates(&serving, &request, Profile::Decode);
        let mut trace = Trace::new(Arc::clone(&request), "replay", sluicegate::config::DEFAULT, now);
        let budget = Budget::default();
        let placed = place(&router.lane, &serving.chain, &request, &candidates, &budget, &mut trace);
        let placement = placed.unwrap_or_else(|_| Placement::of(request.prompt_tokens));
        let session =
            request.session.as_deref().map(|session| xxhash_rust::xxh3::xxh3_128(session.as_bytes()));
        let claim = session.zip(placement.kv_tokens).map(|(session, tokens)| Claim { session, tokens });
        let told = Arc::clone(&self.told);
        let at_gate = Place {
            placement: &placement,
            bytes: request.body.len(),
            tokens: request.prompt_tokens,
            claim,
            deadline: now + self.ttl,
            open: true,
        };
        let entered =
            self.gate.enter(at_gate, now, || Box::new(move |outcome| told.lock().push((number, outcome))));
        match entered {
            Entered::Go(pass) => Some(Fate::Goes(Passed { request, pass, estimate: None })),
            Entered::Full(_) => Some(self.refused(&placement, now)),
            Entered::Waits(waiting) => {
                self.waits.insert(number, Waits { request, placement, came: now, waiting });
                None
            }
        }
    }

    fn refused(&self, placement: &Placement, now: Nanos) -> Fate {
        let estimate = self.gate.standing(placement, now).estimate;
        Fate::Refused { retry_after_s: estimate.map(|estimate| estimate.as_secs_f64()) }
    }

    /// Lets go whom the policy names, and tells whose wait is over. Whoever goes is to be sent before the next round, so
    /// that it shows in the loads.
    pub(super) fn round(&mut self, router: &Router) -> Vec<(u64, Fate)> {
        let now = router.clock.now();
        self.observe();
        self.gate.expire(now);
        self.dispatch(router);
        let told = std::mem::take(&mut *self.told.lock());
        let mut fates = Vec::with_capacity(told.len());
        for (number, told) in told {
            if let Some(waits) = self.waits.remove(&number) {
                fates.push((number, self.fate(told, waits, now)));
            }
        }
        fates
    }

    fn fate(&self, told: Told, waits: Waits, now: Nanos) -> Fate {
        let Waits { request, placement, came, waiting } = waits;
        match told {
            Told::Go(pass) => {
                let waited = (now - came) as f64 / SECOND as f64;
                let estimate = waiting.standing().estimate.map(|estimate| (estimate.as_secs_f64(), waited));
                Fate::Goes(Passed { request, pass, estimate })
            }
            Told::Expired | Told::Displaced | Told::ShuttingDown => self.refused(&placement, now),
        }
    }

    fn dispatch(&mut self, router: &Router) {
        let chain = router.catalog.current().chain(sluicegate::config::DEFAULT);
        let standing = router.lane.standing(&chain);
        let state = router.lane.state_of(&standing);
        self.gate.set_capacity(state.kv_tokens);
        let endpoints: Arc<dyn EndpointView> = standing;
        let room = Room { endpoints: &endpoints, answering: state.answering, requests: state.room };
        let controls = self.own.as_mut().map(|(plugin, own)| Controls {
            own: &mut **own,
            plugin,
            unselected: &mut self.unselected,
        });
        dispatch(&self.gate, controls, &room, &*router.clock);
        router.lane.pool.set_lets_in_to(self.gate.ceiling());
    }

    /// Notes what has happened to a request, for the policy.
    pub(super) fn event(
        &mut self,
        kind: EventKind,
        sent: &Sent,
        pass: &Pass,
        now: Nanos,
        output: u32,
        cached: Option<u32>,
    ) {
        self.events.push(Event {
            kind,
            request: Arc::clone(&sent.request.id),
            flow: Some(pass.flow()),
            band: Some(pass.band()),
            endpoint: Some(sent.endpoint.id),
            at_ms: now / MILLI,
            prompt_tokens: sent.request.prompt_tokens,
            cached_tokens: cached,
            output_tokens: output,
        });
    }

    fn observe(&mut self) {
        if self.events.is_empty() {
            return;
        }
        let events: Arc<[Event]> = std::mem::take(&mut self.events).into();
        if let Some((_, own)) = &mut self.own {
            // A policy that fails is one of the things that are judged.
            let _ = own.observe(&events);
        }
    }
}
