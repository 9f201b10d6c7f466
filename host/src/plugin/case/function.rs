//! The functions that a host calls, and one way to call each: asked and cleaned as in front of a client.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::own::WasmOwn;
use super::super::policies::WasmPolicy;
use super::Case;
use crate::policy::{
    Admission, Call, CallError, Disaggregation, EndpointView, Event, Filter, FlowControl, Flows, Own, Picker,
    Reason, Said, Scorer, clean,
};

/// An exported function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Function {
    /// Whether a request is taken.
    #[serde(rename = "admission.admit")]
    Admit,
    /// Where it waits.
    #[serde(rename = "flow-control.place")]
    Place,
    /// Who may serve it.
    #[serde(rename = "filter.keep")]
    Keep,
    /// How good each is.
    #[serde(rename = "scorer.score")]
    Score,
    /// Who is taken.
    #[serde(rename = "picker.pick")]
    Pick,
    /// What is done elsewhere first.
    #[serde(rename = "disaggregation.split")]
    Split,
    /// Who is next.
    #[serde(rename = "flow-control.select")]
    Select,
    /// How full the pool is.
    #[serde(rename = "flow-control.saturation")]
    Saturation,
    /// What happened.
    #[serde(rename = "observer.observe")]
    Observe,
    /// The state to carry on.
    #[serde(rename = "handoff.save")]
    Save,
    /// And where it is taken.
    #[serde(rename = "handoff.restore")]
    Restore,
}

impl Function {
    /// Those that any instance answers, in the order in which a request meets them.
    pub(in crate::plugin) const ANY: [Self; 6] =
        [Self::Admit, Self::Place, Self::Keep, Self::Score, Self::Pick, Self::Split];

    /// Interface and name, as in the contract.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admit => "admission.admit",
            Self::Place => "flow-control.place",
            Self::Keep => "filter.keep",
            Self::Score => "scorer.score",
            Self::Pick => "picker.pick",
            Self::Split => "disaggregation.split",
            Self::Select => "flow-control.select",
            Self::Saturation => "flow-control.saturation",
            Self::Observe => "observer.observe",
            Self::Save => "handoff.save",
            Self::Restore => "handoff.restore",
        }
    }

    /// The interface that it is of.
    #[must_use]
    pub fn stage(self) -> &'static str {
        self.as_str().split('.').next().unwrap_or_default()
    }
}

/// What a function is given beside the request and the candidates.
#[derive(Debug, Clone, Copy)]
pub(in crate::plugin) enum With<'a> {
    Nothing,
    /// A picker: the sums, and how many positions.
    Scores(&'a [f32], u32),
    /// Disaggregation: the decode endpoint.
    Decode(u32),
    /// `select`: how many.
    Count(u32),
}

impl<'a> With<'a> {
    pub(super) fn write(self, case: &mut Case) {
        match self {
            Self::Nothing => {}
            Self::Scores(scores, count) => {
                case.scores = Some(
                    scores
                        .iter()
                        .take(case.endpoints.as_ref().map_or(0, super::Candidates::len))
                        .copied()
                        .collect(),
                );
                case.count = Some(count);
            }
            Self::Decode(decode) => case.decode = Some(decode),
            Self::Count(count) => case.count = Some(count),
        }
    }

    pub(super) fn read(case: &'a Case) -> Self {
        match (&case.scores, case.count, case.decode) {
            (Some(scores), count, _) => {
                Self::Scores(scores, count.unwrap_or_else(|| u32::try_from(scores.len()).unwrap_or(u32::MAX)))
            }
            (None, _, Some(decode)) => Self::Decode(decode),
            (None, Some(count), None) => Self::Count(count),
            (None, None, None) => Self::Nothing,
        }
    }
}

/// Asks any instance, and cleans its answer.
pub(in crate::plugin) fn ask(
    policy: &WasmPolicy,
    function: Function,
    call: Call<'_>,
    with: With<'_>,
) -> Result<Said, CallError> {
    let len = call.endpoints.len();
    match (function, with) {
        (Function::Admit, _) => policy.admit(call).and_then(clean::verdict).map(Said::Verdict),
        (Function::Place, _) => policy.place(call).and_then(clean::placement).map(Said::Placement),
        (Function::Keep, _) => {
            policy.keep(call).and_then(|kept| clean::positions(kept, len)).map(Said::Positions)
        }
        (Function::Score, _) => policy
            .score(call)
            .and_then(|scores| clean::scores(scores, len))
            .map(|scores| Said::Scores(scores.values)),
        (Function::Pick, With::Scores(scores, count)) => policy
            .pick(call, scores, count)
            .and_then(|picked| clean::positions(picked, len))
            .map(Said::Positions),
        (Function::Split, With::Decode(decode)) => {
            policy.split(call, decode).and_then(|legs| clean::legs(legs, len)).map(Said::Legs)
        }
        _ => Err(unasked(function)),
    }
}

/// What an own instance is shown.
#[derive(Debug, Clone, Default)]
pub(in crate::plugin) struct Shown {
    pub(in crate::plugin) endpoints: Option<Arc<dyn EndpointView>>,
    pub(in crate::plugin) flows: Option<Arc<Flows>>,
    pub(in crate::plugin) events: Option<Arc<[Event]>>,
    pub(in crate::plugin) count: u32,
}

/// Asks an own instance, and checks its answer.
pub(in crate::plugin) fn ask_own(
    own: &mut WasmOwn,
    function: Function,
    shown: &Shown,
) -> Result<Said, CallError> {
    match (function, &shown.endpoints, &shown.flows, &shown.events) {
        (Function::Select, Some(endpoints), Some(flows), _) => own
            .select(flows, endpoints, shown.count)
            .and_then(|chosen| clean::flows(chosen, flows.rows.len()))
            .map(Said::Positions),
        (Function::Saturation, Some(endpoints), _, _) => {
            own.saturation(endpoints).and_then(clean::saturation).map(Said::Saturation)
        }
        (Function::Observe, _, _, Some(events)) => own.observe(events).map(|()| Said::Nothing),
        (Function::Save, ..) => {
            own.save().map(|state| Said::State(super::question::hex(&state.unwrap_or_default())))
        }
        // Its state is given to it before anything else is asked.
        (Function::Restore, ..) => Ok(Said::Nothing),
        _ => Err(unasked(function)),
    }
}

fn unasked(function: Function) -> CallError {
    CallError::new(
        Reason::Invalid,
        format!("`{}` cannot be asked: the case lacks what it is given", function.as_str()),
    )
}
