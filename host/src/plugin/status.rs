//! What operators see of a plugin.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::series::{Series, SeriesSnapshot};
use crate::config::Mode;
use crate::policy::Plugin;

/// A file that was not taken into service.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Refused {
    /// SHA-256 of the file, hex; empty when it could not be read.
    pub digest: Box<str>,
    /// Why, for its author.
    pub reason: String,
}

/// What is known of one plugin name.
#[derive(Debug, Clone)]
pub struct PluginStatus {
    /// The name.
    pub name: Box<str>,
    /// Whether the configuration uses it.
    pub mode: Mode,
    /// The version in force, once for each chain that uses it; empty when there is none.
    pub serving: Vec<(Arc<Plugin>, f32)>,
    /// The last file that was refused, until a good one comes.
    pub refused: Option<Refused>,
    /// How often a version was taken into service.
    pub loads: u64,
    /// How often a file was refused, by reason.
    pub refusals: BTreeMap<&'static str, u64>,
    /// Failed calls that no version in force counts: trial calls, and those of earlier versions; by reason.
    pub failed_before: BTreeMap<&'static str, u64>,
    pub(super) series: Arc<Series>,
}

impl PluginStatus {
    /// Its own series, and the updates dropped over their bound.
    #[must_use]
    pub fn series(&self) -> (Vec<SeriesSnapshot>, u64) {
        self.series.snapshot()
    }
}
