//! The one instance of a plugin that hears a pool's events, and so may keep state.
//!
//! After a failed call the instance is made anew and given the state that it saved last, so a trap
//! costs it at most what happened since.

use std::sync::Arc;

use wasmtime::Store;

use super::host::{Guest, Subject, borrowed};
use super::instance::{Exports, Instances, Warm};
use super::policies::not_exported;
use crate::clock::{MILLI, Nanos};
use crate::policy::{CallError, EndpointView, Event, Flows, Own};

/// `observe`, `save` and `restore` are off the path of requests and handle batches.
const BATCH_LIMIT: Nanos = 50 * MILLI;

/// An own instance of a Wasm plugin.
pub(super) struct WasmOwn {
    instances: Arc<Instances>,
    warm: Option<Warm>,
    deadline: Nanos,
    saved: Option<Vec<u8>>,
}

impl WasmOwn {
    pub(super) fn new(instances: Arc<Instances>, warm: Warm, deadline: Nanos) -> Self {
        Self { instances, warm: Some(warm), deadline, saved: None }
    }

    fn ask<R>(
        &mut self,
        subject: Subject,
        limit: Nanos,
        ask: impl FnOnce(&mut Store<Guest>, &Exports) -> wasmtime::Result<R>,
    ) -> Result<R, CallError> {
        let mut warm = match self.warm.take() {
            Some(warm) => warm,
            None => self.revive()?,
        };
        let answer = warm.call(subject, limit, ask).answer?;
        self.warm = Some(warm);
        Ok(answer)
    }

    fn revive(&mut self) -> Result<Warm, CallError> {
        let mut warm = self.instances.make()?;
        if let Some(state) = &self.saved {
            let answer =
                warm.call(Subject::default(), BATCH_LIMIT, |store, exports| restore(store, exports, state));
            if answer.answer.is_err() {
                // The state itself may be what it cannot take: start clean.
                self.saved = None;
                return self.instances.make();
            }
        }
        Ok(warm)
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
        self.ask(subject, self.deadline, |store, exports| {
            let stage = exports.flow_control.as_ref().ok_or_else(|| not_exported("flow-control"))?;
            stage.call_select(store, borrowed(), borrowed(), count)
        })
    }

    fn saturation(&mut self, endpoints: &Arc<dyn EndpointView>) -> Result<f32, CallError> {
        let subject = Subject { endpoints: Some(Arc::clone(endpoints)), ..Subject::default() };
        self.ask(subject, self.deadline, |store, exports| {
            let stage = exports.flow_control.as_ref().ok_or_else(|| not_exported("flow-control"))?;
            stage.call_saturation(store, borrowed())
        })
    }

    fn observe(&mut self, events: &Arc<[Event]>) -> Result<(), CallError> {
        let subject = Subject { events: Some(Arc::clone(events)), ..Subject::default() };
        self.ask(subject, BATCH_LIMIT, |store, exports| match &exports.observer {
            Some(stage) => stage.call_observe(store, borrowed()),
            None => Ok(()),
        })
    }

    fn save(&mut self) -> Result<Option<Vec<u8>>, CallError> {
        let saved = self.ask(Subject::default(), BATCH_LIMIT, |store, exports| {
            exports.handoff.as_ref().map(|stage| stage.call_save(store)).transpose()
        })?;
        self.saved.clone_from(&saved);
        Ok(saved)
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), CallError> {
        self.saved = Some(state.to_vec());
        let answer =
            self.ask(Subject::default(), BATCH_LIMIT, |store, exports| restore(store, exports, state));
        if answer.is_err() {
            self.saved = None;
        }
        answer
    }
}
