//! Case files: one call of a plugin, written down so that it can be made again.
//!
//! ```text
//! a call that fails ──► record ──┐                      ┌──► `GET /plugins/NAME/cases/ID`
//!                                ├──► Case (JSON) ──────┤
//! a decision's answer ► decided ─┘                      └──► run: the same call of a fresh instance
//! ```
//!
//! A case holds numbers and short names: no prompt, no body, no headers. What it cannot hold is what the plugin
//! itself remembers: its `store`, and what an own instance learned since it saved its state last. Of each plugin
//! the latest failing calls are kept, a few of them and of bounded size; calls that succeed pay nothing for it.

mod backtrace;
mod candidates;
mod decided;
mod function;
mod numbers;
mod question;
mod record;
mod run;
mod view;

use serde::{Deserialize, Serialize};

use crate::config::{Grants, PluginConfig, Wasi};
use crate::policy::{Event, Facts, FlowRow, Reason, Said};

pub use candidates::Candidates;
pub use function::Function;
pub use numbers::Numbers;
pub use record::{Cases, KEPT, KeptCase};
pub use run::{Compared, Failure, Ran, RunError, run};

pub(super) use backtrace::frames;
pub(super) use function::{Shown, With, ask, ask_own};
pub(super) use question::Question;
pub(super) use record::Recorder;

/// The version of the format that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// One call of a plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// [`VERSION`]
    pub case: u32,
    /// The plugin's name.
    pub plugin: Box<str>,
    /// SHA-256 of its file, hex.
    pub digest: Box<str>,
    /// The function that was called: `admission.admit`, `scorer.score`, …
    pub call: Function,
    /// What the operator gave it.
    pub settings: Settings,
    /// Its configuration.
    #[serde(default)]
    pub config: serde_json::Value,
    /// Milliseconds of the host's clock.
    #[serde(default)]
    pub clock_ms: u64,
    /// The request that was judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Facts>,
    /// The candidates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Candidates>,
    /// The sums of weighted scores that a picker was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scores: Option<Vec<f32>>,
    /// How many positions a picker or `select` was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// The position of the decode endpoint that disaggregation was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode: Option<u32>,
    /// The flows that waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<Vec<FlowRow>>,
    /// What was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<Event>>,
    /// What the own instance had saved before, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// What is missing, when the call was too large to be kept whole. Such a case can be run, and its answer cannot
    /// be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// What the operator gave a plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// CPU time of one call, milliseconds.
    pub deadline_ms: u64,
    /// Memory of one instance.
    pub memory_mib: usize,
    /// What it finds of WASI.
    pub wasi: Wasi,
    /// Headers that it may read. Their values are not kept, so it finds none of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<Box<str>>,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A usable answer.
    Answer(Said),
    /// None.
    Error {
        /// The kind of failure.
        reason: Reason,
        /// In words.
        message: Box<str>,
        /// Functions of the guest, the innermost first; numbers where the file has no names.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        backtrace: Vec<Box<str>>,
    },
}

impl Settings {
    fn of(config: &PluginConfig) -> Self {
        Self {
            deadline_ms: u64::try_from(config.deadline.as_millis()).unwrap_or(u64::MAX),
            memory_mib: config.memory_bytes >> 20,
            wasi: config.wasi,
            headers: config.grant.headers.clone(),
        }
    }

    /// The configuration of a plugin that is given this.
    fn plugin(&self, name: &str, config: serde_json::Value) -> PluginConfig {
        PluginConfig {
            deadline: std::time::Duration::from_millis(self.deadline_ms),
            memory_bytes: self.memory_mib.saturating_mul(1 << 20),
            wasi: self.wasi,
            grant: Grants { body: false, headers: self.headers.clone() },
            config,
            ..PluginConfig::named(name)
        }
    }
}

impl Case {
    /// A case of a plugin with this configuration, about nothing yet.
    fn new(config: &PluginConfig, digest: &str, call: Function) -> Self {
        Self {
            case: VERSION,
            plugin: config.name.clone(),
            digest: digest.into(),
            call,
            settings: Settings::of(config),
            config: config.config.clone(),
            clock_ms: 0,
            request: None,
            endpoints: None,
            scores: None,
            count: None,
            decode: None,
            flows: None,
            events: None,
            state: None,
            cut: None,
            outcome: None,
        }
    }
}
