//! What waits in front of a pool.

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

use super::{millis, whole_millis};

/// Bounds of what waits; 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueBounds {
    /// Requests.
    pub requests: usize,
    /// Bytes of their bodies.
    pub bytes: usize,
    /// Tokens of their prompts.
    pub tokens: u64,
}

/// What waits in front of a pool.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueConfig {
    /// Bounds of all that waits; 0 requests or bytes let nothing wait.
    pub pool: QueueBounds,
    /// Bounds of each band.
    pub band: QueueBounds,
    /// Bounds of each flow.
    pub flow: QueueBounds,
    /// Bands with settings of their own.
    pub bands: Vec<BandConfig>,
    /// Time that a request waits at most.
    pub ttl: Duration,
    /// The same while no endpoint can be used.
    pub empty_ttl: Duration,
    /// How often the client of a stream is told that it waits; none: not.
    pub keep_alive: Option<Duration>,
}

impl QueueConfig {
    /// The settings of a band that has some of its own.
    #[must_use]
    pub fn band(&self, priority: i32) -> Option<&BandConfig> {
        self.bands.iter().find(|band| band.priority == priority)
    }
}

/// Settings of one band.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BandConfig {
    /// Which.
    pub priority: i32,
    /// Time that its requests wait at most.
    #[serde(rename = "ttl_ms", serialize_with = "millis_option")]
    pub ttl: Option<Duration>,
    /// Its bounds, in the place of those of each band.
    #[serde(flatten, serialize_with = "max")]
    pub bounds: QueueBounds,
}

/// Whether engines are told how important a request is, in their own field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EnginePriority {
    /// They are not; a client's own value goes on.
    Off,
    /// A greater value goes first.
    HigherFirst,
    /// A lower value goes first, as in vLLM.
    LowerFirst,
}

#[derive(Serialize)]
struct Max {
    max_requests: usize,
    max_bytes: usize,
    max_tokens: u64,
}

impl From<QueueBounds> for Max {
    fn from(QueueBounds { requests, bytes, tokens }: QueueBounds) -> Self {
        Self { max_requests: requests, max_bytes: bytes, max_tokens: tokens }
    }
}

fn max<S: Serializer>(bounds: &QueueBounds, serializer: S) -> Result<S::Ok, S::Error> {
    Max::from(*bounds).serialize(serializer)
}

fn millis_option<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(whole_millis).serialize(serializer)
}

impl Serialize for QueueConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Keys<'a> {
            #[serde(flatten)]
            pool: Max,
            band_requests: usize,
            band_bytes: usize,
            band_tokens: u64,
            flow_requests: usize,
            flow_bytes: usize,
            flow_tokens: u64,
            bands: &'a [BandConfig],
            #[serde(rename = "ttl_ms", serialize_with = "millis")]
            ttl: Duration,
            #[serde(rename = "empty_ttl_ms", serialize_with = "millis")]
            empty_ttl: Duration,
            keep_alive_ms: u64,
        }
        let (band, flow) = (self.band, self.flow);
        Keys {
            pool: self.pool.into(),
            band_requests: band.requests,
            band_bytes: band.bytes,
            band_tokens: band.tokens,
            flow_requests: flow.requests,
            flow_bytes: flow.bytes,
            flow_tokens: flow.tokens,
            bands: &self.bands,
            ttl: self.ttl,
            empty_ttl: self.empty_ttl,
            keep_alive_ms: self.keep_alive.map_or(0, whole_millis),
        }
        .serialize(serializer)
    }
}
