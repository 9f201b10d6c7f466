//! Takes versions out that fail or do harm.
//!
//! A version that is set aside after failed calls is rolled back if there is one to go back to: a candidate
//! at any time, a version in force while it is new. What worked for longer is set aside and tried again,
//! because then something else has changed. A candidate that serves requests is also held to the guardrails
//! of [`crate::policy::guardrails`], in every pool, and so is for one window a candidate that was promoted, or a
//! file that replaced the version in force, where the configuration asks for that.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use arc_swap::ArcSwap;

use super::catalog::{Catalog, Watched};
use crate::clock::{Clock, Nanos, SECOND, nanos};
use crate::config::TrialMode;
use crate::policy::Plugin;
use crate::policy::guardrails::{Comparison, Guardrails, Split, judge};
use crate::route::Lane;
use crate::types::Arm;

/// How often it looks. A version is set aside within a few requests, and until it is looked at its stages
/// take their defaults.
const EVERY: Duration = Duration::from_millis(250);
/// How often guardrails are judged, and what engines report is noted.
const JUDGE_EVERY: Nanos = SECOND;
/// A version in force is new for so long.
const NEW: Nanos = 600 * SECOND;

/// What is looked at, and by which bounds.
#[derive(Debug)]
struct Subject {
    lanes: Vec<Arc<Lane>>,
    rails: Guardrails,
}

/// Ends the supervisor when dropped.
#[derive(Debug)]
pub struct Supervisor {
    _stop: SyncSender<()>,
    subject: Arc<ArcSwap<Subject>>,
}

impl Supervisor {
    /// Looks at these pools by these bounds from now on.
    pub fn follow(&self, lanes: Vec<Arc<Lane>>, rails: Guardrails) {
        self.subject.store(Arc::new(Subject { lanes, rails }));
    }
}

/// Starts the supervisor on a thread of its own.
///
/// # Errors
/// When the thread cannot be started.
pub fn start(
    catalog: Arc<Catalog>,
    lanes: Vec<Arc<Lane>>,
    rails: Guardrails,
    clock: Arc<dyn Clock>,
) -> std::io::Result<Supervisor> {
    let (stop, stopped) = sync_channel(0);
    let subject = Arc::new(ArcSwap::from_pointee(Subject { lanes, rails }));
    let followed = Arc::clone(&subject);
    let mut watch = Watch { catalog, followed, clock, comparisons: BTreeMap::new(), judged: 0 };
    std::thread::Builder::new().name("plugin-supervise".into()).spawn(move || watch.run(&stopped))?;
    Ok(Supervisor { _stop: stop, subject })
}

struct Watch {
    catalog: Arc<Catalog>,
    followed: Arc<ArcSwap<Subject>>,
    clock: Arc<dyn Clock>,
    /// By digest, arm and pool: a candidate that was promoted is compared anew.
    comparisons: BTreeMap<(Box<str>, Arm, Box<str>), Comparison>,
    judged: Nanos,
}

impl Watch {
    fn run(&mut self, stopped: &Receiver<()>) {
        while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
            self.look();
        }
    }

    fn look(&mut self) {
        let now = self.clock.now();
        let versions = self.catalog.watched();
        for version in &versions {
            if let Some(why) = failing(version, now) {
                self.catalog.roll_back(&version.name, &version.digest, &why);
            }
        }
        if now.saturating_sub(self.judged) >= JUDGE_EVERY {
            self.judged = now;
            self.judge(&versions, now);
        }
    }

    fn judge(&mut self, versions: &[Watched], now: Nanos) {
        let subject = self.followed.load_full();
        for lane in &subject.lanes {
            let endpoints = lane.pool.endpoints();
            let counters = endpoints.iter().map(|endpoint| (endpoint.id, endpoint.engine.preemptions()));
            lane.windows.preemptions(now, counters);
        }
        let tried = self.catalog.current().trial.as_ref().map(|trial| trial.arm);
        let judged: Vec<_> = versions
            .iter()
            .filter_map(|version| Some((version, split(&subject.rails, version, tried, now)?)))
            .collect();
        self.comparisons.retain(|(digest, of, _), _| {
            judged.iter().any(|(version, (arm, _))| version.digest == *digest && arm == of)
        });
        for (version, (arm, split)) in judged {
            if let Some(why) = self.tripped(&subject, version, arm, split, now) {
                self.catalog.roll_back(&version.name, &version.digest, &why);
            }
        }
    }

    fn tripped(
        &mut self,
        subject: &Subject,
        version: &Watched,
        arm: Arm,
        split: Split,
        now: Nanos,
    ) -> Option<String> {
        let (rails, comparisons) = (&subject.rails, &mut self.comparisons);
        subject.lanes.iter().find_map(|lane| {
            let comparison = comparisons
                .entry((version.digest.clone(), arm, lane.pool.name.clone()))
                .or_insert_with(|| Comparison::begin(&lane.windows, rails, arm, split, now));
            let tripped = judge(rails, &comparison.evidence(&lane.windows, now))?;
            Some(format!(
                "guardrail {} in pool `{}`: {}",
                tripped.rail.as_str(),
                lane.pool.name,
                tripped.text
            ))
        })
    }
}

/// How a version takes part in traffic that is judged: as an arm, or as all of it.
/// A candidate that waits for another one's trial to end has no part in what the pool shows.
fn split(rails: &Guardrails, version: &Watched, tried: Option<Arm>, now: Nanos) -> Option<(Arm, Split)> {
    if version.trial.is_some() && tried != Some(version.arm) {
        return None;
    }
    let window = nanos(rails.window);
    match &version.trial {
        Some(TrialMode::Shadow) => None,
        Some(TrialMode::Canary(_)) => Some((version.arm, Split::Requests)),
        Some(TrialMode::Endpoints(_)) => Some((version.arm, Split::Endpoints)),
        // The whole of a pool: there is no other arm to compare it with.
        Some(TrialMode::Pools(_)) => Some((version.arm, Split::Endpoints)),
        None if (version.promoted || rails.files) && now.saturating_sub(version.since) < window => {
            Some((Arm::BASE, Split::Endpoints))
        }
        None => None,
    }
}

/// Why a version is to be taken out for what its calls came to.
fn failing(version: &Watched, now: Nanos) -> Option<String> {
    let aside = |plugin: &&Arc<Plugin>| plugin.health.aside_until(now).is_some();
    let plugin = version.plugins.iter().find(aside)?;
    let tried = version.trial.is_some() || now.saturating_sub(version.since) < NEW;
    let failures = plugin.health.failures().filter(|(reason, count)| reason.is_failure() && *count > 0);
    let failures: Vec<_> = failures.map(|(reason, count)| format!("{} {count}", reason.as_str())).collect();
    tried.then(|| format!("its calls failed again and again ({})", failures.join(", ")))
}
