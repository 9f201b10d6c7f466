//! What is decided of plugins.

use std::time::Duration;

use serde::ser::SerializeSeq;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;

use super::{mib, millis, seconds, short, short_option, shortest};
use crate::types::{OnEmpty, OnError, Profile};

/// What becomes of a file of the watched directory that no [`PluginConfig`] names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unlisted {
    /// It runs.
    Active,
    /// It is asked but not heard.
    Shadow,
    /// It is not loaded.
    Refuse,
}

/// What a candidate may not do while it serves requests. A limit of 0 is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Guardrails {
    /// The time before a trial, and of it up to now, that are compared for the whole pool.
    #[serde(rename = "window_s", serialize_with = "seconds")]
    pub window: Duration,
    /// Requests on either side below which only herding is judged.
    pub min_samples: u32,
    /// Factor of the 90th percentile of the time to first token.
    #[serde(serialize_with = "short")]
    pub ttft_ratio: f32,
    /// By how much it may be longer whatever the factor says.
    #[serde(rename = "ttft_slack_ms", serialize_with = "millis")]
    pub ttft_slack: Duration,
    /// Fall of the share of prompt tokens found in caches.
    #[serde(serialize_with = "short")]
    pub hit_ratio_drop: f32,
    /// Rise of the share of requests that failed or were refused.
    #[serde(serialize_with = "short")]
    pub error_rate: f32,
    /// Factor of the preemptions by request.
    #[serde(serialize_with = "short")]
    pub preemption_ratio: f32,
    /// Share of what the old version sends past its busiest endpoints.
    #[serde(serialize_with = "short")]
    pub herding: f32,
    /// Whether a file that replaces the version in force is held to them as a promoted candidate is.
    pub files: bool,
}

impl Default for Guardrails {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(60),
            min_samples: 50,
            ttft_ratio: 1.5,
            ttft_slack: Duration::from_millis(50),
            hit_ratio_drop: 0.15,
            error_rate: 0.02,
            preemption_ratio: 2.0,
            herding: 0.5,
            files: false,
        }
    }
}

/// How the plugin directory is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watch {
    /// By what changes are noticed.
    pub mode: WatchMode,
    /// Time between two listings without an event.
    pub poll: Duration,
}

/// By what changes of the plugin directory are noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WatchMode {
    /// By events where the system sends them, and by listing.
    Auto,
    /// By listing alone.
    Poll,
}

/// One plugin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PluginConfig {
    /// Its identity.
    pub name: Box<str>,
    /// Factor of its scores; none is the plugin's own default.
    #[serde(serialize_with = "short_option")]
    pub weight: Option<f32>,
    /// Whether it runs.
    pub mode: Mode,
    /// What it may read.
    #[serde(rename = "grant")]
    pub grant: Grants,
    /// The candidates that it judges.
    pub profiles: Vec<Profile>,
    /// What a failed call means.
    pub on_error: OnError,
    /// What keeping nobody means.
    pub on_empty: OnEmpty,
    /// Whether its pools must not be served without it.
    pub required: bool,
    /// CPU time of one call.
    #[serde(rename = "deadline_ms", serialize_with = "millis")]
    pub deadline: Duration,
    /// Memory of one instance.
    #[serde(rename = "memory_mib", serialize_with = "mib")]
    pub memory_bytes: usize,
    /// What it finds of WASI.
    pub wasi: Wasi,
    /// Its own configuration.
    pub config: serde_json::Value,
}

/// Whether a plugin runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Mode {
    /// It is asked and heard.
    Active,
    /// It is not asked.
    Off,
    /// It is a candidate: its file, or with anything but [`TrialMode::Shadow`] what lies in `NAME.next.wasm`.
    Trial(TrialMode),
}

/// How a candidate is tried.
#[derive(Debug, Clone, PartialEq)]
pub enum TrialMode {
    /// It is asked and not heard.
    Shadow,
    /// It serves so many per cent of the sessions.
    Canary(f32),
    /// It serves so many endpoints of each pool.
    Endpoints(u32),
    /// It serves these pools.
    Pools(Vec<Box<str>>),
}

impl Serialize for Mode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Active => serializer.serialize_str("active"),
            Self::Off => serializer.serialize_str("off"),
            Self::Trial(trial) => trial.serialize(serializer),
        }
    }
}

impl Serialize for TrialMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Shadow => serializer.serialize_str("shadow"),
            Self::Canary(percent) => json!({"canary": shortest(*percent)}).serialize(serializer),
            Self::Endpoints(count) => json!({"endpoints": count}).serialize(serializer),
            Self::Pools(names) => json!({"pools": names}).serialize(serializer),
        }
    }
}

/// What a plugin finds of WASI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wasi {
    /// Nothing: an import of it does not link.
    None,
    /// Traps and empty answers.
    Stub,
}

/// What a plugin may read beside the facts of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grants {
    /// The body.
    pub body: bool,
    /// These headers, lower case.
    pub headers: Vec<Box<str>>,
}

impl Serialize for Grants {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        if self.body {
            list.serialize_element("body")?;
        }
        for header in &self.headers {
            list.serialize_element(&format!("header:{header}"))?;
        }
        list.end()
    }
}

impl PluginConfig {
    /// A plugin that no `[[plugin]]` names: everything as it is by default.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.into(),
            weight: None,
            mode: Mode::Active,
            grant: Grants::default(),
            profiles: vec![Profile::Decode, Profile::Prefill],
            on_error: OnError::Default,
            on_empty: OnEmpty::Reject,
            required: false,
            deadline: Duration::from_millis(5),
            memory_bytes: 64 << 20,
            wasi: Wasi::None,
            config: json!({}),
        }
    }
}
