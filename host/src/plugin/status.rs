//! What operators see of a plugin.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::case::Cases;
use super::catalog::RolledBack;
use super::instance::Population;
use super::quota::{Dropped, Quota};
use super::series::{Series, SeriesSnapshot};
use crate::clock::Nanos;
use crate::config::{Mode, TrialMode};
use crate::policy::Plugin;
use crate::types::Arm;

/// A file that was not taken into service.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Refused {
    /// SHA-256 of the file, hex; empty when it could not be read.
    pub digest: Box<str>,
    /// Why, for its author.
    pub reason: String,
}

/// What was counted of a plugin or a candidate.
#[derive(Debug, Clone)]
pub struct Counted {
    /// It as each chain that uses it sees it, with its weight there; empty when there is none.
    pub serving: Vec<(Arc<Plugin>, f32)>,
    /// The last file that was refused, until a good one comes.
    pub refused: Option<Refused>,
    /// How often a version was taken.
    pub loads: u64,
    /// How often a file was refused, by reason.
    pub refusals: BTreeMap<&'static str, u64>,
    /// Failed calls that no version of now counts: trial calls, and those of earlier versions; by reason.
    pub failed_before: BTreeMap<&'static str, u64>,
    /// Its latest failing calls.
    pub cases: Arc<Cases>,
    /// Its instances and versions that are alive.
    pub population: Arc<Population>,
    pub(super) series: Arc<Series>,
    pub(super) quota: Arc<Quota>,
}

impl Counted {
    /// Its own series.
    #[must_use]
    pub fn series(&self) -> Vec<SeriesSnapshot> {
        self.series.snapshot()
    }

    /// What was dropped of what it logged, counted, stored and resolved, because it was over a bound.
    pub fn dropped(&self) -> impl Iterator<Item = (Dropped, u64)> + '_ {
        self.quota.dropped()
    }

    /// Calls without a usable answer, by reason.
    #[must_use]
    pub fn failures(&self) -> BTreeMap<&'static str, u64> {
        let mut failures = self.failed_before.clone();
        for (plugin, _) in &self.serving {
            for (reason, count) in plugin.health.failures().filter(|(_, count)| *count > 0) {
                *failures.entry(reason.as_str()).or_default() += count;
            }
        }
        failures
    }

    /// When it may be asked again, if it is set aside in some chain.
    #[must_use]
    pub fn aside_until(&self, now: Nanos) -> Option<Nanos> {
        self.serving.iter().filter_map(|(plugin, _)| plugin.health.aside_until(now)).max()
    }
}

/// What is known of one plugin name.
#[derive(Debug, Clone)]
pub struct PluginStatus {
    /// The name.
    pub name: Box<str>,
    /// Whether the configuration, or an operator since, lets it serve.
    pub mode: Mode,
    /// Whether a version is being read or compiled.
    pub loading: bool,
    /// The version in force.
    pub main: Counted,
    /// The version on trial.
    pub candidate: Option<CandidateStatus>,
    /// The version that would come back, by digest; empty for the built-in.
    pub previous: Option<Box<str>>,
    /// The version that was taken out last, until another file comes.
    pub rolled_back: Option<RolledBack>,
    /// How often a version was taken out of force or of trial.
    pub rollbacks: u64,
    /// How often a candidate became the version in force.
    pub promotions: u64,
}

impl PluginStatus {
    /// What was counted under this name: of the version in force, or of the candidate under its own.
    #[must_use]
    pub fn counted(&self, name: &str) -> Option<&Counted> {
        let candidate = self.candidate.as_ref().filter(|candidate| *candidate.name == *name);
        if *self.name == *name { Some(&self.main) } else { candidate.map(|candidate| &candidate.counted) }
    }
}

/// A candidate.
#[derive(Debug, Clone)]
pub struct CandidateStatus {
    /// The stem of its file.
    pub name: Box<str>,
    /// How it is tried; none when its file is refused.
    pub trial: Option<TrialMode>,
    /// Why it is not given the traffic that its mode asks for.
    pub held: Option<String>,
    /// What its requests are counted under.
    pub arm: Arm,
    /// When it began.
    pub since: Nanos,
    /// What was counted.
    pub counted: Counted,
}
