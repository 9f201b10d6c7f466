//! One model server.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use arc_swap::{ArcSwap, Guard};

use super::{Health, Latency, Load, Numbers, Report};
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
}

impl EndpointSpec {
    /// An endpoint that does everything, with weight 1 and no labels.
    #[must_use]
    pub fn new(url: Url) -> Self {
        Self { url, role: Role::Both, weight: 1.0, labels: Vec::new(), kv_events: None }
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
    /// Whether it can be used.
    pub health: Health,
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
        let EndpointSpec { url, role, weight, labels, kv_events } = spec;
        let name = url.name().into_boxed_str();
        Self { id, key: EndpointKey::of(&name), name, url, role, weight, labels, kv_events, live }
    }

    /// Whether this is what `spec` describes.
    #[must_use]
    pub fn is(&self, spec: &EndpointSpec) -> bool {
        self.url == spec.url
            && self.role == spec.role
            && self.weight.to_bits() == spec.weight.to_bits()
            && self.labels == spec.labels
            && self.kv_events == spec.kv_events
    }

    /// The label of this key.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(known, _)| &**known == key).map(|(_, value)| &**value)
    }
}

impl Live {
    /// Whether new requests may go there: neither down nor draining.
    #[must_use]
    pub fn usable(&self, now: Nanos) -> bool {
        !self.draining() && self.health.usable(now)
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

    /// Makes this report the latest one. [`super::Pool::publish`] also keeps the pool's models right.
    pub fn publish(&self, report: Report) {
        self.engine.publish(&report);
        self.report.store(Arc::new(report));
    }
}
