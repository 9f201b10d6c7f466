//! Which version of each plugin is in force, and which is on trial.
//!
//! ```text
//! rescan ──► files: what lies there ──► a worker a name: read, rules, compile, try out ──► entry ──► publish
//! act, roll_back ─────────────────────►                    (no lock is held)                (locked)
//! ```
//!
//! Consequences worth knowing:
//! - A file that cannot be used changes nothing: the version in force stays, and the reason is kept for
//!   `GET /plugins`.
//! - Each name has at most one worker, so a plugin that compiles for long delays nobody else's swap.
//! - A whole new [`PolicySet`] is published when anything changed; requests keep the one they began with.
//! - What was promoted and what is kept out is written down ([`ledger`]); files are never renamed or changed.

mod act;
mod entry;
mod files;
mod ledger;
mod noted;
mod publish;
mod reload;
mod rules;
mod show;
mod stores;
mod version;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::{Condvar, Mutex};

use super::builtin;
use super::chains::Member;
use super::directory::{Stamp, list};
use super::engine::Runtime;
use super::load::Services;
use super::status::PluginStatus;
use crate::audit::Audit;
use crate::clock::Clock;
use crate::config::Config;
use crate::policy::{Chain, PolicySet, Registry};
use crate::types::Arm;
pub use act::{ActError, Action};
pub use entry::RolledBack;
use entry::{Entry, Outcome, Task};
use files::{File, Place};
use ledger::{Ledger, Record};
pub use reload::{Prepared, ReloadError};
use rules::Rules;
pub use show::Watched;
pub use stores::Value;
use work::Brief;

/// How long the start waits for plugins. Those that take longer join when they are ready.
const START_PATIENCE: Duration = Duration::from_secs(20);

/// The plugins of this process.
pub struct Catalog {
    services: Services,
    /// Replaced whole, while the state is locked.
    rules: ArcSwap<Rules>,
    ledger: Ledger,
    state: Mutex<State>,
    /// A worker has ended.
    rested: Condvar,
    /// Held while the ledger is written, so that what was read first is not written last.
    writing: Mutex<()>,
    current: ArcSwap<PolicySet>,
    /// What was shown last, for those who ask while the state is locked.
    status: ArcSwap<Vec<PluginStatus>>,
    generations: AtomicU64,
    /// What serves in the place of all plugins, once somebody has said so.
    native: OnceLock<Arc<Chain>>,
    /// Where swaps are written down, once somebody has said so.
    audit: OnceLock<Arc<Audit>>,
    me: Weak<Self>,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<Box<str>, Entry>,
    listing: BTreeMap<PathBuf, Stamp>,
    /// Who is in the policy set in force.
    members: Vec<(Box<str>, Arc<Member>)>,
    /// What tells that set from another with the same members.
    likeness: String,
    /// The candidate that it gives traffic.
    tried: Option<Arm>,
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalog").field("directory", &self.rules().directory).finish_non_exhaustive()
    }
}

impl Catalog {
    /// Loads the built-ins, what lies in the directory, and what was promoted.
    #[must_use]
    pub fn load(
        config: &Config,
        runtime: Arc<Runtime>,
        registry: Arc<Registry>,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        let (ledger, records) = Ledger::open(&config.state_dir);
        let entry = |(name, record)| (name, Entry::new(record));
        let state = State { entries: records.into_iter().map(entry).collect(), ..State::default() };
        let catalog = Arc::new_cyclic(|me| Self {
            services: Services { runtime, clock, registry },
            rules: ArcSwap::from_pointee(Rules::new(config)),
            ledger,
            state: Mutex::new(state),
            rested: Condvar::new(),
            writing: Mutex::default(),
            current: ArcSwap::default(),
            status: ArcSwap::default(),
            generations: AtomicU64::new(0),
            native: OnceLock::new(),
            audit: OnceLock::new(),
            me: Weak::clone(me),
        });
        catalog.rescan(|_| false);
        catalog.wait(|state| state.entries.values().all(|entry| !entry.working), START_PATIENCE);
        // Even with no plugin at all there is a set.
        catalog.publish(&mut catalog.state.lock());
        catalog
    }

    /// Writes swaps down there from now on.
    pub fn audit_to(&self, audit: Arc<Audit>) {
        let _said_before = self.audit.set(audit);
    }

    /// Serves every pool by this chain from now on, in the place of all plugins: it is compiled into the process, and
    /// for benchmarks only.
    pub fn serve_by(&self, native: Chain) {
        let mut state = self.state.lock();
        let _said_before = self.native.set(Arc::new(native));
        "another than any that plugins make".clone_into(&mut state.likeness);
        self.publish(&mut state);
    }

    fn rules(&self) -> Arc<Rules> {
        self.rules.load_full()
    }

    /// The policies in force.
    #[must_use]
    pub fn current(&self) -> Arc<PolicySet> {
        self.current.load_full()
    }

    /// The files that the last scan saw.
    #[must_use]
    pub fn listing(&self) -> BTreeMap<PathBuf, Stamp> {
        self.state.lock().listing.clone()
    }

    /// Reads the directory again, except for paths that are still `changing`, and has workers see to what is
    /// new. Nothing is read or compiled here.
    pub fn rescan(&self, changing: impl Fn(&Path) -> bool) {
        let mut state = self.state.lock();
        // Of a directory that cannot be listed nothing is known: what is in force stays.
        let rules = self.rules();
        match rules.directory.as_deref().map(list) {
            Some(Ok(listing)) => state.listing = listing,
            Some(Err(_)) => {}
            None => state.listing.clear(),
        }
        for name in names(&state) {
            for place in Place::ALL {
                let directory = rules.directory.as_deref();
                // A file that is missing may be on its way back too.
                let paths = directory.map(|directory| place.paths(directory, &name));
                if paths.as_ref().is_some_and(|paths| paths.iter().any(|path| changing(path))) {
                    continue;
                }
                let file = paths.and_then(|paths| File::find(&state.listing, paths)).map(Arc::new);
                let entry =
                    state.entries.entry(name.clone()).or_insert_with(|| Entry::new(Record::default()));
                // Nothing has been seen of a plugin that was just heard of, so that there is no file is news.
                if entry.seen.get(&place) != Some(&file) {
                    entry.seen.insert(place, file.clone());
                    entry.todo.push_back(Task::Read(place, file));
                }
            }
            self.employ(&mut state, &name);
        }
    }

    /// Has a worker see to what is to be done for a name.
    fn employ(&self, state: &mut State, name: &str) {
        let Some(entry) = state.entries.get_mut(name) else { return };
        if entry.working || entry.todo.is_empty() {
            return;
        }
        entry.working = true;
        let (me, named) = (Weak::clone(&self.me), Box::<str>::from(name));
        let work = move || {
            // It may take long; a process that ends does not wait for it.
            while let Some(me) = me.upgrade()
                && me.work(&named)
            {}
        };
        let thread = std::thread::Builder::new().name("plugin-load".into()).spawn(work);
        if let Err(error) = thread {
            entry.working = false;
            tracing::error!(plugin = name, %error, "no thread to load it on; it is tried again at the next change");
            entry.seen.clear();
            entry.todo.clear();
        }
    }

    /// Does the next task for a name. Says whether there was one.
    fn work(&self, name: &str) -> bool {
        let (task, brief) = {
            let mut state = self.state.lock();
            let Some(entry) = state.entries.get_mut(name) else { return false };
            let Some(task) = entry.todo.pop_front() else {
                entry.working = false;
                state.entries.retain(|name, entry| entry.matters() || builtin::NAMES.contains(&&**name));
                self.show(&state);
                self.rested.notify_all();
                return false;
            };
            (task, Brief::of(entry, self.rules()))
        };
        let outcomes = self.perform(name, &task, &brief);
        let bytes: Vec<_> = outcomes.iter().filter_map(kept_bytes).collect();
        let mut state = self.state.lock();
        if let Some(entry) = state.entries.get_mut(name) {
            if !Arc::ptr_eq(&brief.rules, &self.rules.load()) {
                // What was done went by another configuration.
                entry.todo.push_front(task);
                return true;
            }
            for outcome in outcomes {
                let promoted = match (&task, &outcome) {
                    (Task::Promote, Outcome::InForce(version, _)) => Some(Arc::clone(version)),
                    _ => None,
                };
                entry.apply(name, outcome);
                if let Some(version) = promoted {
                    entry.promoted(&version);
                }
            }
        }
        self.publish(&mut state);
        self.rested.notify_all();
        drop(state);
        self.remember(&bytes);
        true
    }

    /// Writes down what must outlive a restart. The state is not locked meanwhile: the disk may be slow.
    fn remember(&self, bytes: &[(Box<str>, Arc<[u8]>)]) {
        let _in_order = self.writing.lock();
        let state = self.state.lock();
        let records =
            state.entries.iter().map(|(name, entry)| (name.clone(), entry.record.clone())).collect();
        let needed: BTreeSet<_> = state.entries.values().flat_map(Entry::needed).collect();
        drop(state);
        for (digest, bytes) in bytes {
            self.ledger.keep(digest, bytes);
        }
        self.ledger.write(records);
        self.ledger.prune(&needed);
    }

    /// Waits until something holds, or for so long at most.
    fn wait(&self, holds: impl Fn(&State) -> bool, at_most: Duration) {
        let mut state = self.state.lock();
        self.rested.wait_while_for(&mut state, |state| !holds(state), at_most);
    }

    /// Makes the policy set of what is loaded and swaps it in if it differs from the one in force.
    fn publish(&self, state: &mut State) {
        let current = self.current.load();
        let mut new = publish::publish(&self.rules.load(), &state.entries, current.generation + 1);
        if let Some(native) = self.native.get() {
            new.set.chains.values_mut().for_each(|chain| *chain = Arc::clone(native));
        }
        let same = new.members.len() == state.members.len()
            && new.members.iter().zip(&state.members).all(|((_, new), (_, old))| Arc::ptr_eq(new, old))
            && new.likeness == state.likeness;
        if !same || current.generation == 0 {
            let before = std::mem::replace(&mut state.members, new.members);
            state.likeness = new.likeness;
            state.tried = new.set.trial.as_ref().map(|trial| trial.arm);
            log_new(&before, &state.members);
            if let Some(audit) = self.audit.get() {
                noted::swap(audit, &before, &state.members);
            }
            self.current.store(Arc::new(new.set));
            state.keep_counts(before);
        }
        self.show(state);
    }

    fn next_generation(&self) -> u64 {
        self.generations.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// The names that there is something to know of.
fn names(state: &State) -> BTreeSet<Box<str>> {
    let builtins = builtin::NAMES.into_iter().map(Box::from);
    files::names(&state.listing).into_iter().chain(builtins).chain(state.entries.keys().cloned()).collect()
}

fn kept_bytes(outcome: &Outcome) -> Option<(Box<str>, Arc<[u8]>)> {
    match outcome {
        Outcome::InForce(version, Some(bytes)) => Some((version.digest().into(), Arc::clone(bytes))),
        _ => None,
    }
}

fn log_new(before: &[(Box<str>, Arc<Member>)], now: &[(Box<str>, Arc<Member>)]) {
    for (name, member) in now {
        if before.iter().any(|(_, old)| Arc::ptr_eq(old, member)) {
            continue;
        }
        let plugin = &*member.plugin;
        let as_what = if plugin.arm == Arm::BASE { "in force" } else { "on trial" };
        tracing::info!(
            plugin = &**name,
            version = &*plugin.version,
            source = ?plugin.source,
            stages = ?plugin.stages,
            digest = plugin.digest.get(..12),
            "{as_what}"
        );
    }
}

impl State {
    /// Counters must not fall back to zero when a version goes.
    fn keep_counts(&mut self, before: Vec<(Box<str>, Arc<Member>)>) {
        for (name, member) in before {
            let stays = self.members.iter().any(|(_, now)| Arc::ptr_eq(now, &member));
            let Some(entry) = self.entries.get_mut(&name).filter(|_| !stays) else { continue };
            let place = if member.plugin.arm == Arm::BASE { Place::Main } else { Place::Next };
            for (reason, count) in member.plugin.health.failures().filter(|(_, count)| *count > 0) {
                *entry.tally(place).failed_before.entry(reason.as_str()).or_default() += count;
            }
        }
    }
}
