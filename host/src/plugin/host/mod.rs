//! What a guest may ask of the host: the imports of the contract.
//!
//! The state of a store holds at most one call at a time, so a handle needs no table: the guest's
//! borrowed handles all have the representation 0 and stand for the request, candidates, flows or
//! events of the call under way. Outside a call there are none, and every answer is empty.

#![expect(unreachable_pub, reason = "the generated bindings re-export the handles")]

mod limits;
mod services;
mod view;

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use wasmtime::component::Resource;

use super::budget::Deadline;
use super::case::Recorder;
use super::kv::Store;
use super::quota::Quota;
use super::series::Series;
use crate::clock::{Clock, MILLI, Nanos};
use crate::policy::{ColumnId, EndpointView, Event, Flows, Registry, Request};

use limits::Used;
pub(super) use limits::{Needs, bound};

/// Stands for the request of the call under way.
#[derive(Debug)]
pub struct RequestHandle;
/// Stands for the candidates of the call under way.
#[derive(Debug)]
pub struct EndpointsHandle;
/// Stands for the waiting flows of the call under way.
#[derive(Debug)]
pub struct FlowsHandle;
/// Stands for the events of the call under way.
#[derive(Debug)]
pub struct EventsHandle;

/// A borrowed handle of the call under way.
pub(super) fn borrowed<T: 'static>() -> Resource<T> {
    Resource::new_borrow(0)
}

/// What a plugin is granted beyond the columns.
#[derive(Debug, Clone, Default)]
pub(super) struct Grants {
    pub(super) body: bool,
    pub(super) headers: Vec<Box<str>>,
}

/// What all instances of one loaded plugin share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) name: Box<str>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) registry: Arc<Registry>,
    pub(super) store: Arc<Store>,
    pub(super) series: Arc<Series>,
    pub(super) quota: Arc<Quota>,
    pub(super) grants: Grants,
    pub(super) memory_bytes: usize,
    /// Columns that the guest resolved in `configure`.
    pub(super) resolved: Mutex<BTreeSet<ColumnId>>,
    /// Writes down calls that fail.
    pub(super) recorder: Recorder,
}

/// What a call is about.
#[derive(Debug, Default)]
pub(super) struct Subject {
    pub(super) request: Option<Arc<Request>>,
    pub(super) endpoints: Option<Arc<dyn EndpointView>>,
    pub(super) flows: Option<Arc<Flows>>,
    pub(super) events: Option<Arc<[Event]>>,
}

/// What the guest is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Configuring,
    Serving,
}

/// State of one store.
#[derive(Debug)]
pub(super) struct Guest {
    shared: Arc<Shared>,
    pub(super) deadline: Deadline,
    subject: Subject,
    phase: Phase,
    now: Nanos,
    random: u64,
    used: Used,
    memory_refused: bool,
}

impl Guest {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            deadline: Deadline::default(),
            subject: Subject::default(),
            phase: Phase::Serving,
            now: 0,
            random: 0,
            used: Used::default(),
            memory_refused: false,
        }
    }

    /// Begins a call about `subject` with `limit` of CPU time.
    pub(super) fn begin(&mut self, subject: Subject, limit: Nanos) {
        self.now = self.shared.clock.now();
        self.random = match &subject.request {
            Some(request) => xxhash_rust::xxh64::xxh64(request.id.as_bytes(), 0),
            None => self.now,
        };
        self.subject = subject;
        self.memory_refused = false;
        self.deadline.arm(limit);
    }

    /// Begins the call of `configure`.
    pub(super) fn begin_configure(&mut self, limit: Nanos) {
        self.begin(Subject::default(), limit);
        self.phase = Phase::Configuring;
    }

    /// Ends a call: nothing of the request stays with the instance.
    pub(super) fn end(&mut self) {
        self.subject = Subject::default();
        self.phase = Phase::Serving;
    }

    /// Whether the guest asked for more memory than its cap during this call.
    pub(super) fn memory_refused(&self) -> bool {
        self.memory_refused
    }

    /// Bytes of the instance's memories together.
    pub(super) fn memory_bytes(&self) -> usize {
        self.used.bytes
    }

    fn now_ms(&self) -> u64 {
        self.now / MILLI
    }
}
