//! Trial calls before a plugin counts.
//!
//! `describe` and `configure`, then every stage with no, one and eight candidates of unremarkable
//! values. What fails here would fail in front of a client; the version in force stays instead.

use std::sync::Arc;

use super::bindings::exports::sluicegate::policy::plugin::Manifest;
use super::host::Subject;
use super::instance::Instances;
use super::policies::WasmPolicy;
use crate::clock::{MILLI, Nanos};
use crate::policy::{
    Admission, Budget, Call, CallError, ColumnId, Disaggregation, EndpointView, Filter, FlowControl, FlowRow,
    Flows, OwnFactory, Picker, Reason, Request, Scorer, clean,
};
use crate::types::{Api, Profile};

/// The id of the request that trial calls are about.
pub const REQUEST_ID: &str = "probe";

/// CPU time of one trial call. The first calls of a guest are its slowest; a loop is caught all the same.
const LIMIT: Nanos = 100 * MILLI;

/// A trial call that failed, with the stage and the number of candidates.
#[derive(Debug, thiserror::Error)]
#[error("its {stage} fails a trial call with {candidates} candidates: {error}")]
pub(super) struct ProbeError {
    stage: &'static str,
    candidates: usize,
    pub(super) error: CallError,
}

/// Asks the plugin who it is.
pub(super) fn describe(instances: &Instances) -> Result<Manifest, CallError> {
    let mut warm = instances.take()?;
    let manifest =
        warm.call(Subject::default(), LIMIT, |store, exports| exports.plugin.call_describe(store)).answer?;
    instances.give_back(warm);
    if !manifest.default_weight.is_finite() || manifest.default_weight < 0.0 {
        return Err(CallError::new(
            Reason::Invalid,
            format!("its manifest has default-weight {}; it must be 0 or above", manifest.default_weight),
        ));
    }
    Ok(manifest)
}

/// Calls every stage that the plugin exports.
pub(super) fn stages(instances: &Arc<Instances>) -> Result<(), ProbeError> {
    let policy = WasmPolicy::new(Arc::clone(instances), LIMIT);
    for candidates in [0, 1, 8] {
        for stage in instances.stages() {
            probe(&policy, stage, candidates).map_err(|error| ProbeError { stage, candidates, error })?;
        }
    }
    Ok(())
}

fn probe(policy: &WasmPolicy, stage: &str, len: usize) -> Result<(), CallError> {
    let request = Arc::new(request());
    let endpoints: Arc<dyn EndpointView> = Arc::new(Trial { len });
    let budget = Budget::default();
    let call = Call { request: &request, endpoints: &endpoints, budget: &budget };
    match stage {
        "admission" => policy.admit(call).and_then(clean::verdict).map(drop),
        "filter" => policy.keep(call).and_then(|kept| clean::positions(kept, len)).map(drop),
        "scorer" => policy.score(call).and_then(|scores| clean::scores(scores, len)).map(drop),
        "picker" => {
            policy.pick(call, &vec![0.5; len], 2).and_then(|picked| clean::positions(picked, len)).map(drop)
        }
        "disaggregation" if len > 0 => policy.split(call, 0).and_then(|legs| {
            legs.into_iter().try_for_each(|leg| clean::positions(leg.candidates, len).map(drop))
        }),
        "flow-control" => probe_flow(policy, call, &endpoints),
        _ => Ok(()),
    }
}

fn probe_flow(
    policy: &WasmPolicy,
    call: Call<'_>,
    endpoints: &Arc<dyn EndpointView>,
) -> Result<(), CallError> {
    let placement = policy.place(call).and_then(clean::placement)?;
    let mut own = policy.own()?;
    own.saturation(endpoints).and_then(clean::saturation)?;
    let row = FlowRow {
        id: 0,
        name: placement.flow,
        band: placement.band,
        length: 1,
        head_age_ms: 0,
        head_cost: placement.cost,
        head_rank: placement.rank,
        head_deadline_ms: None,
        weight: placement.weight,
        inflight_tokens: 0,
        served_tokens: 0,
    };
    let flows = Arc::new(Flows { rows: vec![row] });
    own.select(&flows, endpoints, 1).and_then(|chosen| clean::positions(chosen, 1)).map(drop)
}

fn request() -> Request {
    Request {
        id: REQUEST_ID.into(),
        api: Api::Chat,
        path: "/v1/chat/completions".into(),
        model: "probe".into(),
        adapter: None,
        tenant: None,
        flow: "".into(),
        priority: 0,
        session: None,
        turn: 0,
        prompt_tokens: 1_000,
        prompt_tokens_exact: false,
        max_output_tokens: Some(100),
        streaming: true,
        ttft_target_ms: None,
        tpot_target_ms: None,
        ttl_ms: None,
        arrived: 0,
        headers: http::HeaderMap::new(),
        body: bytes::Bytes::from_static(b"{}"),
        prefix: None,
    }
}

/// Candidates whose every column runs from 0 up.
#[derive(Debug)]
struct Trial {
    len: usize,
}

impl EndpointView for Trial {
    fn len(&self) -> usize {
        self.len
    }

    fn profile(&self) -> Profile {
        Profile::Decode
    }

    fn ids(&self) -> Vec<u32> {
        (0..).take(self.len).collect()
    }

    fn keys(&self) -> Vec<u64> {
        (0..).take(self.len).collect()
    }

    fn column(&self, _: ColumnId, _: f32) -> Option<Vec<f32>> {
        Some((0_u8..).take(self.len).map(f32::from).collect())
    }

    fn label(&self, _: usize, _: &str) -> Option<String> {
        None
    }
}
