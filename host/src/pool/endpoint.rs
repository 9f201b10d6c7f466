//! One model server.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use arc_swap::{ArcSwap, Guard};
use http::HeaderValue;

use super::limit::Seen;
use super::{Circuit, Health, Latency, Limit, Load, Numbers, Passage, Report, Status};
use crate::clock::Nanos;
use crate::types::{EndpointId, EndpointKey, EventSource, Role, Url};

/// Handles are given out once in the life of the process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// What is configured of an endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointSpec {
    /// Where it listens.
    pub url: Url,
    /// What it may do.
    pub role: Role,
    /// Its share against the others.
    pub weight: f32,
    /// For policies, under `label:KEY`.
    pub labels: Vec<(Box<str>, Box<str>)>,
    /// Where its engine reports what it caches, when that is configured.
    pub kv_events: Option<EventSource>,
    /// Where its engine introduces prefill and decode to each other, when it is not the usual port.
    pub bootstrap_port: Option<u16>,
    /// The `authorization` that it is shown, which takes the place of the caller's.
    pub authorization: Option<HeaderValue>,
}

impl EndpointSpec {
    /// An endpoint that does everything, with weight 1 and no labels.
    #[must_use]
    pub fn new(url: Url) -> Self {
        Self {
            url,
            role: Role::Both,
            weight: 1.0,
            labels: Vec::new(),
            kv_events: None,
            bootstrap_port: None,
            authorization: None,
        }
    }
}

/// A model server; its changing part is reached as if it were its own ([`Live`]).
#[derive(Debug)]
pub struct Endpoint {
    /// Handle in this process.
    pub id: EndpointId,
    /// The same in every replica.
    pub key: EndpointKey,
    /// `HOST:PORT`.
    pub name: Box<str>,
    /// Where it listens.
    pub url: Url,
    /// What it may do.
    pub role: Role,
    /// Its share against the others.
    pub weight: f32,
    /// For policies, under `label:KEY`.
    pub labels: Vec<(Box<str>, Box<str>)>,
    /// Where its engine reports what it caches, when that is configured.
    pub kv_events: Option<EventSource>,
    /// Where its engine introduces prefill and decode to each other, when it is not the usual port.
    pub bootstrap_port: Option<u16>,
    /// The `authorization` that it is shown, which takes the place of the caller's.
    pub authorization: Option<HeaderValue>,
    live: Arc<Live>,
}

/// What changes while an endpoint is there. It survives a change of the endpoint's configuration.
#[derive(Debug, Default)]
pub struct Live {
    /// What we sent there.
    pub load: Load,
    /// What the engine says, in numbers.
    pub engine: Numbers,
    /// How fast it has been.
    pub latency: Latency,
    /// How many requests it serves well at once.
    pub limit: Limit,
    /// Whether it can be reached.
    pub health: Health,
    /// Whether it is trusted with requests.
    pub circuit: Circuit,
    draining: AtomicBool,
    report: ArcSwap<Report>,
}

impl Deref for Endpoint {
    type Target = Live;

    fn deref(&self) -> &Live {
        &self.live
    }
}

impl Endpoint {
    /// A new endpoint with a handle of its own.
    #[must_use]
    pub fn new(spec: EndpointSpec) -> Self {
        let id = EndpointId(NEXT.fetch_add(1, Ordering::Relaxed));
        Self::with(id, Arc::default(), spec)
    }

    /// The same endpoint under another configuration; load, health and the rest stay.
    #[must_use]
    pub fn changed(&self, spec: EndpointSpec) -> Self {
        Self::with(self.id, Arc::clone(&self.live), spec)
    }

    fn with(id: EndpointId, live: Arc<Live>, spec: EndpointSpec) -> Self {
        let EndpointSpec { url, role, weight, labels, kv_events, bootstrap_port, authorization } = spec;
        let name = url.name().into_boxed_str();
        Self {
            id,
            key: EndpointKey::of(&name),
            name,
            url,
            role,
            weight,
            labels,
            kv_events,
            bootstrap_port,
            authorization,
            live,
        }
    }

    /// Whether this is what `spec` describes.
    #[must_use]
    pub fn is(&self, spec: &EndpointSpec) -> bool {
        self.url == spec.url
            && self.role == spec.role
            && self.weight.to_bits() == spec.weight.to_bits()
            && self.labels == spec.labels
            && self.kv_events == spec.kv_events
            && self.bootstrap_port == spec.bootstrap_port
            && self.authorization == spec.authorization
    }

    /// The label of this key.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(known, _)| &**known == key).map(|(_, value)| &**value)
    }
}

/// Why an endpoint gets no requests, or not all that it could.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutOfUse {
    /// It takes nothing new.
    Draining,
    /// It cannot be reached.
    Down,
    /// Too many requests failed there.
    Ejected,
    /// It was ejected, and one request at a time tries it.
    HalfOpen,
    /// It said that it is busy.
    Busy,
    /// It came back a short while ago.
    SlowStart,
}

impl OutOfUse {
    /// As it is written in decisions.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Draining => "draining",
            Self::Down => "down",
            Self::Ejected => "ejected",
            Self::HalfOpen => "half_open",
            Self::Busy => "busy",
            Self::SlowStart => "slow_start",
        }
    }
}

impl Live {
    /// Whether new requests may go there: neither down nor draining.
    #[must_use]
    pub fn usable(&self, now: Nanos) -> bool {
        !self.draining() && self.health.usable(now)
    }

    /// Why it is out of use, wholly or in part; none when it is in use like any other.
    #[must_use]
    pub fn out_of_use(&self, now: Nanos, slow_start: Nanos) -> Option<OutOfUse> {
        if self.draining() {
            return Some(OutOfUse::Draining);
        }
        if !self.health.usable(now) {
            return Some(OutOfUse::Down);
        }
        match self.circuit.passage(now) {
            Passage::Open(_) => Some(OutOfUse::Ejected),
            Passage::HalfOpen => Some(OutOfUse::HalfOpen),
            Passage::Closed if self.circuit.paused(now) => Some(OutOfUse::Busy),
            Passage::Closed => (self.circuit.share(now, slow_start) < 1.0).then_some(OutOfUse::SlowStart),
        }
    }

    /// A probe was answered. True when that is news.
    pub fn probe_ok(&self, now: Nanos) -> bool {
        let was_down = self.is_down();
        let news = self.health.probe_ok();
        if news {
            self.circuit.came_up(now, was_down);
        }
        news
    }

    /// A request was answered, whatever the answer: it can be reached.
    pub fn reached(&self, now: Nanos) {
        let was_down = self.is_down();
        if self.health.reached() {
            self.circuit.came_up(now, was_down);
        }
    }

    fn is_down(&self) -> bool {
        matches!(self.health.status(), Status::Down { .. })
    }

    /// Whether it finishes what it has and takes nothing new.
    #[must_use]
    pub fn draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Starts or ends draining.
    pub fn drain(&self, draining: bool) {
        self.draining.store(draining, Ordering::Relaxed);
    }

    /// The latest report.
    #[must_use]
    pub fn report(&self) -> Guard<Arc<Report>> {
        self.report.load()
    }

    /// Whether it lists this model; true while it has not said what it serves.
    #[must_use]
    pub fn lists(&self, model: &str) -> bool {
        let report = self.report();
        report.models.is_empty() || report.models.iter().any(|known| &**known == model)
    }

    /// Learns how many requests it serves well at once. Those who wait are let in up to `lets_in_to` of that.
    pub(super) fn learn_limit(&self, now: Nanos, lets_in_to: f32) {
        self.limit.learn(&Seen {
            at: now,
            requests: self.load.requests(),
            lets_in_to,
            waiting: self.engine.waiting(),
            preemptions: self.engine.preemptions(),
            output_tokens: self.load.output_tokens(),
        });
    }

    /// Makes this report the latest one. [`super::Pool::publish`] also keeps the pool's models right.
    pub fn publish(&self, report: Report) {
        self.engine.publish(&report);
        self.report.store(Arc::new(report));
    }
}
