//! What happens to requests, counted.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeLabelSet, prometheus_text, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use super::split::{SplitFamilies, SplitMetrics};
use super::{Page, Usage};
use crate::types::Api;

const PREFIX: &str = "sluicegate";

/// Upper bounds in seconds. A first token may come from a warm cache in milliseconds or after minutes in a
/// queue; the steps are about half a decade, finer where service levels usually lie.
const TTFT: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0,
    120.0,
];
const REQUEST: &[f64] =
    &[0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_200.0];
const TOKENIZE: &[f64] = &[0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5];
/// True waits as multiples of what was estimated.
const ESTIMATES: &[f64] = &[0.1, 0.25, 0.5, 0.8, 1.0, 1.25, 2.0, 4.0, 10.0];
const QUEUE: &[f64] = &[0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];

/// Tokens: one block of most engines, and from there in steps of four.
const ERROR: &[f64] = &[0.0, 16.0, 64.0, 256.0, 1_024.0, 4_096.0, 16_384.0];

/// A text format of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    /// The format to answer an `accept` header with.
    #[must_use]
    pub fn accepted(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// The `content-type` of a page in this format.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfPool {
    pub(super) pool: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfRequest {
    pool: Arc<str>,
    api: &'static str,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfReason {
    pool: Arc<str>,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfOutcome {
    pub(super) pool: Arc<str>,
    pub(super) outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfReport {
    pool: Arc<str>,
    reported: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfError {
    pool: Arc<str>,
    found: &'static str,
}

/// The greatest band that has a line of its own.
const MOST_BAND: i32 = 10;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfBand {
    pool: Arc<str>,
    band: i32,
}

/// The bounds of a family of histograms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds(pub(super) &'static [f64]);

impl MetricConstructor<Histogram> for Bounds {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

pub(super) type Counters<L> = Family<L, Counter>;
pub(super) type Histograms = Family<OfPool, Histogram, Bounds>;

/// All counters of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    names: Vec<&'static str>,
    families: Families,
    pools: Mutex<HashMap<Box<str>, Arc<PoolMetrics>>>,
    usage: Arc<Usage>,
}

#[derive(Debug)]
struct Families {
    requests: Counters<OfRequest>,
    request_seconds: Histograms,
    ttft_seconds: Histograms,
    queue_seconds: Histograms,
    band_seconds: Family<OfBand, Histogram, Bounds>,
    estimates: Histograms,
    refused: Counters<OfReason>,
    retries: Counters<OfPool>,
    aborted: Counters<OfPool>,
    prompt_tokens: Counters<OfPool>,
    predicted: Counters<OfReport>,
    reported: Counters<OfPool>,
    prediction_error: Family<OfError, Histogram, Bounds>,
    output_tokens: Counters<OfPool>,
    tokenized: Counters<OfOutcome>,
    tokenize_seconds: Histograms,
    split: SplitFamilies,
}

/// The counters of one pool.
#[derive(Debug)]
pub struct PoolMetrics {
    pool: Arc<str>,
    requests: Counters<OfRequest>,
    request_seconds: Histogram,
    ttft_seconds: Histogram,
    queue_seconds: Histogram,
    band_seconds: Family<OfBand, Histogram, Bounds>,
    estimates: Histogram,
    refused: Counters<OfReason>,
    retries: Counter,
    aborted: Counter,
    prompt_tokens: Counter,
    /// Of requests whose engine said how much it had, and of the others.
    predicted: [Counter; 2],
    reported: Counter,
    /// Of requests whose engine found less than was predicted, as much, and more.
    prediction_error: [Histogram; 3],
    output_tokens: Counter,
    tokenized: Counters<OfOutcome>,
    tokenize_seconds: Histogram,
    /// Of legs at other endpoints.
    pub split: SplitMetrics,
}

impl Metrics {
    /// Metrics that have counted nothing yet.
    #[must_use]
    pub fn new() -> Arc<Self> {
        let mut to = Register { registry: Registry::with_prefix(PREFIX), names: Vec::new() };
        let families = Families {
            requests: to.add("requests", "Requests that were answered", Family::default()),
            request_seconds: to.histograms("request_seconds", "From a request's arrival to the end of its answer", REQUEST),
            ttft_seconds: to.histograms("ttft_seconds", "From a request's arrival to the first token of its answer", TTFT),
            queue_seconds: to.histograms("queue_seconds", "Time that requests waited before they were dispatched", QUEUE),
            band_seconds: to.add(
                "queue_band_seconds",
                "The same by band; those beyond 10 either way count as one",
                Family::new_with_constructor(Bounds(QUEUE)),
            ),
            estimates: to.histograms(
                "queue_estimate_ratio",
                "How long requests waited, as a multiple of what was estimated when they came",
                ESTIMATES,
            ),
            refused: to.add("requests_refused", "Requests that were not dispatched, by reason", Family::default()),
            retries: to.add("retries", "Attempts after the first one", Family::default()),
            aborted: to.add("requests_aborted", "Requests whose client went away", Family::default()),
            prompt_tokens: to.add("prompt_tokens", "Tokens of prompts that were dispatched", Family::default()),
            predicted: to.add(
                "predicted_cached_tokens",
                "Of them, tokens believed to be in the endpoint's cache, by whether the engine reported how many were",
                Family::default(),
            ),
            reported: to.add("reported_cached_tokens", "Prompt tokens that engines reported as cached", Family::default()),
            prediction_error: to.add(
                "prediction_error_tokens",
                "By how many tokens engines found less or more of a prompt in their caches than was predicted",
                Family::new_with_constructor(Bounds(ERROR)),
            ),
            output_tokens: to.add("output_tokens", "Tokens of answers", Family::default()),
            tokenized: to.add(
                "tokenized_requests",
                "Requests that a tokenizer was asked about, by what it came to",
                Family::default(),
            ),
            tokenize_seconds: to.histograms("tokenize_seconds", "Time that requests waited for their tokens", TOKENIZE),
            split: SplitFamilies::new(&mut to),
        };
        let Register { registry, names } = to;
        Arc::new(Self { registry, names, families, pools: Mutex::default(), usage: Arc::default() })
    }

    /// What clients hold, and how often a bound was met.
    #[must_use]
    pub fn usage(&self) -> &Arc<Usage> {
        &self.usage
    }

    /// The counters of the pool of this name; resolve them once.
    #[must_use]
    pub fn pool(&self, name: &str) -> Arc<PoolMetrics> {
        let mut pools = self.pools.lock();
        if let Some(known) = pools.get(name) {
            return Arc::clone(known);
        }
        let new = Arc::new(self.families.pool(name));
        pools.insert(name.into(), Arc::clone(&new));
        new
    }

    /// All that was counted, and what `collect` reads of the present state.
    #[must_use]
    pub fn encode(&self, format: Format, collect: impl FnOnce(&mut Page)) -> String {
        let mut page = Page::beside(&self.names);
        collect(&mut page);
        let mut state = Registry::with_prefix(PREFIX);
        state.register_collector(Box::new(page));
        let mut out = String::new();
        let written = match format {
            Format::Prometheus => prometheus_text::encode(&mut out, &self.registry)
                .and_then(|()| prometheus_text::encode(&mut out, &state)),
            Format::OpenMetrics => text::encode_registry(&mut out, &self.registry)
                .and_then(|()| text::encode_registry(&mut out, &state))
                .and_then(|()| text::encode_eof(&mut out)),
        };
        if written.is_err() {
            tracing::error!("metrics could not be written");
        }
        out
    }
}

/// A registry that remembers the names that it gave out.
pub(super) struct Register {
    registry: Registry,
    names: Vec<&'static str>,
}

impl Register {
    pub(super) fn add<M: Metric + Clone>(&mut self, name: &'static str, help: &str, metric: M) -> M {
        self.registry.register(name, help, metric.clone());
        self.names.push(name);
        metric
    }

    pub(super) fn histograms(
        &mut self,
        name: &'static str,
        help: &str,
        bounds: &'static [f64],
    ) -> Histograms {
        self.add(name, help, Family::new_with_constructor(Bounds(bounds)))
    }
}

impl Families {
    fn pool(&self, name: &str) -> PoolMetrics {
        let pool: Arc<str> = name.into();
        let own = OfPool { pool: Arc::clone(&pool) };
        let predicted = |reported| OfReport { pool: Arc::clone(&pool), reported };
        let error = |found| OfError { pool: Arc::clone(&pool), found };
        PoolMetrics {
            requests: self.requests.clone(),
            request_seconds: self.request_seconds.get_or_create_owned(&own),
            ttft_seconds: self.ttft_seconds.get_or_create_owned(&own),
            queue_seconds: self.queue_seconds.get_or_create_owned(&own),
            band_seconds: self.band_seconds.clone(),
            estimates: self.estimates.get_or_create_owned(&own),
            refused: self.refused.clone(),
            retries: self.retries.get_or_create_owned(&own),
            aborted: self.aborted.get_or_create_owned(&own),
            prompt_tokens: self.prompt_tokens.get_or_create_owned(&own),
            predicted: ["yes", "no"].map(|reported| self.predicted.get_or_create_owned(&predicted(reported))),
            reported: self.reported.get_or_create_owned(&own),
            prediction_error: ["less", "same", "more"]
                .map(|found| self.prediction_error.get_or_create_owned(&error(found))),
            output_tokens: self.output_tokens.get_or_create_owned(&own),
            tokenized: self.tokenized.clone(),
            tokenize_seconds: self.tokenize_seconds.get_or_create_owned(&own),
            split: self.split.pool(&pool),
            pool,
        }
    }
}

impl PoolMetrics {
    /// A request was answered, by an endpoint or by the proxy itself.
    pub fn request(&self, api: Api, status: u16, seconds: f64) {
        let labels = OfRequest { pool: Arc::clone(&self.pool), api: api_name(api), code: status };
        self.requests.get_or_create(&labels).inc();
        self.request_seconds.observe(seconds);
    }

    /// The first token of an answer came.
    pub fn ttft(&self, seconds: f64) {
        self.ttft_seconds.observe(seconds);
    }

    /// A request of this band was dispatched after this time; 0 when it went at once.
    pub fn queued(&self, seconds: f64, band: i32) {
        self.queue_seconds.observe(seconds);
        let labels = OfBand { pool: Arc::clone(&self.pool), band: band.clamp(-MOST_BAND, MOST_BAND) };
        self.band_seconds.get_or_create(&labels).observe(seconds);
    }

    /// A request waited so long, and it had been estimated to.
    pub fn estimated(&self, estimate: f64, waited: f64) {
        self.estimates.observe(waited / estimate.max(0.001));
    }

    /// A request was not dispatched.
    pub fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&OfReason { pool: Arc::clone(&self.pool), reason }).inc();
    }

    /// A tokenizer was asked about a request and came to this, after this time.
    pub fn tokenized(&self, outcome: &'static str, seconds: f64) {
        self.tokenized.get_or_create(&OfOutcome { pool: Arc::clone(&self.pool), outcome }).inc();
        self.tokenize_seconds.observe(seconds);
    }

    /// A request was sent once more.
    pub fn retried(&self) {
        self.retries.inc();
    }

    /// Tokens of one finished request. `predicted_cached` are those of the prompt that the endpoint was
    /// believed to hold, `reported_cached` those that its engine said it held.
    pub fn tokens(&self, prompt: u32, predicted_cached: u32, reported_cached: Option<u32>, output: u32) {
        self.prompt_tokens.inc_by(prompt.into());
        let [of_reported, of_silent] = &self.predicted;
        let predicted = if reported_cached.is_some() { of_reported } else { of_silent };
        predicted.inc_by(predicted_cached.into());
        self.reported.inc_by(reported_cached.unwrap_or(0).into());
        self.output_tokens.inc_by(output.into());
        if let Some(found) = reported_cached {
            let [less, same, more] = &self.prediction_error;
            let of = match found.cmp(&predicted_cached) {
                Ordering::Less => less,
                Ordering::Equal => same,
                Ordering::Greater => more,
            };
            of.observe(f64::from(found.abs_diff(predicted_cached)));
        }
    }

    /// The client of a request went away.
    pub fn aborted(&self) {
        self.aborted.inc();
    }
}

fn api_name(api: Api) -> &'static str {
    match api {
        Api::Chat => "chat",
        Api::Completions => "completions",
        Api::Responses => "responses",
        Api::Messages => "messages",
        Api::Embeddings => "embeddings",
        Api::Generate => "generate",
        Api::Other => "other",
    }
}
