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

use super::bindings::sluicegate::policy::log::{Host as _, Level};
use super::budget::Deadline;
use super::case::Recorder;
use super::instance::Population;
use super::kv::Store;
use super::quota::Quota;
use super::series::Series;
use super::wasi::Output;
use crate::clock::{Clock, MILLI, Nanos};
use crate::policy::{ColumnId, EndpointView, Event, Flows, Registry, Request};

pub(super) use limits::{Needs, bound};
use limits::{Refused, Used};

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
    pub(super) population: Arc<Population>,
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

/// Where a guest that has a WASI may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Out,
    Err,
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
    refused: Option<Refused>,
    stdout: Output,
    stderr: Output,
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
            refused: None,
            stdout: Output::default(),
            stderr: Output::default(),
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
        self.refused = None;
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

    /// What the guest asked for during this call and was not given.
    pub(super) fn memory_refused(&self) -> Option<Refused> {
        self.refused
    }

    /// Time as the guest sees it: that of the call's beginning.
    pub(super) fn now(&self) -> Nanos {
        self.now
    }

    /// Bytes of the instance's memories together.
    pub(super) fn memory_bytes(&self) -> usize {
        self.used.bytes
    }

    fn now_ms(&self) -> u64 {
        self.now / MILLI
    }

    /// The guest wrote to its standard output or error: whole lines go to the log, under its bounds.
    pub(super) fn wrote(&mut self, to: Stream, bytes: &[u8]) {
        let (output, level) = match to {
            Stream::Out => (&mut self.stdout, Level::Info),
            Stream::Err => (&mut self.stderr, Level::Warn),
        };
        for line in output.write(bytes) {
            self.write(level, line);
        }
    }
}
