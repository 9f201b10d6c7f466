//! A case of what a policy was asked about a request that is done.

use super::candidates::labels;
use super::{Candidates, Case, Function, Numbers, Outcome};
use crate::clock::MILLI;
use crate::policy::{Column, Hex, Registry, Stage};
use crate::route::Asked;

impl Case {
    /// Writes down a question of a decision. None when the decode endpoint is not among the candidates that are kept.
    #[must_use]
    pub fn decided(asked: Asked, registry: &Registry) -> Option<Self> {
        let (kept, of) = (asked.endpoints.len(), asked.of);
        if asked.decode.is_some_and(|decode| usize::try_from(decode).is_ok_and(|decode| decode >= kept)) {
            return None;
        }
        let plugin = &asked.plugin;
        let columns = asked.columns.into_iter().filter_map(|(id, values)| {
            let numbers = !matches!(registry.get(id)?, Column::Label(_));
            numbers.then_some(((&*registry.name(id)?).into(), Numbers(values)))
        });
        let candidates = Candidates {
            profile: asked.profile,
            names: asked.endpoints.iter().map(|endpoint| endpoint.name.clone()).collect(),
            ids: asked.endpoints.iter().map(|endpoint| endpoint.id.0).collect(),
            keys: asked.endpoints.iter().map(|endpoint| Hex(endpoint.key.0)).collect(),
            labels: labels(asked.endpoints.iter().map(|endpoint| endpoint.labels.clone())),
            columns: columns.collect(),
        };
        let outcome = asked.said.map(|said| match said {
            Ok(said) => Outcome::Answer(said),
            Err(error) => {
                Outcome::Error { reason: error.reason, message: error.message, backtrace: Vec::new() }
            }
        });
        Some(Self {
            clock_ms: asked.now / MILLI,
            request: Some(asked.facts),
            endpoints: Some(candidates),
            count: asked.scores.as_ref().map(|_| u32::try_from(of).unwrap_or(u32::MAX)),
            scores: asked.scores,
            decode: asked.decode,
            cut: (kept < of).then(|| format!("{kept} of {of} candidates are kept")),
            outcome,
            ..Self::new(&plugin.config, &plugin.digest, function(asked.stage))
        })
    }
}

fn function(stage: Stage) -> Function {
    match stage {
        Stage::Admission => Function::Admit,
        Stage::FlowControl => Function::Place,
        Stage::Filter => Function::Keep,
        Stage::Scorer => Function::Score,
        Stage::Picker => Function::Pick,
        Stage::Disaggregation => Function::Split,
    }
}
