//! The stages of a loaded plugin behind the ports.

use std::sync::Arc;

use wasmtime::Store;

use super::bindings::exports::sluicegate::policy as stage;
use super::case::{Function, Question, With, frames};
use super::host::{Guest, Subject, borrowed};
use super::instance::{Exports, Instances};
use super::own::WasmOwn;
use crate::clock::{MILLI, Nanos};
use crate::policy::{
    Admission, Call, CallError, ColumnId, Disaggregation, Filter, FlowControl, Leg, LegStage, Own,
    OwnFactory, Picker, Placement, Reason, Rejection, Scorer, Verdict,
};

/// A loaded plugin with one configuration. Implements every stage; which ones it really exports is in
/// [`super::component::Linked::stages`], and only those are put into a chain.
pub(super) struct WasmPolicy {
    instances: Arc<Instances>,
    deadline: Nanos,
    /// What the deadline is, for those whose plugin runs into it.
    limited_by: &'static str,
}

/// The answer for a stage that the plugin does not export. A chain never asks for one.
pub(super) fn not_exported(stage: &str) -> wasmtime::Error {
    wasmtime::Error::msg(format!("the plugin does not export `{stage}`"))
}

impl WasmPolicy {
    /// With the deadline that is configured.
    pub(super) fn new(instances: Arc<Instances>, deadline: Nanos) -> Self {
        let limited_by = "its `deadline_ms`; if it needs more, raise that, and `limits.policy_ms` with it";
        Self { instances, deadline, limited_by }
    }

    /// For trial calls.
    pub(super) fn on_trial(instances: Arc<Instances>, limit: Nanos) -> Self {
        Self { instances, deadline: limit, limited_by: "all that a trial call may" }
    }

    /// The columns that the guest resolved.
    pub(super) fn columns(&self) -> Vec<ColumnId> {
        self.instances.columns()
    }

    /// An instance of its own.
    pub(super) fn wasm_own(&self) -> Result<WasmOwn, CallError> {
        // Behind the requests of this moment nobody has to wait, but a chain without it would not ask again.
        let warm = match self.instances.take_out() {
            Err(error) if error.reason == Reason::Warming => self.instances.make()?,
            taken => taken?,
        };
        Ok(WasmOwn::new(Arc::clone(&self.instances), warm, self.deadline))
    }

    /// Asks an instance. What fails is written down, with where in the guest it was.
    fn ask<R>(
        &self,
        call: Call<'_>,
        (function, with): (Function, With<'_>),
        ask: impl FnOnce(&mut Store<Guest>, &Exports) -> wasmtime::Result<R>,
    ) -> Result<R, CallError> {
        if call.budget.spent() {
            return Err(CallError::new(
                Reason::BudgetSpent,
                "this request's policies have used up their time",
            ));
        }
        let mut warm = match self.instances.take() {
            Ok(warm) => warm,
            Err(error) => {
                self.failed(call, (function, with), &error, Vec::new());
                return Err(error);
            }
        };
        let mut backtrace = Vec::new();
        let subject = Subject {
            request: Some(Arc::clone(call.request)),
            endpoints: Some(Arc::clone(call.endpoints)),
            ..Subject::default()
        };
        let limit = self.deadline.min(call.budget.left());
        let timed = warm.call(subject, limit, |store, exports| {
            ask(store, exports).inspect_err(|error| backtrace = frames(error))
        });
        call.budget.spend(timed.used);
        match timed.answer {
            Ok(answer) => {
                self.instances.give_back(warm);
                Ok(answer)
            }
            Err(error) => {
                self.instances.lose(warm);
                let error = self.explained(error, limit);
                self.failed(call, (function, with), &error, backtrace);
                Err(error)
            }
        }
    }

    fn explained(&self, error: CallError, limit: Nanos) -> CallError {
        if error.reason != Reason::Deadline {
            return error;
        }
        let by = if limit < self.deadline { "what `limits.policy_ms` left of it" } else { self.limited_by };
        let milliseconds = limit as f64 / MILLI as f64;
        CallError::new(Reason::Deadline, format!("it used up {milliseconds:.1} ms of CPU time, {by}"))
    }

    fn failed(
        &self,
        call: Call<'_>,
        (function, with): (Function, With<'_>),
        error: &CallError,
        backtrace: Vec<Box<str>>,
    ) {
        let question = Question {
            with,
            request: Some(call.request),
            endpoints: Some(call.endpoints),
            ..Question::new(function)
        };
        self.instances.failed(question, error, backtrace);
    }
}

impl Admission for WasmPolicy {
    fn admit(&self, call: Call<'_>) -> Result<Verdict, CallError> {
        let verdict = self.ask(call, (Function::Admit, With::Nothing), |store, exports| {
            let stage = exports.admission.as_ref().ok_or_else(|| not_exported("admission"))?;
            stage.call_admit(store, borrowed(), borrowed())
        })?;
        Ok(match verdict {
            stage::admission::Verdict::Accept => Verdict::Accept,
            stage::admission::Verdict::Reject(rejection) => Verdict::Reject(Rejection {
                status: rejection.status,
                reason: rejection.reason,
                retry_after_ms: rejection.retry_after_ms,
            }),
        })
    }

    fn unusable(&self, call: Call<'_>, error: &CallError) {
        self.failed(call, (Function::Admit, With::Nothing), error, Vec::new());
    }
}

impl Filter for WasmPolicy {
    fn keep(&self, call: Call<'_>) -> Result<Vec<u32>, CallError> {
        self.ask(call, (Function::Keep, With::Nothing), |store, exports| {
            let stage = exports.filter.as_ref().ok_or_else(|| not_exported("filter"))?;
            stage.call_keep(store, borrowed(), borrowed())
        })
    }

    fn unusable(&self, call: Call<'_>, error: &CallError) {
        self.failed(call, (Function::Keep, With::Nothing), error, Vec::new());
    }
}

impl Scorer for WasmPolicy {
    fn score(&self, call: Call<'_>) -> Result<Vec<f32>, CallError> {
        self.ask(call, (Function::Score, With::Nothing), |store, exports| {
            let stage = exports.scorer.as_ref().ok_or_else(|| not_exported("scorer"))?;
            stage.call_score(store, borrowed(), borrowed())
        })
    }

    fn unusable(&self, call: Call<'_>, error: &CallError) {
        self.failed(call, (Function::Score, With::Nothing), error, Vec::new());
    }
}

impl Picker for WasmPolicy {
    fn pick(&self, call: Call<'_>, scores: &[f32], count: u32) -> Result<Vec<u32>, CallError> {
        self.ask(call, (Function::Pick, With::Scores(scores, count)), |store, exports| {
            let stage = exports.picker.as_ref().ok_or_else(|| not_exported("picker"))?;
            stage.call_pick(store, borrowed(), borrowed(), scores, count)
        })
    }

    fn unusable(&self, call: Call<'_>, scores: &[f32], count: u32, error: &CallError) {
        self.failed(call, (Function::Pick, With::Scores(scores, count)), error, Vec::new());
    }
}

impl Disaggregation for WasmPolicy {
    fn split(&self, call: Call<'_>, decode: u32) -> Result<Vec<Leg>, CallError> {
        let legs = self.ask(call, (Function::Split, With::Decode(decode)), |store, exports| {
            let stage = exports.disaggregation.as_ref().ok_or_else(|| not_exported("disaggregation"))?;
            stage.call_split(store, borrowed(), borrowed(), decode)
        })?;
        legs.into_iter()
            .map(|leg| {
                let stage = match leg.stage {
                    0 => LegStage::Encode,
                    1 => LegStage::Prefill,
                    other => {
                        return Err(CallError::new(
                            Reason::Invalid,
                            format!("a leg of stage {other}; 0 encode and 1 prefill exist"),
                        ));
                    }
                };
                Ok(Leg { stage, candidates: leg.candidates })
            })
            .collect()
    }

    fn unusable(&self, call: Call<'_>, decode: u32, error: &CallError) {
        self.failed(call, (Function::Split, With::Decode(decode)), error, Vec::new());
    }
}

/// The pair of a placement's `extra` that says how many tokens of KV cache its session will hold.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size, and the cast saturates")]
fn kv_tokens(extra: &[(String, f32)]) -> Option<u32> {
    extra.iter().find(|(name, _)| name == KV_TOKENS).map(|(_, tokens)| *tokens as u32)
}

/// The name of that pair.
const KV_TOKENS: &str = "kv-tokens";

impl FlowControl for WasmPolicy {
    fn place(&self, call: Call<'_>) -> Result<Placement, CallError> {
        let placement = self.ask(call, (Function::Place, With::Nothing), |store, exports| {
            let stage = exports.flow_control.as_ref().ok_or_else(|| not_exported("flow-control"))?;
            stage.call_place(store, borrowed(), borrowed())
        })?;
        Ok(Placement {
            flow: placement.flow.into(),
            band: placement.band,
            weight: placement.weight,
            cost: placement.cost,
            rank: placement.rank,
            ceiling: placement.ceiling,
            ttl_ms: placement.ttl_ms,
            kv_tokens: kv_tokens(&placement.extra),
        })
    }

    fn unusable(&self, call: Call<'_>, error: &CallError) {
        self.failed(call, (Function::Place, With::Nothing), error, Vec::new());
    }
}

impl OwnFactory for WasmPolicy {
    fn own(&self) -> Result<Box<dyn Own>, CallError> {
        Ok(Box::new(self.wasm_own()?))
    }
}
