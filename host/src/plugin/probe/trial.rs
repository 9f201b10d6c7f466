//! One trial call of a stage.

use std::sync::Arc;

use super::LIMIT;
use super::face::Face;
use crate::plugin::policies::WasmPolicy;
use crate::policy::{
    Admission, Budget, Call, CallError, Disaggregation, EndpointView, Filter, FlowControl, Own, OwnFactory,
    Picker, Reason, Scorer, clean,
};

/// A plugin on trial, with the own instance that its calls had in common so far.
pub(super) struct Trial {
    policy: WasmPolicy,
    own: Option<Box<dyn Own>>,
    handed_off: bool,
}

impl Trial {
    pub(super) fn new(policy: WasmPolicy) -> Self {
        Self { policy, own: None, handed_off: false }
    }

    /// Calls one stage about `len` candidates.
    pub(super) fn call(&mut self, stage: &str, face: Face, len: usize) -> Result<(), CallError> {
        let request = Arc::new(face.request());
        let endpoints = face.endpoints(len);
        let budget = Budget::new(LIMIT);
        let call = Call { request: &request, endpoints: &endpoints, budget: &budget };
        let policy = &self.policy;
        match stage {
            "admission" => policy.admit(call).and_then(clean::verdict).map(drop),
            "filter" => policy.keep(call).and_then(|kept| clean::positions(kept, len)).map(drop),
            "scorer" => policy.score(call).and_then(|scores| clean::scores(scores, len)).map(drop),
            "picker" => policy
                .pick(call, &face.scores(len), 2)
                .and_then(|picked| clean::positions(picked, len))
                .map(drop),
            "disaggregation" if len > 0 => {
                policy.split(call, 0).and_then(|legs| clean::legs(legs, len)).map(drop)
            }
            "flow-control" => self.flow(face, call, &endpoints),
            "observer" if len > 0 => self.own()?.observe(&face.events(len)),
            "handoff" if len > 0 && !self.handed_off => self.hand_off(),
            _ => Ok(()),
        }
    }

    fn own(&mut self) -> Result<&mut Box<dyn Own>, CallError> {
        let own = match self.own.take() {
            Some(own) => own,
            None => self.policy.own()?,
        };
        Ok(self.own.insert(own))
    }

    fn flow(
        &mut self,
        face: Face,
        call: Call<'_>,
        endpoints: &Arc<dyn EndpointView>,
    ) -> Result<(), CallError> {
        let placement = self.policy.place(call).and_then(clean::placement)?;
        let own = self.own()?;
        own.saturation(endpoints).and_then(clean::saturation)?;
        let flows = face.flows(&placement, endpoints.len().max(1));
        let chosen = own.select(&flows, endpoints, 1)?;
        let beyond = |position: &&u32| usize::try_from(**position).map_or(true, |at| at >= flows.rows.len());
        match chosen.iter().find(beyond) {
            Some(position) => Err(CallError::new(
                Reason::OutOfRange,
                format!("position {position} of {} flows", flows.rows.len()),
            )),
            None => Ok(()),
        }
    }

    /// What one instance saves, a fresh one takes.
    fn hand_off(&mut self) -> Result<(), CallError> {
        self.handed_off = true;
        match self.own()?.save()? {
            Some(state) => self.policy.own()?.restore(&state),
            None => Ok(()),
        }
    }
}
