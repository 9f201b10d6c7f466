//! The endpoints of one judgement, in columns.
//!
//! A column is computed when a policy first reads it and kept: every policy of the request sees the same
//! numbers, nothing is computed that nobody reads, and what was read is what the explanation shows.
//! Unknown values are NaN inside and replaced by the reader's own `missing`.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::Lane;
use crate::clock::Nanos;
use crate::policy::{Builtin, Column, ColumnId, EndpointView, Request};
use crate::pool::Endpoint;
use crate::prefix::rendezvous;
use crate::types::Profile;

/// Blocks from the start of a prompt whose hash decides the rendezvous: enough to tell one system prompt
/// from another, few enough that the turns of a conversation agree.
const RENDEZVOUS_BLOCKS: usize = 4;

/// The columns read so far.
pub(super) type Columns = Vec<(ColumnId, Arc<[f32]>)>;

/// A set of endpoints to be judged for one request.
#[derive(Debug)]
pub struct Candidates {
    lane: Arc<Lane>,
    request: Option<Arc<Request>>,
    profile: Profile,
    endpoints: Arc<[Arc<Endpoint>]>,
    now: Nanos,
    columns: Mutex<Columns>,
    matched: OnceLock<Vec<u32>>,
}

impl Candidates {
    pub(super) fn new(
        lane: Arc<Lane>,
        request: Option<Arc<Request>>,
        profile: Profile,
        endpoints: Arc<[Arc<Endpoint>]>,
        now: Nanos,
    ) -> Arc<Self> {
        let (columns, matched) = (Mutex::default(), OnceLock::new());
        Arc::new(Self { lane, request, profile, endpoints, now, columns, matched })
    }

    /// The endpoints, by position.
    #[must_use]
    pub fn endpoints(&self) -> &Arc<[Arc<Endpoint>]> {
        &self.endpoints
    }

    /// The endpoint at a position.
    #[must_use]
    pub fn at(&self, position: u32) -> Option<&Arc<Endpoint>> {
        self.endpoints.get(usize::try_from(position).ok()?)
    }

    /// The position of an endpoint.
    #[must_use]
    pub fn position(&self, endpoint: &Endpoint) -> Option<u32> {
        let index = self.endpoints.iter().position(|candidate| candidate.id == endpoint.id)?;
        u32::try_from(index).ok()
    }

    /// The candidates at these positions, in this order, with the values that were read so far.
    #[must_use]
    pub fn subset(&self, positions: &[u32]) -> Arc<Self> {
        let gather = |values: &[f32]| -> Arc<[f32]> {
            positions.iter().map(|position| at(values, *position).unwrap_or(f32::NAN)).collect()
        };
        let columns = self.columns.lock().iter().map(|(id, values)| (*id, gather(values))).collect();
        let matched = OnceLock::new();
        if let Some(all) = self.matched.get() {
            let _ = matched.set(positions.iter().map(|position| at(all, *position).unwrap_or(0)).collect());
        }
        Arc::new(Self {
            lane: Arc::clone(&self.lane),
            request: self.request.clone(),
            profile: self.profile,
            endpoints: positions.iter().filter_map(|position| self.at(*position)).cloned().collect(),
            now: self.now,
            columns: Mutex::new(columns),
            matched,
        })
    }

    /// The columns that were read.
    pub(super) fn columns_read(&self) -> Columns {
        self.columns.lock().clone()
    }

    /// The whole column, NaN where a value is not known; none for a handle that nobody resolved.
    pub(super) fn whole_column(&self, id: ColumnId) -> Option<Arc<[f32]>> {
        if let Some((_, values)) = self.columns.lock().iter().find(|(known, _)| *known == id) {
            return Some(Arc::clone(values));
        }
        let values: Arc<[f32]> = match self.lane.registry.get(id)? {
            Column::Builtin(builtin) => self.builtin(builtin),
            Column::Label(key) => self.each(|endpoint| match endpoint.label(&key) {
                Some(text) => self.lane.registry.intern(&key, text),
                None => f32::NAN,
            }),
            Column::Metric(series) => {
                self.each(|endpoint| endpoint.report().series.get(series).copied().unwrap_or(f32::NAN))
            }
        };
        self.columns.lock().push((id, Arc::clone(&values)));
        Some(values)
    }

    fn each(&self, value: impl Fn(&Endpoint) -> f32) -> Arc<[f32]> {
        self.endpoints.iter().map(|endpoint| value(endpoint)).collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "columns are f32 by contract")]
    fn builtin(&self, column: Builtin) -> Arc<[f32]> {
        match column {
            Builtin::PrefixTokens | Builtin::PrefixGpuTokens => self.prefix(|tokens| tokens as f32),
            Builtin::PrefixRatio => {
                let all = self.request.as_ref().map_or(0, |request| request.prompt_tokens).max(1) as f32;
                self.prefix(|tokens| tokens as f32 / all)
            }
            Builtin::PrefixCpuTokens => self.prefix(|_| 0.0),
            Builtin::PrefixRendezvous => self.rendezvous(),
            Builtin::SessionAffinity => self.session(),
            Builtin::LoadRequests => self.each(|endpoint| endpoint.load.requests() as f32),
            Builtin::LoadPrefillTokens => self.each(|endpoint| endpoint.load.prefill_tokens() as f32),
            Builtin::LoadDecodeTokens => self.each(|endpoint| endpoint.load.decode_tokens() as f32),
            Builtin::EngineWaiting => self.each(|endpoint| endpoint.engine.waiting()),
            Builtin::EngineRunning => self.each(|endpoint| endpoint.engine.running()),
            Builtin::EngineKvUsage => self.each(|endpoint| endpoint.engine.kv_usage()),
            Builtin::EnginePreemptions => self.each(|endpoint| endpoint.engine.preemptions()),
            Builtin::EngineMetricsAgeMs => self.each(|endpoint| endpoint.engine.age_ms(self.now)),
            Builtin::LatencyTtftMs => self.each(|endpoint| endpoint.latency.ttft_ms()),
            Builtin::LatencyTpotMs => self.each(|endpoint| endpoint.latency.tpot_ms()),
            Builtin::RatePrefill => self.each(|endpoint| endpoint.latency.prefill_tokens_per_s()),
            Builtin::HealthSuccessRatio => self.each(|endpoint| endpoint.health.success_ratio()),
            Builtin::RolePrefill => self.each(|endpoint| f32::from(u8::from(endpoint.role.prefills()))),
            Builtin::RoleDecode => self.each(|endpoint| f32::from(u8::from(endpoint.role.decodes()))),
            Builtin::Weight => self.each(|endpoint| endpoint.weight),
            Builtin::LoraActive => self.lora_active(),
            Builtin::LoraFree => self.each(lora_free),
            _ => self.each(|_| f32::NAN),
        }
    }

    fn prefix(&self, value: impl Fn(u32) -> f32) -> Arc<[f32]> {
        let Some((request, source)) =
            self.request.as_ref().and_then(|request| Some((request, request.prefix.as_ref()?)))
        else {
            return self.each(|_| 0.0);
        };
        let matched = self.matched.get_or_init(|| {
            let ids: Vec<_> = self.endpoints.iter().map(|endpoint| endpoint.id).collect();
            let mut matched = Vec::with_capacity(ids.len());
            self.lane.index.lookup(source.hashes(), &ids, &mut matched);
            matched
        });
        let tokens = |blocks: &u32| blocks.saturating_mul(source.block_tokens()).min(request.prompt_tokens);
        matched.iter().map(|blocks| value(tokens(blocks))).collect()
    }

    fn rendezvous(&self) -> Arc<[f32]> {
        let hashes = self.request.as_ref().map_or(&[][..], |request| request.prefix_hashes());
        match hashes.get(..RENDEZVOUS_BLOCKS.min(hashes.len())).and_then(<[u64]>::last) {
            Some(hash) => self.each(|endpoint| rendezvous::weight(endpoint.key, *hash)),
            None => self.each(|_| f32::NAN),
        }
    }

    fn session(&self) -> Arc<[f32]> {
        let session = self.request.as_ref().and_then(|request| request.session.as_deref());
        let last = session.and_then(|session| self.lane.sessions.get(session, self.now));
        self.each(|endpoint| f32::from(u8::from(last.is_some_and(|(id, _)| id == endpoint.id))))
    }

    fn lora_active(&self) -> Arc<[f32]> {
        let adapter = self.request.as_ref().and_then(|request| request.adapter.as_deref());
        self.each(|endpoint| {
            let loaded = adapter.is_some_and(|adapter| {
                endpoint.report().lora_active.iter().any(|active| &**active == adapter)
            });
            f32::from(u8::from(loaded))
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "columns are f32 by contract")]
fn lora_free(endpoint: &Endpoint) -> f32 {
    let report = endpoint.report();
    match report.lora_max {
        Some(max) => (max as f32 - report.lora_active.len() as f32).max(0.0),
        None => f32::NAN,
    }
}

fn at<T: Copy>(values: &[T], position: u32) -> Option<T> {
    values.get(usize::try_from(position).ok()?).copied()
}

impl EndpointView for Candidates {
    fn len(&self) -> usize {
        self.endpoints.len()
    }

    fn profile(&self) -> Profile {
        self.profile
    }

    fn ids(&self) -> Vec<u32> {
        self.endpoints.iter().map(|endpoint| endpoint.id.0).collect()
    }

    fn keys(&self) -> Vec<u64> {
        self.endpoints.iter().map(|endpoint| endpoint.key.0).collect()
    }

    fn column(&self, column: ColumnId, missing: f32) -> Option<Vec<f32>> {
        let values = self.whole_column(column)?;
        Some(values.iter().map(|value| if value.is_nan() { missing } else { *value }).collect())
    }

    fn label(&self, position: usize, key: &str) -> Option<String> {
        self.endpoints.get(position)?.label(key).map(str::to_owned)
    }
}
