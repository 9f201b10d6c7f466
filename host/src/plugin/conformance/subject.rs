//! The plugin under test, and one question to it.

use std::sync::Arc;

use super::super::case::{Function, With, ask};
use super::super::instance::Instances;
use super::super::load::{Kept, Loaded, Services};
use super::super::policies::WasmPolicy;
use crate::clock::{MILLI, Nanos};
use crate::config::PluginConfig;
use crate::policy::{Budget, Call, CallError, EndpointView, Request, Said};

/// CPU time of a call whose time is not what is checked. A loop is caught all the same.
pub(super) const LIMIT: Nanos = 100 * MILLI;

/// A plugin that loads.
pub(super) struct Subject {
    pub(super) services: Services,
    pub(super) loaded: Loaded,
    pub(super) config: PluginConfig,
}

impl Subject {
    /// Instances that nobody has asked yet.
    pub(super) fn instances(&self, kept: &Kept) -> Arc<Instances> {
        self.loaded.untried(&self.services, kept, &self.config)
    }

    /// The same with a store that nobody has written to.
    pub(super) fn fresh(&self) -> WasmPolicy {
        WasmPolicy::new(self.instances(&Kept::default()), LIMIT)
    }

    /// The functions that any instance answers.
    pub(super) fn functions(&self) -> impl Iterator<Item = Function> {
        let stages = self.loaded.stages().to_vec();
        Function::ANY.into_iter().filter(move |function| stages.contains(&function.stage()))
    }

    /// Whether it exports a stage.
    pub(super) fn exports(&self, stage: &str) -> bool {
        self.loaded.stages().contains(&stage)
    }
}

/// What a call cost, with its answer.
pub(super) struct Answered {
    pub(super) said: Result<Said, CallError>,
    pub(super) used: Nanos,
}

/// Asks one question. Disaggregation has no question without candidates.
pub(super) fn question(
    policy: &WasmPolicy,
    function: Function,
    request: &Arc<Request>,
    endpoints: &Arc<dyn EndpointView>,
) -> Option<Answered> {
    if function == Function::Split && endpoints.is_empty() {
        return None;
    }
    let scores = if function == Function::Pick { vec![0.5; endpoints.len()] } else { Vec::new() };
    let with = match function {
        Function::Pick => With::Scores(&scores, 2),
        Function::Split => With::Decode(0),
        _ => With::Nothing,
    };
    let budget = Budget::new(LIMIT);
    let said = ask(policy, function, Call { request, endpoints, budget: &budget }, with);
    Some(Answered { said, used: budget.used() })
}
