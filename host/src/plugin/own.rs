//! The one instance of a plugin that hears a pool's events, and so may keep state.
//!
//! After a failed call the instance is made anew and given the state that it saved last, so a trap
//! costs it at most what happened since.

use std::sync::Arc;

use wasmtime::Store;

use super::case::{Function, Question, With, frames};
use super::host::{Guest, Subject, borrowed};
use super::instance::{Exports, Instances, Warm};
use super::policies::not_exported;
use crate::clock::{MILLI, Nanos};
use crate::policy::{CallError, EndpointView, Event, Flows, Own, clean};

/// `observe`, `save` and `restore` are off the path of requests and handle batches. Without optimisation the host takes
/// ten times as long to hand a batch over, of which the guest must not be the one to pay.
const BATCH_LIMIT: Nanos = if cfg!(debug_assertions) { 500 } else { 50 } * MILLI;

/// An own instance of a Wasm plugin.
pub(super) struct WasmOwn {
    instances: Arc<Instances>,
    warm: Option<Warm>,
    deadline: Nanos,
    saved: Option<Vec<u8>>,
    used: Nanos,
}

impl WasmOwn {
    pub(super) fn new(instances: Arc<Instances>, warm: Warm, deadline: Nanos) -> Self {
        Self { instances, warm: Some(warm), deadline, saved: None, used: 0 }
    }

    /// Asks the instance. What fails is written down, with where in the guest it was.
    fn ask<R>(
        &mut self,
        question: Question<'_>,
        subject: Subject,
        limit: Nanos,
        ask: impl FnOnce(&mut Store<Guest>, &Exports) -> wasmtime::Result<R>,
    ) -> Result<R, CallError> {
        let mut warm = match self.warm.take() {
            Some(warm) => warm,
            None => self.revive()?,
        };
        let mut backtrace = Vec::new();
        let timed = warm.call(subject, limit, |store, exports| {
            ask(store, exports).inspect_err(|error| backtrace = frames(error))
        });
        self.used = timed.used;
        match &timed.answer {
            Ok(_) => self.warm = Some(warm),
            Err(error) => {
                self.failed(question, error, backtrace);
                self.instances.discard(warm);
            }
        }
        timed.answer
    }

    fn failed(&self, question: Question<'_>, error: &CallError, backtrace: Vec<Box<str>>) {
        let question = Question { state: question.state.or(self.saved.as_deref()), ..question };
        self.instances.failed(question, error, backtrace);
    }

    /// Gives it a state; the inner error is the plugin's own, in its words.
    pub(super) fn restored(&mut self, state: &[u8]) -> Result<Result<(), String>, CallError> {
        let question = Question { state: Some(state), ..Question::new(Function::Restore) };
        self.ask(question, Subject::default(), BATCH_LIMIT, |store, exports| {
            let stage = exports.handoff.as_ref().ok_or_else(|| not_exported("handoff"))?;
            stage.call_restore(store, state)
        })
    }

    /// CPU time of the last call.
    pub(super) fn used(&self) -> Nanos {
        self.used
    }

    /// Bytes of the instance's memories; none after a call that failed.
    pub(super) fn memory_bytes(&self) -> Option<usize> {
        self.warm.as_ref().map(|warm| warm.store.data().memory_bytes())
    }

    fn revive(&mut self) -> Result<Warm, CallError> {
        let mut warm = self.instances.take_out()?;
        if let Some(state) = &self.saved {
            let answer =
                warm.call(Subject::default(), BATCH_LIMIT, |store, exports| restore(store, exports, state));
            if answer.answer.is_err() {
                // The state itself may be what it cannot take: start clean.
                self.saved = None;
                self.instances.discard(warm);
                return self.instances.take_out();
            }
        }
        Ok(warm)
    }
}

impl Drop for WasmOwn {
    fn drop(&mut self) {
        if let Some(warm) = self.warm.take() {
            self.instances.discard(warm);
        }
    }
}

fn restore(store: &mut Store<Guest>, exports: &Exports, state: &[u8]) -> wasmtime::Result<()> {
    match &exports.handoff {
        Some(stage) => stage.call_restore(store, state)?.map_err(wasmtime::Error::msg),
        None => Ok(()),
    }
}

impl Own for WasmOwn {
    fn select(
        &mut self,
        flows: &Arc<Flows>,
        endpoints: &Arc<dyn EndpointView>,
        count: u32,
    ) -> Result<Vec<u32>, CallError> {
        let subject = Subject {
            flows: Some(Arc::clone(flows)),
            endpoints: Some(Arc::clone(endpoints)),
            ..Subject::default()
        };
        let question = Question {
            with: With::Count(count),
            flows: Some(flows),
            endpoints: Some(endpoints),
            ..Question::new(Function::Select)
        };
        let chosen = self.ask(question, subject, self.deadline, |store, exports| {
            let stage = exports.flow_control.as_ref().ok_or_else(|| not_exported("flow-control"))?;
            stage.call_select(store, borrowed(), borrowed(), count)
        })?;
        clean::flows(chosen, flows.rows.len()).inspect_err(|error| self.failed(question, error, Vec::new()))
    }

    fn saturation(&mut self, endpoints: &Arc<dyn EndpointView>) -> Result<f32, CallError> {
        let subject = Subject { endpoints: Some(Arc::clone(endpoints)), ..Subject::default() };
        let question = Question { endpoints: Some(endpoints), ..Question::new(Function::Saturation) };
        let said = self.ask(question, subject, self.deadline, |store, exports| {
            let stage = exports.flow_control.as_ref().ok_or_else(|| not_exported("flow-control"))?;
            stage.call_saturation(store, borrowed())
        })?;
        clean::saturation(said).inspect_err(|error| self.failed(question, error, Vec::new()))
    }

    fn observe(&mut self, events: &Arc<[Event]>) -> Result<(), CallError> {
        let subject = Subject { events: Some(Arc::clone(events)), ..Subject::default() };
        let question = Question { events: Some(events), ..Question::new(Function::Observe) };
        self.ask(question, subject, BATCH_LIMIT, |store, exports| match &exports.observer {
            Some(stage) => stage.call_observe(store, borrowed()),
            None => Ok(()),
        })
    }

    fn save(&mut self) -> Result<Option<Vec<u8>>, CallError> {
        let question = Question::new(Function::Save);
        let saved = self.ask(question, Subject::default(), BATCH_LIMIT, |store, exports| {
            exports.handoff.as_ref().map(|stage| stage.call_save(store)).transpose()
        })?;
        self.saved.clone_from(&saved);
        Ok(saved)
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), CallError> {
        self.saved = Some(state.to_vec());
        let question = Question { state: Some(state), ..Question::new(Function::Restore) };
        let answer = self
            .ask(question, Subject::default(), BATCH_LIMIT, |store, exports| restore(store, exports, state));
        if answer.is_err() {
            self.saved = None;
        }
        answer
    }
}
