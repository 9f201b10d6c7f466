//! Instances of one loaded plugin: a store each, warm, reused until one fails.
//!
//! A trap spoils its whole store, so a failed instance is dropped and the next call makes another
//! (some 20 µs). There are never more than calls at once, which the number of threads bounds.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use wasmtime::Store;

use super::bindings::exports::sluicegate::policy as stage;
use super::case::Question;
use super::component::Linked;
use super::host::{self, Guest, Needs, Shared, Subject};
use crate::clock::{MILLI, Nanos};
use crate::policy::{CallError, ColumnId, Reason};

/// CPU time for instantiation and `configure` together. Python guests take some tens of milliseconds.
const SETUP_LIMIT: Nanos = 250 * MILLI;

/// The exports of an instance.
pub(super) struct Exports {
    pub(super) plugin: stage::plugin::Guest,
    pub(super) admission: Option<stage::admission::Guest>,
    pub(super) filter: Option<stage::filter::Guest>,
    pub(super) scorer: Option<stage::scorer::Guest>,
    pub(super) picker: Option<stage::picker::Guest>,
    pub(super) disaggregation: Option<stage::disaggregation::Guest>,
    pub(super) flow_control: Option<stage::flow_control::Guest>,
    pub(super) observer: Option<stage::observer::Guest>,
    pub(super) handoff: Option<stage::handoff::Guest>,
}

/// An instance that can be asked.
pub(super) struct Warm {
    pub(super) store: Store<Guest>,
    pub(super) exports: Exports,
}

/// What a call cost, with its answer.
pub(super) struct Timed<R> {
    pub(super) answer: Result<R, CallError>,
    pub(super) used: Nanos,
}

impl Warm {
    /// One call about `subject` with `limit` of CPU time.
    pub(super) fn call<R>(
        &mut self,
        subject: Subject,
        limit: Nanos,
        call: impl FnOnce(&mut Store<Guest>, &Exports) -> wasmtime::Result<R>,
    ) -> Timed<R> {
        self.store.data_mut().begin(subject, limit);
        self.store.set_epoch_deadline(1);
        let start = Instant::now();
        let answer = call(&mut self.store, &self.exports);
        let wall = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let guest = self.store.data_mut();
        // Without a tick in between the call was short, or the thread was off the processor.
        let used = guest.deadline.used().unwrap_or(MILLI).min(wall);
        let answer = answer.map_err(|error| classify(guest, &error));
        guest.end();
        Timed { answer, used }
    }
}

/// Why a call failed, from what the store saw of it.
fn classify(guest: &Guest, error: &wasmtime::Error) -> CallError {
    let reason = if guest.deadline.expired() {
        Reason::Deadline
    } else if guest.memory_refused() {
        Reason::Memory
    } else {
        Reason::Trap
    };
    CallError::new(reason, error.root_cause().to_string())
}

/// How a plugin is instantiated, and the instances that wait to be asked.
pub(super) struct Instances {
    linked: Arc<Linked>,
    shared: Arc<Shared>,
    config: Box<str>,
    idle: Mutex<Vec<Warm>>,
}

impl Instances {
    pub(super) fn new(linked: Arc<Linked>, shared: Arc<Shared>, config: Box<str>) -> Self {
        Self { linked, shared, config, idle: Mutex::new(Vec::new()) }
    }

    pub(super) fn stages(&self) -> &[&'static str] {
        &self.linked.stages
    }

    /// What an instance would need beyond its caps.
    pub(super) fn needs(&self) -> Option<Needs> {
        Needs::beyond(self.linked.pre.component(), self.shared.memory_bytes)
    }

    /// The columns that the guest resolved.
    pub(super) fn columns(&self) -> Vec<ColumnId> {
        self.shared.resolved.lock().iter().copied().collect()
    }

    /// Writes down a call that failed.
    pub(super) fn failed(&self, question: Question<'_>, error: &CallError, backtrace: Vec<Box<str>>) {
        let Shared { recorder, clock, registry, .. } = &*self.shared;
        recorder.failed(question, &**clock, (&self.columns(), registry), error, backtrace);
    }

    /// Takes a warm instance, or makes one.
    pub(super) fn take(&self) -> Result<Warm, CallError> {
        let warm = self.idle.lock().pop();
        match warm {
            Some(warm) => Ok(warm),
            None => self.make(),
        }
    }

    /// Gives an instance back after a call that went well.
    pub(super) fn give_back(&self, warm: Warm) {
        self.idle.lock().push(warm);
    }

    /// Bytes of the memories of a warm instance.
    pub(super) fn memory_bytes(&self) -> Result<usize, CallError> {
        let warm = self.take()?;
        let bytes = warm.store.data().memory_bytes();
        self.give_back(warm);
        Ok(bytes)
    }

    /// A fresh instance, configured.
    pub(super) fn make(&self) -> Result<Warm, CallError> {
        let mut store = Store::new(self.linked.pre.engine(), Guest::new(Arc::clone(&self.shared)));
        host::bound(&mut store);
        store.epoch_deadline_callback(|mut context| {
            if context.data_mut().deadline.tick() {
                Err(wasmtime::Error::msg("the call used up its deadline"))
            } else {
                Ok(wasmtime::UpdateDeadline::Continue(1))
            }
        });
        store.data_mut().begin_configure(SETUP_LIMIT);
        store.set_epoch_deadline(1);
        match self.set_up(&mut store) {
            Ok(exports) => {
                store.data_mut().end();
                Ok(Warm { store, exports })
            }
            Err(error) => {
                let cause = classify(store.data(), &error);
                Err(CallError::new(Reason::NoInstance, format!("{error:#} ({})", cause.reason.as_str())))
            }
        }
    }

    fn set_up(&self, store: &mut Store<Guest>) -> wasmtime::Result<Exports> {
        let indices = &self.linked.indices;
        let instance = self.linked.pre.instantiate(&mut *store)?;
        macro_rules! load {
            ($field:ident) => {
                indices.$field.as_ref().map(|found| found.load(&mut *store, &instance)).transpose()?
            };
        }
        let exports = Exports {
            plugin: indices.plugin.load(&mut *store, &instance)?,
            admission: load!(admission),
            filter: load!(filter),
            scorer: load!(scorer),
            picker: load!(picker),
            disaggregation: load!(disaggregation),
            flow_control: load!(flow_control),
            observer: load!(observer),
            handoff: load!(handoff),
        };
        match exports.plugin.call_configure(&mut *store, &self.config)? {
            Ok(()) => Ok(exports),
            Err(message) => Err(wasmtime::Error::msg(format!("it refuses its configuration: {message}"))),
        }
    }
}
