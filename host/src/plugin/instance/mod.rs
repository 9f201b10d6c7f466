//! Instances of one loaded plugin: a store each, reused from call to call.
//!
//! [`pool`] keeps them, [`keeper`] makes and drops them off the path of requests, [`population`] counts them.
//! This file makes one and calls it. A trap spoils the whole store, so an instance that failed is never asked
//! again.

mod keeper;
mod pool;
mod population;
#[cfg(test)]
mod tests;

pub(super) use pool::Instances;
pub use population::Population;

use std::sync::Arc;
use std::time::Instant;

use wasmtime::Store;

use super::bindings::exports::sluicegate::policy as stage;
use super::component::Linked;
use super::host::{self, Guest, Shared, Subject};
use crate::clock::{MILLI, Nanos, nanos};
use crate::policy::{CallError, Reason};
use population::Alive;
pub(super) use population::Generation;

/// CPU time for instantiation and `configure` together where nobody waits for it. Guests that bring a language's
/// runtime take milliseconds, some tens with large libraries; one that takes this long does so at every
/// replacement.
pub(super) const SETUP_LIMIT: Nanos = 1_000 * MILLI;

/// Calls after which an instance is replaced. Guests with an allocator that fragments or a cache without bound
/// grow slowly; at this count a new instance costs even a slow guest below a microsecond a call.
const MAX_CALLS: u32 = 100_000;

/// Age in use after which an instance is replaced, so that the memory of one large call is not kept for good.
const MAX_AGE: Nanos = 600_000 * MILLI;

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
    made_at: Nanos,
    calls: u32,
    _alive: Alive,
}

/// What a call cost, with its answer.
pub(super) struct Timed<R> {
    pub(super) answer: Result<R, CallError>,
    pub(super) used: Nanos,
}

impl Warm {
    /// Instantiates and configures, with `limit` of CPU time.
    ///
    /// # Errors
    /// [`Reason::NoInstance`] when it cannot be had; the message says which limit it ran into.
    fn make(linked: &Linked, shared: &Arc<Shared>, config: &str, limit: Nanos) -> Result<Self, CallError> {
        let mut store = Store::new(linked.pre.engine(), Guest::new(Arc::clone(shared)));
        host::bound(&mut store);
        store.epoch_deadline_callback(|mut context| {
            if context.data_mut().deadline.tick() {
                Err(wasmtime::Error::msg("the call used up its deadline"))
            } else {
                Ok(wasmtime::UpdateDeadline::Continue(1))
            }
        });
        store.data_mut().begin_configure(limit);
        store.set_epoch_deadline(1);
        match set_up(linked, config, &mut store) {
            Ok(exports) => {
                store.data_mut().end();
                let made_at = store.data().now();
                let alive = shared.population.instance();
                Ok(Self { store, exports, made_at, calls: 0, _alive: alive })
            }
            Err(error) => {
                let CallError { reason, message } = classify(store.data(), &error);
                let message = match reason {
                    Reason::Deadline => format!(
                        "instantiation and `configure` took {} ms of CPU time, which is all that they may; do less in them",
                        limit / MILLI
                    ),
                    Reason::Memory => message.into(),
                    _ => format!("{error:#}"),
                };
                Err(CallError::new(Reason::NoInstance, format!("{message} ({})", reason.as_str())))
            }
        }
    }

    /// One call about `subject` with `limit` of CPU time.
    pub(super) fn call<R>(
        &mut self,
        subject: Subject,
        limit: Nanos,
        call: impl FnOnce(&mut Store<Guest>, &Exports) -> wasmtime::Result<R>,
    ) -> Timed<R> {
        self.calls = self.calls.saturating_add(1);
        self.store.data_mut().begin(subject, limit);
        self.store.set_epoch_deadline(1);
        let start = Instant::now();
        let answer = call(&mut self.store, &self.exports);
        let used = used(&self.store, start);
        let guest = self.store.data_mut();
        let answer = answer.map_err(|error| classify(guest, &error));
        guest.end();
        Timed { answer, used }
    }

    /// Whether it should be replaced. One that was not asked does not age.
    fn aged(&self) -> bool {
        self.calls >= MAX_CALLS
            || (self.calls > 0 && self.store.data().now().saturating_sub(self.made_at) >= MAX_AGE)
    }
}

/// CPU time since `start`. Without a tick in between the call was short, or the thread was off the processor.
fn used(store: &Store<Guest>, start: Instant) -> Nanos {
    let wall = nanos(start.elapsed());
    store.data().deadline.used().unwrap_or(MILLI).min(wall)
}

/// Why a call failed, from what the store saw of it.
fn classify(guest: &Guest, error: &wasmtime::Error) -> CallError {
    if guest.deadline.expired() {
        CallError::new(Reason::Deadline, "it used up its CPU time")
    } else if let Some(refused) = guest.memory_refused() {
        CallError::new(Reason::Memory, refused.to_string())
    } else {
        CallError::new(Reason::Trap, error.root_cause().to_string())
    }
}

fn set_up(linked: &Linked, config: &str, store: &mut Store<Guest>) -> wasmtime::Result<Exports> {
    let indices = &linked.indices;
    let instance = linked.pre.instantiate(&mut *store)?;
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
    match exports.plugin.call_configure(&mut *store, config)? {
        Ok(()) => Ok(exports),
        Err(message) => Err(wasmtime::Error::msg(format!("it refuses its configuration: {message}"))),
    }
}
