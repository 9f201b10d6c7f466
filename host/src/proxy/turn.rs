//! A request's way through the queue to a choice of endpoints.

use std::sync::Arc;
use std::time::Duration;

use xxhash_rust::xxh3::Xxh3;

use super::infer::seconds;
use super::outcome::Failure;
use super::{Proxy, Service};
use crate::clock::{MILLI, Nanos};
use crate::flow::{Claim, Entered, Outcome, Pass, Place, SessionKey, Standing};
use crate::policy::{Budget, Placement, Request, Serving};
use crate::route::{self, Candidates, Choice, Refusal, Trace};
use crate::types::Profile;

/// What a waiting request keeps beside its body.
const BESIDE_BODY: usize = 1_024;
/// A pool has endpoints that can be used and none of them serves the model: when it is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How a request has waited.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Waited {
    /// Where it stood when it came.
    pub(super) standing: Standing,
    /// How long it then took.
    pub(super) took: Nanos,
}

/// What a request has come to when it has left the queue and its endpoints are chosen.
pub(super) struct Dispatched {
    pub(super) pass: Pass,
    pub(super) choice: Choice,
    /// None when it went at once.
    pub(super) waited: Option<Waited>,
}

/// A placed request.
pub(super) struct Turn<'a> {
    pub(super) proxy: &'a Proxy,
    pub(super) service: &'a Service,
    pub(super) request: &'a Arc<Request>,
    pub(super) placement: &'a Placement,
    pub(super) budget: &'a Budget,
}

/// Whether there is somebody to go to.
#[derive(Clone, Copy, PartialEq)]
enum Pool {
    Open,
    Empty,
}

impl Turn<'_> {
    /// Waits if it has to and chooses endpoints: among `candidates`, if it goes at once.
    pub(super) async fn first(
        &self,
        generation: u64,
        serving: Serving,
        candidates: Arc<Candidates>,
        trace: &mut Trace,
    ) -> Result<Dispatched, Failure> {
        let pool = if candidates.endpoints().is_empty() { Pool::Empty } else { Pool::Open };
        let (pass, waited) = self.pass(pool).await?;
        let chosen = match waited {
            None => self.choose(pass, None, generation, &serving, &candidates, trace),
            Some(_) => self.choose_now(pass, waited, trace),
        };
        match chosen {
            // Whoever was there when it came, or when it was let go, is gone by now.
            Err(Failure::Refused(Refusal::NoEndpoints)) => self.when_somebody_is_back(trace).await,
            chosen => chosen,
        }
    }

    /// Waits until the pool has an endpoint again, and chooses.
    pub(super) async fn when_somebody_is_back(&self, trace: &mut Trace) -> Result<Dispatched, Failure> {
        loop {
            let (pass, waited) = self.pass(Pool::Empty).await?;
            match self.choose_now(pass, waited, trace) {
                Err(Failure::Refused(Refusal::NoEndpoints)) => tokio::time::sleep(LOOK_AGAIN).await,
                chosen => return chosen,
            }
        }
    }

    /// Goes through the gate.
    async fn pass(&self, pool: Pool) -> Result<(Pass, Option<Waited>), Failure> {
        let (service, request) = (self.service, self.request);
        let gate = service.controller.gate();
        let came = self.proxy.clock.now();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let place = Place {
            placement: self.placement,
            bytes: request.body.len() + BESIDE_BODY,
            tokens: request.prompt_tokens,
            claim: self.claim(),
            deadline: request.arrived.saturating_add(self.patience(pool)),
            open: pool == Pool::Open,
        };
        let entered = gate.enter(place, came, || {
            Box::new(move |outcome| {
                let _ = sender.send(outcome);
            })
        });
        let waiting = match entered {
            Entered::Go(pass) => return Ok((pass, None)),
            Entered::Full(full) => {
                return Err(Failure::QueueFull { full, standing: gate.standing(self.placement, came) });
            }
            Entered::Waits(waiting) => waiting,
        };
        let outcome = receiver.await.unwrap_or(Outcome::ShuttingDown);
        let pass = self.passed(outcome)?;
        let took = self.proxy.clock.now().saturating_sub(came);
        let waited = Waited { standing: waiting.standing(), took };
        if let Some(estimate) = waited.standing.estimate {
            service.metrics.estimated(estimate.as_secs_f64(), seconds(took));
        }
        Ok((pass, Some(waited)))
    }

    fn passed(&self, outcome: Outcome) -> Result<Pass, Failure> {
        let now = self.proxy.clock.now();
        let standing = || self.service.controller.gate().standing(self.placement, now);
        match outcome {
            Outcome::Go(pass) => Ok(pass),
            Outcome::Displaced => Err(Failure::Displaced { standing: standing() }),
            Outcome::ShuttingDown => Err(Failure::ShuttingDown),
            Outcome::Expired => {
                let endpoints = self.service.lane.pool.endpoints();
                if endpoints.iter().any(|endpoint| endpoint.usable(now) && endpoint.role.decodes()) {
                    let waited_ms = now.saturating_sub(self.request.arrived) / MILLI;
                    Err(Failure::Expired { waited_ms, standing: standing() })
                } else {
                    let pool = self.service.config.name.clone();
                    Err(Failure::NobodyUp { pool, why: why_down(self.service) })
                }
            }
        }
    }

    fn choose_now(
        &self,
        pass: Pass,
        waited: Option<Waited>,
        trace: &mut Trace,
    ) -> Result<Dispatched, Failure> {
        let lane = &self.service.lane;
        let set = self.proxy.catalog.current();
        let serving = set.serving(lane.facts(), self.request);
        trace.belongs_to(serving.arm);
        let candidates = lane.candidates(&serving, self.request, Profile::Decode);
        self.choose(pass, waited, set.generation, &serving, &candidates, trace)
    }

    fn choose(
        &self,
        mut pass: Pass,
        waited: Option<Waited>,
        generation: u64,
        serving: &Serving,
        candidates: &Arc<Candidates>,
        trace: &mut Trace,
    ) -> Result<Dispatched, Failure> {
        let queued = self.proxy.clock.now().saturating_sub(self.request.arrived);
        trace.dispatched(generation, seconds(queued) * 1_000.0);
        let lane = &self.service.lane;
        if candidates.endpoints().len() < lane.pool.endpoints().len() {
            trace.out_of_use(lane.out_of_use(self.proxy.clock.now()));
        }
        let choice =
            route::choose(&self.service.lane, serving, self.request, candidates, self.budget, trace)?;
        pass.settled();
        self.service.metrics.queued(seconds(queued), self.placement.band);
        Ok(Dispatched { pass, choice, waited })
    }

    /// How long the request may wait: what its client and its placement say, within what the pool allows.
    fn patience(&self, pool: Pool) -> Nanos {
        let queue = &self.service.config.queue;
        let allowed = match pool {
            Pool::Open => queue.band(self.placement.band).and_then(|band| band.ttl).unwrap_or(queue.ttl),
            Pool::Empty => queue.empty_ttl,
        };
        let allowed = self.service.config.total_timeout.map_or(allowed, |whole| whole.min(allowed));
        let allowed = u64::try_from(allowed.as_millis()).unwrap_or(u64::MAX);
        let wished = [self.request.ttl_ms, self.placement.ttl_ms];
        let wished = wished.into_iter().flatten().map(u64::from).min().unwrap_or(u64::MAX);
        allowed.min(wished).saturating_mul(MILLI)
    }

    /// What the policy claims of the caches for the request's session.
    fn claim(&self) -> Option<Claim> {
        let tokens = self.placement.kv_tokens.filter(|tokens| *tokens > 0)?;
        Some(Claim { session: session_key(self.request)?, tokens })
    }
}

/// A session is its tenant's own.
fn session_key(request: &Request) -> Option<SessionKey> {
    let mut hasher = Xxh3::new();
    hasher.update(request.tenant.as_deref().unwrap_or_default().as_bytes());
    hasher.update(&[0]);
    hasher.update(request.session.as_deref()?.as_bytes());
    Some(hasher.digest128())
}

/// The endpoints of a pool with what is wrong with each, for the error that a client gets.
fn why_down(service: &Service) -> String {
    let endpoints = service.lane.pool.endpoints();
    if endpoints.is_empty() {
        return "it has no endpoints".into();
    }
    let why = endpoints.iter().map(|endpoint| {
        let error = endpoint.health.last_error();
        let state = match &*error {
            _ if endpoint.draining() => "draining",
            "" => "not reached yet",
            error => error,
        };
        format!("{} ({state})", endpoint.name)
    });
    why.collect::<Vec<_>>().join(", ")
}
