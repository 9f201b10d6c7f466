//! The policies in force: which plugin answers which stage, in which order, with what weight.
//!
//! A [`PolicySet`] never changes. A swap makes a new one; a request keeps the one that it started with
//! until it is done, and an old one goes when the last request lets go of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;

use super::{
    Admission, CallTimes, Column, ColumnId, Disaggregation, Filter, FlowControl, Health, OwnFactory, Picker,
    Registry, Scorer, Shadow, Trial,
};
use crate::config::PluginConfig;
use crate::types::{Arm, Profile};
pub use crate::types::{OnEmpty, OnError};

/// Where a plugin's bytes came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Inside the binary.
    Builtin,
    /// A file of the watched directory.
    File,
    /// Compiled into the host: tests and benchmarks only.
    Native,
}

/// One loaded version of a plugin, with its configuration.
#[derive(Debug)]
pub struct Plugin {
    /// The identity: the file's name without `.wasm`.
    pub name: Box<str>,
    /// The version that it gives itself.
    pub version: Box<str>,
    /// One line on what it does, by itself.
    pub summary: Box<str>,
    /// SHA-256 of the bytes, hex.
    pub digest: Box<str>,
    /// Where the bytes came from.
    pub source: Source,
    /// Grows by one with every load in this process, over all plugins.
    pub generation: u64,
    /// What the requests that it serves are counted under.
    pub arm: Arm,
    /// Names of the stages that it exports.
    pub stages: Vec<&'static str>,
    /// What a failed call means.
    pub on_error: OnError,
    /// What keeping nobody means.
    pub on_empty: OnEmpty,
    /// Whether its pools must not be served without it.
    pub required: bool,
    /// The profiles whose candidates it judges.
    pub profiles: Vec<Profile>,
    /// All that is configured of it.
    pub config: Arc<PluginConfig>,
    /// Failures so far.
    pub health: Health,
    /// How long its calls took.
    pub times: CallTimes,
}

/// A policy's place in a chain.
pub struct Slot<P: ?Sized> {
    /// The plugin that answers.
    pub plugin: Arc<Plugin>,
    /// Factor of its scores.
    pub weight: f32,
    /// How it is asked.
    pub policy: Arc<P>,
}

impl<P: ?Sized> Clone for Slot<P> {
    fn clone(&self) -> Self {
        Self { plugin: Arc::clone(&self.plugin), weight: self.weight, policy: Arc::clone(&self.policy) }
    }
}

impl<P: ?Sized> std::fmt::Debug for Slot<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("plugin", &self.plugin.name).field("weight", &self.weight).finish()
    }
}

/// The policies that serve a pool, in the order in which they are asked.
#[derive(Debug, Clone, Default)]
pub struct Chain {
    /// The chain's name.
    pub name: Box<str>,
    /// All must accept.
    pub admission: Vec<Slot<dyn Admission>>,
    /// Each judges what the one before kept.
    pub filters: Vec<Slot<dyn Filter>>,
    /// Their weighted scores are added up.
    pub scorers: Vec<Slot<dyn Scorer>>,
    /// The last one named wins; none takes the highest sum.
    pub picker: Option<Slot<dyn Picker>>,
    /// The last one named wins; none never splits.
    pub disaggregation: Option<Slot<dyn Disaggregation>>,
    /// The last one named wins; none is first come first served.
    pub flow: Option<Slot<dyn FlowControl>>,
    /// The own instance of the plugin of `flow`.
    pub flow_own: Option<Slot<dyn OwnFactory>>,
    /// Own instances of the other plugins that observe.
    pub observers: Vec<Slot<dyn OwnFactory>>,
    /// Plugins that are asked about the same requests, later and without being heard.
    pub shadows: Vec<Arc<Shadow>>,
    /// Every column that one of its plugins or shadows resolved.
    pub columns: Arc<[ColumnId]>,
}

/// All chains in force.
#[derive(Debug, Default)]
pub struct PolicySet {
    /// Grows by one with every swap.
    pub generation: u64,
    /// By name.
    pub chains: BTreeMap<Box<str>, Arc<Chain>>,
    /// Every plugin of every chain, by name.
    pub plugins: Vec<Arc<Plugin>>,
    /// The candidate that is given some of the traffic.
    pub trial: Option<Trial>,
    /// Headers that some plugin may read, lower case.
    pub granted_headers: BTreeSet<Box<str>>,
}

impl PolicySet {
    /// The chain of this name; an empty one, which is least load, when there is none.
    #[must_use]
    pub fn chain(&self, name: &str) -> Arc<Chain> {
        self.chains.get(name).cloned().unwrap_or_default()
    }

    /// Whether a plugin or shadow that may be asked in this chain reads what endpoints hold of a prompt.
    #[must_use]
    pub fn reads_prefix(&self, chain: &str, registry: &Registry) -> bool {
        let of_prefix = |id: &ColumnId| {
            registry.get(*id).is_some_and(|column| match column {
                Column::Builtin(builtin) => builtin.reads_prefix(),
                Column::Label(_) | Column::Metric(_) => false,
            })
        };
        let reads = |chain: &Arc<Chain>| chain.columns.iter().any(of_prefix);
        self.chains.get(chain).is_some_and(reads) || self.tried(chain).is_some_and(|(_, tried)| reads(tried))
    }
}
