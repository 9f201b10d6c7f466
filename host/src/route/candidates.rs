//! The endpoints of one judgement, in columns.
//!
//! A column is computed when a policy first reads it and kept: every policy of the request sees the same numbers,
//! and what was read is what the explanation shows. What is read from the endpoints themselves is computed together
//! for all columns that the chain's policies resolved, in one pass: at thousands of endpoints each pass costs as much
//! in cache misses as all the values that it reads. Unknown values are NaN inside and replaced by the reader's own
//! `missing`.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::columns::Columns;
use super::shadow::Frozen;
use super::{Holding, Lane};
use crate::clock::Nanos;
use crate::policy::{Builtin, Column, ColumnId, EndpointView, Request};
use crate::pool::Endpoint;
use crate::prefix::exact::Known;
use crate::prefix::rendezvous;
use crate::types::Profile;

/// Blocks from the start of a prompt whose hash decides the rendezvous: enough to tell one system prompt
/// from another, few enough that the turns of a conversation agree.
const RENDEZVOUS_BLOCKS: usize = 4;

/// A set of endpoints to be judged for one request.
#[derive(Debug)]
pub struct Candidates {
    lane: Arc<Lane>,
    request: Option<Arc<Request>>,
    profile: Profile,
    endpoints: Arc<Vec<Arc<Endpoint>>>,
    /// Columns that the chain's policies resolved.
    resolved: Arc<[ColumnId]>,
    now: Nanos,
    columns: Mutex<Columns>,
    holdings: OnceLock<Vec<Holding>>,
}

impl Candidates {
    pub(super) fn new(
        lane: Arc<Lane>,
        request: Option<Arc<Request>>,
        profile: Profile,
        endpoints: Arc<Vec<Arc<Endpoint>>>,
        resolved: Arc<[ColumnId]>,
        now: Nanos,
    ) -> Arc<Self> {
        let columns = Mutex::new(Columns::of(endpoints.len()));
        Arc::new(Self {
            lane,
            request,
            profile,
            endpoints,
            resolved,
            now,
            columns,
            holdings: OnceLock::new(),
        })
    }

    /// The endpoints, by position.
    #[must_use]
    pub fn endpoints(&self) -> &Arc<Vec<Arc<Endpoint>>> {
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

    /// The candidates at these positions, in this order, with the values that were computed so far.
    #[must_use]
    pub fn subset(&self, positions: &[u32]) -> Arc<Self> {
        let holdings = OnceLock::new();
        if let Some(all) = self.holdings.get() {
            let at =
                |position: &u32| usize::try_from(*position).ok().and_then(|index| all.get(index)).copied();
            let at = |position| at(position).unwrap_or(Holding::NOTHING);
            let _ = holdings.set(positions.iter().map(at).collect());
        }
        Arc::new(Self {
            lane: Arc::clone(&self.lane),
            request: self.request.clone(),
            profile: self.profile,
            endpoints: Arc::new(
                positions.iter().filter_map(|position| self.at(*position)).cloned().collect(),
            ),
            resolved: Arc::clone(&self.resolved),
            now: self.now,
            columns: Mutex::new(self.columns.lock().subset(positions)),
            holdings,
        })
    }

    /// When they were brought together.
    pub(super) fn at_time(&self) -> Nanos {
        self.now
    }

    /// On what the columns of the prefix rest, by position; empty when nobody read any.
    pub(super) fn known(&self) -> Vec<Known> {
        self.holdings.get().into_iter().flatten().map(|holding| holding.known).collect()
    }

    /// Prompt tokens that the endpoint at a position holds; none when nobody read a column of the prefix.
    pub(super) fn held_at(&self, position: u32) -> Option<u32> {
        Some(self.holdings.get()?.get(usize::try_from(position).ok()?)?.tokens)
    }

    /// What was computed and read, for the explanation. Nothing is left of it here.
    pub(super) fn take_columns(&self) -> Columns {
        std::mem::replace(&mut *self.columns.lock(), Columns::of(self.endpoints.len()))
    }

    /// The candidates with every column that the chain's policies and shadows resolved, as they are now: whoever is
    /// asked later sees what those saw that are asked now.
    #[must_use]
    pub fn freeze(&self) -> Arc<Frozen> {
        let mut columns = self.columns.lock();
        for id in self.resolved.iter() {
            if columns.get(*id).is_none() {
                self.compute(&mut columns, *id);
            }
        }
        Arc::new(Frozen::new(self.profile, Arc::clone(&self.endpoints), columns.freeze()))
    }

    /// Reads the same columns as `other` did: for an explanation that shows every candidate, not only those that
    /// filters left.
    pub(super) fn read_like(&self, other: &Self) {
        let read = other.columns.lock().ids_read();
        for id in read {
            let _ = self.read(id, |_| ());
        }
    }

    /// Shows a column to `read`; none for a handle that nobody resolved.
    fn read<R>(&self, id: ColumnId, read: impl FnOnce(&[f32]) -> R) -> Option<R> {
        let mut columns = self.columns.lock();
        if columns.get(id).is_none() {
            self.compute(&mut columns, id)?;
        }
        columns.read(id).map(read)
    }

    fn compute(&self, columns: &mut Columns, id: ColumnId) -> Option<()> {
        match self.lane.registry.get(id)? {
            Column::Builtin(builtin) if of_endpoint(builtin).is_some() => {
                self.compute_together(columns, builtin)
            }
            Column::Builtin(builtin) => columns.add(vec![id], self.of_request(builtin)),
            Column::Label(key) => columns.add(
                vec![id],
                self.each(|endpoint| match endpoint.label(&key) {
                    Some(text) => self.lane.registry.intern(&key, text),
                    None => f32::NAN,
                }),
            ),
            Column::Metric(series) => columns.add(
                vec![id],
                self.each(|endpoint| endpoint.report().series.get(series).copied().unwrap_or(f32::NAN)),
            ),
        }
        Some(())
    }

    /// Computes a column, and with it every other of its kind that the chain's policies resolved.
    fn compute_together(&self, columns: &mut Columns, asked: Builtin) {
        let resolved = self.resolved.iter().filter_map(|id| match self.lane.registry.get(*id)? {
            Column::Builtin(builtin) => Some(builtin),
            _ => None,
        });
        let wanted: Vec<Builtin> = resolved
            .filter(|builtin| {
                of_endpoint(*builtin).is_some() && *builtin != asked && columns.get(builtin.id()).is_none()
            })
            .chain([asked])
            .collect();
        let readings: Vec<_> = wanted.iter().filter_map(|builtin| of_endpoint(*builtin)).collect();
        let len = self.endpoints.len();
        let mut values = vec![f32::NAN; wanted.len() * len];
        for (row, endpoint) in self.endpoints.iter().enumerate() {
            for (column, read) in readings.iter().enumerate() {
                if let Some(value) = values.get_mut(column * len + row) {
                    *value = read(endpoint, self.now);
                }
            }
        }
        columns.add(wanted.into_iter().map(Builtin::id).collect(), values);
    }

    fn each(&self, value: impl Fn(&Endpoint) -> f32) -> Vec<f32> {
        self.endpoints.iter().map(|endpoint| value(endpoint)).collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "columns are f32 by contract")]
    fn of_request(&self, column: Builtin) -> Vec<f32> {
        match column {
            Builtin::PrefixTokens => self.prefix(|holding| holding.tokens as f32),
            Builtin::PrefixGpuTokens => self.prefix(|holding| holding.gpu as f32),
            Builtin::PrefixCpuTokens => self.prefix(|holding| holding.cpu as f32),
            Builtin::PrefixDiskTokens => self.prefix(|holding| holding.disk as f32),
            Builtin::PrefixRatio => {
                let all = self.request.as_ref().map_or(0, |request| request.prompt_tokens).max(1) as f32;
                self.prefix(|holding| holding.tokens as f32 / all)
            }
            Builtin::PrefixOccupancy => self.occupancy(),
            Builtin::PrefixRendezvous => self.rendezvous(),
            Builtin::SessionAffinity => self.known_at(|request| request.session.as_deref()),
            Builtin::SessionState => self.known_at(|request| request.continues.as_deref()),
            Builtin::LoraActive => self.lora_active(),
            _ => self.each(|_| f32::NAN),
        }
    }

    fn prefix(&self, value: impl Fn(&Holding) -> f32) -> Vec<f32> {
        let Some(request) = &self.request else { return self.each(|_| 0.0) };
        let holdings = self.holdings.get_or_init(|| self.lane.holdings(request, &self.endpoints));
        holdings.iter().map(value).collect()
    }

    fn occupancy(&self) -> Vec<f32> {
        let source = self.request.as_ref().and_then(|request| request.prefix.as_ref());
        let Some(source) = source else { return self.each(|_| f32::NAN) };
        self.lane.occupancy(&self.endpoints, source.block_tokens())
    }

    fn rendezvous(&self) -> Vec<f32> {
        let hashes = self.request.as_ref().map_or(&[][..], |request| request.prefix_hashes());
        match hashes.get(..RENDEZVOUS_BLOCKS.min(hashes.len())).and_then(<[u64]>::last) {
            Some(hash) => self.each(|endpoint| rendezvous::weight(endpoint.key, *hash)),
            None => self.each(|_| f32::NAN),
        }
    }

    /// 1 at the endpoint where something of the request's was seen last.
    fn known_at(&self, name: impl Fn(&Request) -> Option<&str>) -> Vec<f32> {
        let name = self.request.as_deref().and_then(name);
        let last = name.and_then(|name| self.lane.sessions.get(name, self.now));
        self.each(|endpoint| f32::from(u8::from(last.is_some_and(|(id, _)| id == endpoint.id))))
    }

    fn lora_active(&self) -> Vec<f32> {
        let adapter = self.request.as_ref().and_then(|request| request.adapter.as_deref());
        self.each(|endpoint| {
            let loaded = adapter.is_some_and(|adapter| {
                endpoint.report().lora_active.iter().any(|active| &**active == adapter)
            });
            f32::from(u8::from(loaded))
        })
    }
}

/// How a column is read from an endpoint; none for those that need the request or flows.
#[expect(clippy::cast_precision_loss, reason = "columns are f32 by contract")]
fn of_endpoint(column: Builtin) -> Option<fn(&Endpoint, Nanos) -> f32> {
    Some(match column {
        Builtin::LoadRequests => |endpoint, _| endpoint.load.requests() as f32,
        Builtin::LoadDecoding => |endpoint, _| endpoint.load.decoding() as f32,
        Builtin::LoadPrefillTokens => |endpoint, _| endpoint.load.prefill_tokens() as f32,
        Builtin::LoadDecodeTokens => |endpoint, _| endpoint.load.decode_tokens() as f32,
        Builtin::EngineWaiting => |endpoint, _| endpoint.engine.waiting(),
        Builtin::EngineRunning => |endpoint, _| endpoint.engine.running(),
        Builtin::EngineKvUsage => |endpoint, _| endpoint.engine.kv_usage(),
        Builtin::EnginePreemptions => |endpoint, _| endpoint.engine.preemptions(),
        Builtin::EngineKvTokens => |endpoint, _| endpoint.engine.kv_tokens(),
        Builtin::LimitRequests => |endpoint, _| endpoint.limit.requests(),
        Builtin::EngineMetricsAgeMs => |endpoint, now| endpoint.engine.age_ms(now),
        Builtin::LatencyTtftMs => |endpoint, _| endpoint.latency.ttft_ms(),
        Builtin::LatencyTpotMs => |endpoint, _| endpoint.latency.tpot_ms(),
        Builtin::LatencyLeastTpotMs => |endpoint, _| endpoint.latency.least_tpot_ms(),
        Builtin::LatencyAnswerMs => |endpoint, _| endpoint.latency.answer_ms(),
        Builtin::LatencyPrefillMs => |endpoint, _| endpoint.latency.prefill_ms(),
        Builtin::LatencyTransferMs => |endpoint, _| endpoint.latency.transfer_ms(),
        Builtin::RatePrefill => |endpoint, _| endpoint.latency.prefill_tokens_per_s(),
        Builtin::RateTransfer => |endpoint, _| endpoint.latency.transfer_tokens_per_s(),
        Builtin::HealthSuccessRatio => |endpoint, _| endpoint.health.success_ratio(),
        Builtin::RolePrefill => |endpoint, _| f32::from(u8::from(endpoint.role.prefills())),
        Builtin::RoleDecode => |endpoint, _| f32::from(u8::from(endpoint.role.decodes())),
        Builtin::Weight => |endpoint, _| endpoint.weight,
        Builtin::LoraFree => |endpoint, _| lora_free(endpoint),
        _ => return None,
    })
}

#[expect(clippy::cast_precision_loss, reason = "columns are f32 by contract")]
fn lora_free(endpoint: &Endpoint) -> f32 {
    let report = endpoint.report();
    match report.lora_max {
        Some(max) => (max as f32 - report.lora_active.len() as f32).max(0.0),
        None => f32::NAN,
    }
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
        let known = |values: &[f32]| {
            values.iter().map(|value| if value.is_nan() { missing } else { *value }).collect()
        };
        self.read(column, known)
    }

    fn columns(&self, wanted: &[(ColumnId, f32)]) -> Vec<f32> {
        let mut all = Vec::with_capacity(wanted.len() * self.endpoints.len());
        for (column, missing) in wanted {
            let known = |values: &[f32]| {
                all.extend(values.iter().map(|value| if value.is_nan() { *missing } else { *value }));
            };
            if self.read(*column, known).is_none() {
                all.resize(all.len() + self.endpoints.len(), *missing);
            }
        }
        all
    }

    fn label(&self, position: usize, key: &str) -> Option<String> {
        self.endpoints.get(position)?.label(key).map(str::to_owned)
    }

    fn labels(&self, position: usize) -> Vec<(Box<str>, Box<str>)> {
        self.endpoints.get(position).map(|endpoint| endpoint.labels.clone()).unwrap_or_default()
    }
}
