//! Column names and their handles.
//!
//! The host's own columns have fixed handles, the numbers of [`Builtin`]. `label:KEY` and
//! `metric:SERIES` get handles as plugins resolve them; they are kept for the life of the process, so
//! a handle stays valid however often plugins are swapped.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;

use super::series::Series;

/// Handle of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ColumnId(pub u32);

/// Names under `label:` and `metric:` that one process keeps at most. A plugin that makes up names
/// without end is refused instead of filling the memory.
const MAX_DYNAMIC: usize = 4_096;

macro_rules! builtins {
    ($($variant:ident = $name:literal: $doc:literal,)*) => {
        /// A column that the host itself knows.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Builtin {
            $(#[doc = $doc] $variant,)*
        }

        impl Builtin {
            /// Every built-in column, in the order of the handles.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name by which plugins resolve it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

builtins! {
    PrefixTokens = "prefix.tokens": "Prompt tokens that the endpoint is believed to hold, from the first on.",
    PrefixRatio = "prefix.ratio": "The same as a share of the prompt, 0..=1.",
    PrefixGpuTokens = "prefix.gpu_tokens": "Of them, tokens in GPU memory.",
    PrefixOccupancy = "prefix.occupancy": "Share of the endpoint's KV cache that known prefixes fill, 0..=1.",
    PrefixCpuTokens = "prefix.cpu_tokens": "Of them, tokens in CPU memory.",
    PrefixDiskTokens = "prefix.disk_tokens": "Of them, tokens further away: on disks, at other machines.",
    PrefixRendezvous = "prefix.rendezvous": "Rendezvous weight of the prompt's first blocks and the endpoint, 0..=1.",
    SessionAffinity = "session.affinity": "1 at the endpoint that served the session last, else 0.",
    SessionState = "session.state": "1 at the endpoint that has kept the answer which the request continues, else 0.",
    LoadRequests = "load.requests": "Requests of ours that run there.",
    LoadDecoding = "load.decoding": "Of them, those that decode.",
    LoadPrefillTokens = "load.prefill_tokens": "Uncached prompt tokens sent and not yet answered by a first token.",
    LoadDecodeTokens = "load.decode_tokens": "Tokens in the contexts of requests that decode there.",
    LimitRequests = "limit.requests": "Requests that the endpoint serves well at once; learned.",
    EngineWaiting = "engine.waiting": "Requests that wait inside the engine.",
    EngineRunning = "engine.running": "Requests that run inside the engine.",
    EngineKvUsage = "engine.kv_usage": "Share of the KV cache in use, 0..=1.",
    EnginePreemptions = "engine.preemptions": "Preemptions since the engine started.",
    EngineKvTokens = "engine.kv_tokens": "Tokens that the engine's KV cache holds.",
    EngineMetricsAgeMs = "engine.metrics_age_ms": "Milliseconds since the engine's metrics were read.",
    LatencyTtftMs = "latency.ttft_ms": "Moving average of the time to first token, milliseconds.",
    LatencyTpotMs = "latency.tpot_ms": "Moving average of the time per output token, milliseconds.",
    LatencyLeastTpotMs = "latency.least_tpot_ms": "The least that this average has been, milliseconds.",
    LatencyAnswerMs = "latency.answer_ms": "Moving average of the time from the first token of an answer to its last, milliseconds.",
    LatencyPrefillMs = "latency.prefill_ms": "What prefilling takes there however short the prompt is, milliseconds.",
    LatencyTransferMs = "latency.transfer_ms": "What taking over a cache takes there however short it is, milliseconds.",
    RatePrefill = "rate.prefill_tokens_per_s": "Measured prefill rate, tokens per second, without what every request takes.",
    RateTransfer = "rate.transfer_tokens_per_s": "Measured rate at which it takes over caches from others, tokens per second.",
    HealthSuccessRatio = "health.success_ratio": "Moving share of requests that succeeded, 0..=1.",
    RolePrefill = "role.prefill": "1 where prefill legs may go, else 0.",
    RoleDecode = "role.decode": "1 where clients may be answered from, else 0.",
    Weight = "weight": "The endpoint's configured weight.",
    LoraActive = "lora.active": "1 where the request's adapter is loaded, else 0.",
    LoraFree = "lora.free": "Adapters that may still be loaded.",
    FlowBand = "flow.band": "Band of the flow's waiting requests.",
    FlowLength = "flow.length": "Requests that wait.",
    FlowHeadAgeMs = "flow.head_age_ms": "Milliseconds that the head has waited.",
    FlowHeadCost = "flow.head_cost": "Cost of the head, tokens.",
    FlowHeadRank = "flow.head_rank": "Rank of the head.",
    FlowHeadDeadlineMs = "flow.head_deadline_ms": "Milliseconds until the head expires.",
    FlowWeight = "flow.weight": "The flow's weight.",
    FlowInflightTokens = "flow.inflight_tokens": "Tokens of the flow's requests that run.",
    FlowServedTokens = "flow.served_tokens": "Tokens served since the flow exists.",
    EventKind = "event.kind": "0 dispatched, 1 first token, 2 completed, 3 failed, 4 cancelled.",
    EventFlow = "event.flow": "The flow's handle.",
    EventBand = "event.band": "Band that the request was placed in.",
    EventEndpoint = "event.endpoint": "The endpoint's handle.",
    EventAtMs = "event.at_ms": "Milliseconds of the host's clock.",
    EventPromptTokens = "event.prompt_tokens": "Prompt length, tokens.",
    EventCachedTokens = "event.cached_tokens": "Prompt tokens found in the engine's cache.",
    EventOutputTokens = "event.output_tokens": "Output tokens so far.",
}

impl Builtin {
    /// Whether the column needs the prefix index.
    #[must_use]
    pub fn reads_prefix(self) -> bool {
        matches!(
            self,
            Self::PrefixTokens
                | Self::PrefixRatio
                | Self::PrefixGpuTokens
                | Self::PrefixCpuTokens
                | Self::PrefixDiskTokens
        )
    }

    /// The column's handle.
    #[must_use]
    pub fn id(self) -> ColumnId {
        ColumnId(self as u32)
    }
}

/// What a handle stands for.
#[derive(Debug, Clone)]
pub enum Column {
    /// One of the host's own.
    Builtin(Builtin),
    /// `label:KEY`: the interned text of that label.
    Label(Arc<str>),
    /// `metric:SERIES`: the position in what scraping keeps of each endpoint.
    Metric(usize),
}

/// A name that is no column.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// Nothing has this name.
    #[error("no column is named `{name}`; nearest: {nearest}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The nearest known names.
        nearest: String,
    },
    /// The text after `metric:` cannot be read.
    #[error("`{name}` is no series: {problem}")]
    Series {
        /// The name asked for.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The process keeps no more names.
    #[error("`{0}` would be one column too many: this process keeps {MAX_DYNAMIC} label and metric columns")]
    TooMany(String),
}

#[derive(Debug, Default)]
struct Dynamic {
    columns: Vec<(Arc<str>, Column)>,
    by_name: HashMap<Arc<str>, ColumnId>,
    series: Arc<[Series]>,
    labels: HashMap<(Box<str>, Box<str>), u32>,
}

/// All names that have been resolved in this process.
#[derive(Debug, Default)]
pub struct Registry {
    dynamic: RwLock<Dynamic>,
    prefix: AtomicBool,
}

impl Registry {
    /// The handle of a name.
    ///
    /// # Errors
    /// When nothing has that name, with the nearest that exist.
    pub fn resolve(&self, name: &str) -> Result<ColumnId, ResolveError> {
        if let Some(builtin) = Builtin::ALL.iter().find(|builtin| builtin.name() == name) {
            if builtin.reads_prefix() {
                self.prefix.store(true, Ordering::Relaxed);
            }
            return Ok(builtin.id());
        }
        let series = match name.split_once(':') {
            Some(("label", key)) if !key.is_empty() => None,
            Some(("metric", series)) => Some(
                Series::parse(series)
                    .map_err(|problem| ResolveError::Series { name: name.into(), problem })?,
            ),
            _ => return Err(unknown(name)),
        };
        self.dynamic.write().add(name, series)
    }

    /// Whether a name is one of those that get a handle as they are resolved.
    #[must_use]
    pub fn is_dynamic(&self, name: &str) -> bool {
        name.starts_with("label:") || name.starts_with("metric:")
    }

    /// The handle that such a name has, if it was resolved before.
    #[must_use]
    pub fn known(&self, name: &str) -> Option<ColumnId> {
        self.dynamic.read().by_name.get(name).copied()
    }

    /// What a handle stands for.
    #[must_use]
    pub fn get(&self, id: ColumnId) -> Option<Column> {
        let index = usize::try_from(id.0).ok()?;
        match Builtin::ALL.get(index) {
            Some(builtin) => Some(Column::Builtin(*builtin)),
            None => {
                let dynamic = self.dynamic.read();
                dynamic.columns.get(index - Builtin::ALL.len()).map(|(_, column)| column.clone())
            }
        }
    }

    /// The name of a handle.
    #[must_use]
    pub fn name(&self, id: ColumnId) -> Option<Arc<str>> {
        let index = usize::try_from(id.0).ok()?;
        match Builtin::ALL.get(index) {
            Some(builtin) => Some(builtin.name().into()),
            None => {
                let dynamic = self.dynamic.read();
                dynamic.columns.get(index - Builtin::ALL.len()).map(|(name, _)| Arc::clone(name))
            }
        }
    }

    /// Whether any policy has resolved a column that needs the prefix index.
    #[must_use]
    pub fn wants_prefix(&self) -> bool {
        self.prefix.load(Ordering::Relaxed)
    }

    /// The engines' series that policies have resolved, in the order of [`Column::Metric`].
    #[must_use]
    pub fn series(&self) -> Arc<[Series]> {
        Arc::clone(&self.dynamic.read().series)
    }

    /// The number that stands for this text in a `label:KEY` column.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "bounded far below the 2^24 that f32 counts exactly")]
    pub fn intern(&self, key: &str, text: &str) -> f32 {
        self.number(key, text).unwrap_or_else(|| {
            let mut dynamic = self.dynamic.write();
            let next = u32::try_from(dynamic.labels.len()).unwrap_or(u32::MAX);
            *dynamic.labels.entry((key.into(), text.into())).or_insert(next)
        }) as f32
    }

    /// The number that stands for this text, if it has one. A text without one is the label of no endpoint.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "bounded far below the 2^24 that f32 counts exactly")]
    pub fn interned(&self, key: &str, text: &str) -> Option<f32> {
        self.number(key, text).map(|number| number as f32)
    }

    fn number(&self, key: &str, text: &str) -> Option<u32> {
        self.dynamic.read().labels.get(&(Box::from(key), Box::from(text))).copied()
    }
}

impl Dynamic {
    fn add(&mut self, name: &str, series: Option<Series>) -> Result<ColumnId, ResolveError> {
        if let Some(id) = self.by_name.get(name) {
            return Ok(*id);
        }
        if self.columns.len() >= MAX_DYNAMIC {
            return Err(ResolveError::TooMany(name.into()));
        }
        let column = match series {
            Some(series) => {
                let position = self.series.len();
                self.series = self.series.iter().cloned().chain([series]).collect();
                Column::Metric(position)
            }
            None => Column::Label(name.trim_start_matches("label:").into()),
        };
        let id = ColumnId(u32::try_from(Builtin::ALL.len() + self.columns.len()).unwrap_or(u32::MAX));
        let name: Arc<str> = name.into();
        self.columns.push((Arc::clone(&name), column));
        self.by_name.insert(name, id);
        Ok(id)
    }
}

fn unknown(name: &str) -> ResolveError {
    let mut names: Vec<(usize, &str)> = Builtin::ALL
        .iter()
        .map(|builtin| (strsim::levenshtein(builtin.name(), name), builtin.name()))
        .collect();
    names.sort_unstable();
    let nearest = names.iter().take(3).map(|(_, near)| format!("`{near}`")).collect::<Vec<_>>().join(", ");
    ResolveError::Unknown { name: name.into(), nearest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_builtins_are_their_numbers() {
        let registry = Registry::default();
        for builtin in Builtin::ALL {
            assert_eq!(registry.resolve(builtin.name()), Ok(builtin.id()));
            assert_eq!(registry.name(builtin.id()).as_deref(), Some(builtin.name()));
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest() {
        let error = Registry::default().resolve("prefix.token").unwrap_err();
        assert!(error.to_string().contains("`prefix.tokens`"), "{error}");
    }

    #[test]
    fn labels_and_metrics_resolve_once() {
        let registry = Registry::default();
        let zone = registry.resolve("label:zone").unwrap();
        let metric = registry.resolve("metric:vllm:num_requests_swapped{engine=0}").unwrap();
        assert_ne!(zone, metric);
        assert_eq!(registry.resolve("label:zone"), Ok(zone));
        assert_eq!(registry.series().len(), 1);
        assert!(matches!(registry.get(zone), Some(Column::Label(key)) if &*key == "zone"));
        assert!(registry.resolve("metric:{").is_err());
    }

    #[test]
    fn equal_texts_have_equal_numbers() {
        let registry = Registry::default();
        let a = registry.intern("zone", "a");
        assert_eq!(registry.intern("zone", "a").to_bits(), a.to_bits());
        assert_ne!(registry.intern("zone", "b").to_bits(), a.to_bits());
    }
}
