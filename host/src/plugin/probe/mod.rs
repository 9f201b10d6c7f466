//! Trial calls before a plugin counts.
//!
//! `describe` and `configure`, then every stage: with ordinary values of no, one, eight and 1,024 candidates,
//! and with values at the edges of what may come ([`Face`]). What fails here would fail in front of a client;
//! the version in force stays instead. All of it takes a few milliseconds for a policy of ordinary cost.

mod face;
mod trial;

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::bindings::exports::sluicegate::policy::plugin::Manifest;
use super::budget::thread_time;
use super::host::Subject;
use super::instance::Instances;
use super::policies::WasmPolicy;
use crate::clock::{MILLI, Nanos, SECOND};
use crate::policy::{Budget, Call, CallError, Reason, Scorer as _, clean};
use face::Face;
use trial::Trial;

/// The id of the request that trial calls are about.
pub const REQUEST_ID: &str = "probe";

/// CPU time of one trial call. The first calls of a guest are its slowest; a loop is caught all the same.
const LIMIT: Nanos = 100 * MILLI;
/// CPU time of all trial calls together. Interpreted guests take some hundreds of milliseconds.
const TOGETHER: Nanos = 5 * SECOND;

/// Candidates of the calls with ordinary values.
const SIZES: [usize; 4] = [0, 1, 8, 1_024];
/// Candidates of the calls with values at the edges.
const EDGE_SIZES: [usize; 2] = [8, 1_024];

/// Bytes of what a plugin says of itself, by field of its manifest. It is shown and becomes a metric's label.
const MAX_SHORT: usize = 128;
const MAX_SUMMARY: usize = 1_024;
const MAX_SCHEMA: usize = 256 * 1_024;

/// A trial call that failed: which, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("its {stage} fails a trial call with {candidates} candidates and {face}: {error}{}", hint(error.reason))]
pub(super) struct ProbeError {
    stage: &'static str,
    candidates: usize,
    face: Face,
    pub(super) error: CallError,
}

/// Asks the plugin who it is.
pub(super) fn describe(instances: &Instances) -> Result<Manifest, CallError> {
    let mut warm = instances.take()?;
    let manifest =
        warm.call(Subject::default(), LIMIT, |store, exports| exports.plugin.call_describe(store)).answer?;
    instances.give_back(warm);
    check(&manifest)?;
    Ok(manifest)
}

fn check(manifest: &Manifest) -> Result<(), CallError> {
    let Manifest { name, version, summary, default_weight, config_schema } = manifest;
    if !default_weight.is_finite() || *default_weight < 0.0 {
        return Err(CallError::new(
            Reason::Invalid,
            format!("its manifest has default-weight {default_weight}; it must be 0 or above"),
        ));
    }
    for (field, text, most) in [
        ("name", name, MAX_SHORT),
        ("version", version, MAX_SHORT),
        ("summary", summary, MAX_SUMMARY),
        ("config-schema", config_schema, MAX_SCHEMA),
    ] {
        if text.len() > most {
            return Err(CallError::new(
                Reason::Invalid,
                format!("its manifest has a {field} of {} bytes; up to {most} are taken", text.len()),
            ));
        }
    }
    Ok(())
}

/// Calls every stage that the plugin exports.
pub(super) fn stages(instances: &Arc<Instances>) -> Result<(), ProbeError> {
    let began = thread_time();
    let mut trial = Trial::new(WasmPolicy::on_trial(Arc::clone(instances), LIMIT));
    for (face, candidates) in calls() {
        for stage in instances.stages() {
            let failed = |error| ProbeError { stage, candidates, face, error };
            trial.call(stage, face, candidates).map_err(failed)?;
            if thread_time().saturating_sub(began) > TOGETHER {
                let message = format!("the trial calls together took more than {} s", TOGETHER / SECOND);
                return Err(failed(CallError::new(Reason::Deadline, message)));
            }
        }
    }
    Ok(())
}

/// How long one call of the scorer takes, all that belongs to it included.
pub(super) fn time_scorer(policy: &WasmPolicy, len: usize) -> Result<Duration, CallError> {
    let request = Arc::new(Face::Ordinary.request());
    let endpoints = Face::Ordinary.endpoints(len);
    let budget = Budget::new(SECOND);
    let call = Call { request: &request, endpoints: &endpoints, budget: &budget };
    let start = Instant::now();
    let scores = policy.score(call)?;
    let took = start.elapsed();
    clean::scores(scores, len).map(|_| took)
}

fn calls() -> impl Iterator<Item = (Face, usize)> {
    let ordinary = SIZES.into_iter().map(|size| (Face::Ordinary, size));
    ordinary.chain(Face::EDGES.into_iter().flat_map(|face| EDGE_SIZES.map(|size| (face, size))))
}

/// What an author does about it.
fn hint(reason: Reason) -> &'static str {
    match reason {
        Reason::NotFinite => {
            "; sums and quotients of such values overflow: bound them, or read `missing` as a number that fits"
        }
        Reason::WrongLength => "; a scorer answers one score a candidate, also where there is none or many",
        Reason::OutOfRange | Reason::Repeated => {
            "; positions count from 0, lie below the number of candidates and are named once"
        }
        Reason::Deadline => "; a call must end in a few milliseconds for any number of candidates",
        Reason::Memory => "; set `memory_mib` for it, or keep less",
        _ => "; `sluicegate plugin inspect FILE` repeats the trial calls",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            name: "n".into(),
            version: "1".into(),
            summary: String::new(),
            default_weight: 1.0,
            config_schema: String::new(),
        }
    }

    #[test]
    fn a_manifest_is_short_and_its_weight_a_weight() {
        assert!(check(&manifest()).is_ok());
        assert!(check(&Manifest { default_weight: f32::NAN, ..manifest() }).is_err());
        assert!(check(&Manifest { default_weight: -1.0, ..manifest() }).is_err());
        let error = check(&Manifest { version: "9".repeat(MAX_SHORT + 1), ..manifest() }).unwrap_err();
        assert!(error.message.contains("version of 129 bytes"), "{error}");
    }

    #[test]
    fn every_size_and_every_edge_is_tried() {
        let calls: Vec<_> = calls().collect();
        for size in SIZES {
            assert!(calls.contains(&(Face::Ordinary, size)));
        }
        for face in Face::EDGES {
            assert!(calls.contains(&(face, 8)) && calls.contains(&(face, 1_024)));
        }
    }
}
