//! What the catalog shows of itself.

use std::sync::Arc;

use super::super::compile::Compiled;
use super::super::load::Kept;
use super::super::status::{CandidateStatus, Counted, PluginStatus};
use super::entry::{Candidate, Entry, Previous, Tally};
use super::files::Place;
use super::version::{Origin, Version};
use super::{Catalog, State};
use crate::clock::Nanos;
use crate::config::{Mode, TrialMode};
use crate::policy::Plugin;
use crate::types::Arm;

/// A version that somebody has to keep an eye on.
#[derive(Debug, Clone)]
pub struct Watched {
    /// The plugin.
    pub name: Box<str>,
    /// SHA-256 of the file, hex.
    pub digest: Box<str>,
    /// What its requests are counted under.
    pub arm: Arm,
    /// Since when it is in force or on trial.
    pub since: Nanos,
    /// How it is tried; none when it is in force.
    pub trial: Option<TrialMode>,
    /// Whether it was a candidate that was promoted.
    pub promoted: bool,
    /// It as each chain that uses it sees it.
    pub plugins: Vec<Arc<Plugin>>,
}

impl Catalog {
    /// What is known of every plugin, by name.
    #[must_use]
    pub fn status(&self) -> Arc<Vec<PluginStatus>> {
        self.status.load_full()
    }

    /// How plugins were compiled so far.
    #[must_use]
    pub fn compiled(&self) -> Vec<Compiled> {
        self.services.runtime.compiler().compiled()
    }

    /// Plugins that the configuration names and that cannot serve, and those whose first version is not
    /// loaded yet.
    #[must_use]
    pub fn absent(&self) -> Vec<Box<str>> {
        let status = self.status();
        let find = |name: &str| status.iter().find(|plugin| *plugin.name == *name);
        let lacks = |name: &&str| {
            find(name).is_none_or(|plugin| plugin.main.serving.is_empty() && plugin.mode != Mode::Off)
        };
        let loading = status
            .iter()
            .filter(|plugin| plugin.loading && plugin.main.loads == 0 && plugin.main.serving.is_empty());
        let rules = self.rules();
        let mut absent: Vec<Box<str>> = rules.wanted().into_iter().filter(lacks).map(Box::from).collect();
        absent.extend(loading.map(|plugin| plugin.name.clone()));
        absent.sort();
        absent.dedup();
        absent
    }

    /// The versions whose failures and effects have consequences: candidates, and versions in force that have
    /// one to go back to.
    #[must_use]
    pub fn watched(&self) -> Vec<Watched> {
        let state = self.state.lock();
        let of_entry = |name: &str, entry: &Entry| {
            let in_force = entry.in_force.as_ref().filter(|_| entry.previous.is_some());
            let in_force = in_force.map(|version| watched(name, version, Arm::BASE, None));
            let tried = entry.candidate.as_ref().map(|candidate| {
                let arm = Arm(candidate.version.loaded.generation);
                watched(name, &candidate.version, arm, Some(candidate.trial.clone()))
            });
            [in_force, tried]
        };
        state.entries.iter().flat_map(|(name, entry)| of_entry(name, entry)).flatten().collect()
    }

    pub(super) fn show(&self, state: &State) {
        let rules = self.rules();
        let now = |name: &str, entry: &Entry| PluginStatus {
            name: name.into(),
            mode: if entry.record.off { Mode::Off } else { rules.mode(name) },
            loading: entry.working,
            main: counted(&entry.main, entry.in_force.as_ref(), &entry.kept, |plugin| in_set(state, plugin)),
            candidate: candidate(name, entry, state),
            previous: entry.previous.as_ref().map(|previous| match previous {
                Previous::Builtin => "".into(),
                Previous::Bytes(digest, _) => digest.clone(),
            }),
            rolled_back: entry.rolled_back.clone(),
            rollbacks: entry.rollbacks,
            promotions: entry.promotions,
        };
        self.status.store(Arc::new(state.entries.iter().map(|(name, entry)| now(name, entry)).collect()));
    }
}

fn watched(name: &str, version: &Version, arm: Arm, trial: Option<TrialMode>) -> Watched {
    Watched {
        name: name.into(),
        digest: version.digest().into(),
        arm,
        since: version.since,
        trial,
        promoted: version.origin == Origin::Promoted,
        plugins: version.serving().into_iter().map(|(plugin, _)| plugin).collect(),
    }
}

/// Whether a plugin is in the policy set in force.
fn in_set(state: &State, plugin: &Arc<Plugin>) -> bool {
    state.members.iter().any(|(_, member)| Arc::ptr_eq(&member.plugin, plugin))
}

fn counted(
    tally: &Tally,
    version: Option<&Arc<Version>>,
    kept: &Kept,
    used: impl Fn(&Arc<Plugin>) -> bool,
) -> Counted {
    let serving = version.map(|version| version.serving()).unwrap_or_default();
    Counted {
        serving: serving.into_iter().filter(|(plugin, _)| used(plugin)).collect(),
        refused: tally.refused.clone(),
        loads: tally.loads,
        refusals: tally.refusals.clone(),
        failed_before: tally.failed_before.clone(),
        cases: Arc::clone(&kept.cases),
        population: Arc::clone(&kept.population),
        series: Arc::clone(&kept.series),
        quota: Arc::clone(&kept.quota),
    }
}

fn candidate(name: &str, entry: &Entry, state: &State) -> Option<CandidateStatus> {
    let tried = entry.candidate.as_ref();
    if tried.is_none() && entry.next.refused.is_none() {
        return None;
    }
    let place = tried.map_or(Place::Next, |candidate| candidate.place);
    let version = tried.map(|candidate| &candidate.version);
    let held = |candidate: &Candidate| {
        let waits = candidate.trial != TrialMode::Shadow && !entry.record.off && !on_trial(state, candidate);
        let waits = waits.then(|| "another candidate is given traffic; one at a time is".to_owned());
        candidate.held.clone().or(waits)
    };
    Some(CandidateStatus {
        name: place.stem(name).into(),
        trial: tried.map(|candidate| candidate.trial.clone()),
        held: tried.and_then(held),
        arm: version.map_or(Arm::BASE, |version| Arm(version.loaded.generation)),
        since: version.map_or(0, |version| version.since),
        counted: counted(&entry.next, version, &entry.kept_next, |_| true),
    })
}

/// Whether the trial of the set in force is that of this candidate.
fn on_trial(state: &State, candidate: &Candidate) -> bool {
    state.tried.is_some_and(|arm| arm == Arm(candidate.version.loaded.generation))
}
