//! Making a call again.

use std::sync::Arc;

use super::super::engine::{Runtime, RuntimeError};
use super::super::load::{Kept, LoadError, Loaded, Services};
use super::super::own::WasmOwn;
use super::super::policies::WasmPolicy;
use super::function::Shown;
use super::question::unhex;
use super::view::CaseView;
use super::{Case, Function, Outcome, VERSION, With, ask, ask_own};
use crate::clock::{Clock, MILLI, ManualClock, Nanos};
use crate::policy::{Budget, Call, CallError, EndpointView, Flows, Own, Reason, Said, Source};

/// Why a case cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Nothing can be loaded here.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The file is no plugin.
    #[error("refused: {0}")]
    Load(#[from] LoadError),
    /// Written by another version.
    #[error("the case has format {0}; this version of sluicegate reads {VERSION}")]
    Version(u32),
    /// Its parts do not fit together.
    #[error("the case is not whole: {0}")]
    Uneven(String),
    /// The plugin does not serve that stage.
    #[error("the case is about `{}`, and the plugin exports {stages}", call.as_str())]
    Stage {
        /// What was called.
        call: Function,
        /// What there is.
        stages: String,
    },
}

/// A call that failed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Why.
    pub error: CallError,
    /// Functions of the guest, the innermost first.
    pub backtrace: Vec<Box<str>>,
}

/// How a call compares with what was recorded of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// The same answer, or the same reason of failure.
    Same,
    /// It failed when it was recorded, and answers now.
    Mended,
    /// Anything else.
    Differs,
    /// Nothing was recorded, or the case is cut.
    Unknown,
}

/// A call that was made again.
#[derive(Debug, Clone)]
pub struct Ran {
    /// What came of it.
    pub outcome: Result<Said, Failure>,
    /// CPU time, the first call of a fresh instance.
    pub used: Nanos,
    /// Columns that it read, by name.
    pub read: Vec<String>,
    /// SHA-256 of the file, hex.
    pub digest: Box<str>,
    /// Against what was recorded.
    pub compared: Compared,
}

/// Makes the call of a case on a fresh instance of the plugin in `bytes`.
///
/// # Errors
/// When the call cannot even be made.
pub fn run(bytes: &[u8], case: &Case) -> Result<Ran, RunError> {
    check(case)?;
    let clock: Arc<dyn Clock> = ManualClock::at(case.clock_ms.saturating_mul(MILLI));
    let services = Services::alone(Arc::new(Runtime::start(None)?), Arc::clone(&clock));
    let registry = Arc::clone(&services.registry);
    let config = case.settings.plugin(&case.plugin, case.config.clone());
    let loaded = Loaded::new(&services, bytes, Source::File, 0, &config)?;
    if !loaded.stages().contains(&case.call.stage()) {
        return Err(RunError::Stage { call: case.call, stages: loaded.stages().join(", ") });
    }
    let kept = Kept::default();
    let limit = case.settings.deadline_ms.saturating_mul(MILLI);
    let policy = WasmPolicy::new(loaded.untried(&services, &kept, &config), limit);
    let view = Arc::new(CaseView::new(case.endpoints.clone().unwrap_or_default(), registry));
    let endpoints = Arc::clone(&view) as Arc<dyn EndpointView>;
    let budget = Budget::new(Nanos::MAX);
    let answer = match &case.request {
        Some(facts) if Function::ANY.contains(&case.call) => {
            let request = Arc::new(facts.to_request(clock.now()));
            let call = Call { request: &request, endpoints: &endpoints, budget: &budget };
            ask(&policy, case.call, call, With::read(case))
        }
        _ => policy.wasm_own().and_then(|mut own| of_own(&mut own, case, endpoints, &budget)),
    };
    let outcome = answer.map_err(|error| {
        // What the policy itself saw fail it wrote down, with where it was.
        let recorded = kept.cases.all().into_iter().next().and_then(|kept| kept.case.outcome.clone());
        let backtrace = match recorded {
            Some(Outcome::Error { backtrace, .. }) => backtrace,
            _ => Vec::new(),
        };
        Failure { error, backtrace }
    });
    let compared = compare(case, outcome.as_ref().map_err(|failure| failure.error.reason));
    Ok(Ran { outcome, used: budget.used(), read: view.read(), digest: loaded.digest.clone(), compared })
}

fn check(case: &Case) -> Result<(), RunError> {
    if case.case != VERSION {
        return Err(RunError::Version(case.case));
    }
    let uneven = case.endpoints.as_ref().and_then(super::Candidates::uneven);
    if let Some(list) = uneven {
        return Err(RunError::Uneven(format!(
            "`endpoints` has lists of different lengths; look at `{list}`"
        )));
    }
    if case.state.as_deref().is_some_and(|state| unhex(state).is_none()) {
        return Err(RunError::Uneven("`state` is not hexadecimal".into()));
    }
    Ok(())
}

fn of_own(
    own: &mut WasmOwn,
    case: &Case,
    endpoints: Arc<dyn EndpointView>,
    budget: &Budget,
) -> Result<Said, CallError> {
    if let Some(state) = case.state.as_deref().and_then(unhex) {
        let restored = own.restore(&state);
        if case.call == Function::Restore {
            budget.spend(own.used());
            return restored.map(|()| Said::Nothing);
        }
    }
    let shown = Shown {
        endpoints: Some(endpoints),
        flows: case.flows.clone().map(|rows| Arc::new(Flows { rows })),
        events: case.events.clone().map(Into::into),
        count: case.count.unwrap_or_default(),
    };
    let answer = ask_own(own, case.call, &shown);
    budget.spend(own.used());
    answer
}

fn compare(case: &Case, now: Result<&Said, Reason>) -> Compared {
    if case.cut.is_some() {
        return Compared::Unknown;
    }
    match (&case.outcome, now) {
        (None, _) => Compared::Unknown,
        (Some(Outcome::Answer(then)), Ok(now)) if then == now => Compared::Same,
        (Some(Outcome::Error { reason: then, .. }), Err(now)) if *then == now => Compared::Same,
        (Some(Outcome::Error { .. }), Ok(_)) => Compared::Mended,
        _ => Compared::Differs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(outcome: Option<Outcome>) -> Case {
        let config = crate::config::PluginConfig::named("x");
        Case { outcome, ..Case::new(&config, "", Function::Score) }
    }

    #[test]
    fn answers_are_compared_by_value_and_failures_by_reason() {
        let said = |score: f32| Said::Scores(vec![score]);
        let error = |message: &str| Outcome::Error {
            reason: Reason::Trap,
            message: message.into(),
            backtrace: Vec::new(),
        };
        let compared = |outcome, now: Result<&Said, Reason>| compare(&case(outcome), now);
        assert_eq!(compared(None, Ok(&said(0.5))), Compared::Unknown);
        assert_eq!(compared(Some(Outcome::Answer(said(0.5))), Ok(&said(0.5))), Compared::Same);
        assert_eq!(compared(Some(Outcome::Answer(said(0.5))), Ok(&said(0.6))), Compared::Differs);
        assert_eq!(compared(Some(Outcome::Answer(said(0.5))), Err(Reason::Trap)), Compared::Differs);
        assert_eq!(compared(Some(error("here")), Err(Reason::Trap)), Compared::Same);
        assert_eq!(compared(Some(error("here")), Err(Reason::Deadline)), Compared::Differs);
        assert_eq!(compared(Some(error("here")), Ok(&said(0.5))), Compared::Mended);
        let cut = Case { cut: Some("1 of 2".into()), ..case(Some(Outcome::Answer(said(0.5)))) };
        assert_eq!(compare(&cut, Ok(&said(0.6))), Compared::Unknown);
    }

    #[test]
    fn a_case_of_another_format_or_with_lists_that_do_not_fit_is_refused() {
        let other = Case { case: 2, ..case(None) };
        assert!(matches!(run(b"", &other), Err(RunError::Version(2))));
        let mut uneven = case(None);
        uneven.endpoints = Some(super::super::Candidates { ids: vec![1], ..Default::default() });
        let error = run(b"", &uneven).unwrap_err();
        assert!(error.to_string().contains("`keys`"), "{error}");
    }
}
