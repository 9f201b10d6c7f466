//! Which version of each plugin is in force.
//!
//! The catalog reads the directory and the built-ins, loads what is new, and publishes a whole new
//! [`PolicySet`] when anything changed. A file that cannot be used changes nothing: the version in force
//! stays and the reason is kept for `GET /plugins`. All of it runs on the caller's thread, which is never
//! one that serves requests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::artifact::digest;
use super::builtin;
use super::chains::{Member, Members, chain};
use super::directory::{Stamp, list};
use super::engine::Runtime;
use super::load::{Kept, LoadError, Loaded, Services};
use super::status::{PluginStatus, Refused};
use crate::clock::Clock;
use crate::config::{ChainConfig, Config, Mode, PluginConfig, Unlisted, beside};
use crate::policy::{Plugin, PolicySet, Reason, Registry, Source};

#[derive(Default)]
struct Entry {
    loaded: Option<Arc<Loaded>>,
    /// The file that was read last, good or not; none while the built-in is in force.
    stamps: Option<(Stamp, Option<Stamp>)>,
    beside: (Option<f32>, Option<serde_json::Value>),
    refused: Option<Refused>,
    loads: u64,
    refusals: BTreeMap<&'static str, u64>,
    failed_before: BTreeMap<&'static str, u64>,
    kept: Kept,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<Box<str>, Entry>,
    members: Members,
    listing: BTreeMap<PathBuf, Stamp>,
}

impl State {
    /// Counters must not fall back to zero when a version goes.
    fn keep_counts(&mut self, before: Members) {
        for (key, member) in before {
            let stays = self.members.get(&key).is_some_and(|now| Arc::ptr_eq(now, &member));
            let Some(entry) = self.entries.get_mut(&key.1).filter(|_| !stays) else { continue };
            for (reason, count) in member.plugin.health.failures().filter(|(_, count)| *count > 0) {
                *entry.failed_before.entry(reason.as_str()).or_default() += count;
            }
        }
    }
}

/// The plugins of this process.
pub struct Catalog {
    services: Services,
    directory: Option<PathBuf>,
    unlisted: Unlisted,
    configs: Vec<PluginConfig>,
    chains: Vec<ChainConfig>,
    state: Mutex<State>,
    current: ArcSwap<PolicySet>,
    /// What the last scan left. Kept apart from the state, which is locked while a plugin compiles.
    status: ArcSwap<Vec<PluginStatus>>,
    generations: AtomicU64,
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalog").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Catalog {
    /// Loads the built-ins and what lies in the directory.
    #[must_use]
    pub fn load(
        config: &Config,
        runtime: Arc<Runtime>,
        registry: Arc<Registry>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let catalog = Self {
            services: Services { runtime, clock, registry },
            directory: config.plugins_dir.clone(),
            unlisted: config.unlisted,
            configs: config.plugins.clone(),
            chains: config.chains.clone(),
            state: Mutex::default(),
            current: ArcSwap::default(),
            status: ArcSwap::default(),
            generations: AtomicU64::new(0),
        };
        catalog.rescan(|_| false);
        catalog
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

    /// Reads the directory again, except for paths that are still `changing`, and swaps the policy set if
    /// anything is new.
    pub fn rescan(&self, changing: impl Fn(&Path) -> bool) {
        let mut state = self.state.lock();
        state.listing = self.directory.as_deref().map(list).unwrap_or_default();
        for name in self.names(&state) {
            let mut entry = state.entries.remove(&name).unwrap_or_default();
            let file = self.file(&state.listing, &name);
            if !file.as_ref().is_some_and(|file| changing(&file.path) || changing(&file.beside)) {
                self.refresh(&name, &mut entry, file);
            }
            state.entries.insert(name, entry);
        }
        self.publish(&mut state);
        state.entries.retain(|name, entry| {
            entry.loaded.is_some() || entry.refused.is_some() || builtin::NAMES.contains(&&**name)
        });
        self.status.store(Arc::new(self.describe(&state)));
    }

    /// What is known of every plugin, by name.
    #[must_use]
    pub fn status(&self) -> Arc<Vec<PluginStatus>> {
        self.status.load_full()
    }

    /// Plugins that the configuration names and that cannot serve.
    #[must_use]
    pub fn absent(&self) -> Vec<Box<str>> {
        let status = self.status();
        let serves =
            |name: &str| status.iter().any(|plugin| *plugin.name == *name && !plugin.serving.is_empty());
        let named =
            self.configs.iter().filter(|config| config.mode == Mode::Active).map(|config| &config.name);
        let used = self.chains.iter().flat_map(|chain| &chain.plugins).map(|used| &used.plugin);
        let wanted: BTreeSet<_> = named.chain(used).collect();
        wanted.into_iter().filter(|name| !serves(name)).cloned().collect()
    }

    fn describe(&self, state: &State) -> Vec<PluginStatus> {
        let status = state.entries.iter().map(|(name, entry)| PluginStatus {
            name: name.clone(),
            mode: self.config(name, entry).mode,
            serving: serving(&state.members, name),
            refused: entry.refused.clone(),
            loads: entry.loads,
            refusals: entry.refusals.clone(),
            failed_before: entry.failed_before.clone(),
            series: Arc::clone(&entry.kept.series),
        });
        status.collect()
    }

    fn names(&self, state: &State) -> BTreeSet<Box<str>> {
        let files = state.listing.keys().filter(|path| path.extension().is_some_and(|kind| kind == "wasm"));
        let files = files.filter_map(|path| path.file_stem()?.to_str()).map(Box::from);
        let builtins = builtin::NAMES.into_iter().map(Box::from);
        files.chain(builtins).chain(state.entries.keys().cloned()).collect()
    }

    fn file(&self, listing: &BTreeMap<PathBuf, Stamp>, name: &str) -> Option<File> {
        let directory = self.directory.as_deref()?;
        let path = directory.join(format!("{name}.wasm"));
        let beside = directory.join(format!("{name}.toml"));
        let stamps = (listing.get(&path)?.clone(), listing.get(&beside).cloned());
        Some(File { path, beside, stamps })
    }

    /// Brings one entry up to date with its file, or with the built-in where there is no file.
    fn refresh(&self, name: &str, entry: &mut Entry, file: Option<File>) {
        match file {
            Some(file) if entry.stamps.as_ref() == Some(&file.stamps) => {}
            Some(file) => {
                let result = self.read(name, entry, &file);
                entry.stamps = Some(file.stamps);
                self.settle(name, entry, result);
                if entry.loaded.is_none() {
                    self.fall_back(name, entry);
                }
            }
            None => {
                let was_file = entry.stamps.take().is_some();
                if was_file {
                    entry.refused = None;
                    entry.beside = (None, None);
                }
                let in_force = entry.loaded.as_ref().is_some_and(|loaded| loaded.source == Source::Builtin);
                if !in_force {
                    entry.loaded = None;
                    self.fall_back(name, entry);
                }
            }
        }
    }

    fn read(
        &self,
        name: &str,
        entry: &mut Entry,
        file: &File,
    ) -> Result<Option<Arc<Loaded>>, (Box<str>, LoadError)> {
        let listed = self.configs.iter().any(|config| *config.name == *name);
        let bytes = std::fs::read(&file.path).map_err(|error| ("".into(), error.into()))?;
        let digest = digest(&bytes);
        let fail = |error: LoadError| (digest.clone(), error);
        if !listed && self.unlisted == Unlisted::Refuse {
            return Err(fail(LoadError::Unlisted));
        }
        let old = std::mem::take(&mut entry.beside);
        match beside(&file.path) {
            Ok(settings) => {
                entry.beside = settings.map(|found| (found.weight, found.config)).unwrap_or_default()
            }
            Err(errors) => {
                entry.beside = old;
                return Err(fail(LoadError::Beside(errors.to_string())));
            }
        }
        let config = self.config(name, entry);
        let loaded = match &entry.loaded {
            Some(loaded) if loaded.digest == digest && loaded.source == Source::File => Arc::clone(loaded),
            _ => Arc::new(
                Loaded::new(&self.services, &bytes, Source::File, self.next_generation(), &config)
                    .map_err(fail)?,
            ),
        };
        // Tried out here with its plain configuration, so that a refusal leaves the chains alone.
        match Member::new(&self.services, &entry.kept, Arc::clone(&loaded), config) {
            Ok(_) => Ok(Some(loaded)),
            Err(error) => {
                entry.beside = old;
                Err(fail(error))
            }
        }
    }

    fn fall_back(&self, name: &str, entry: &mut Entry) {
        let Some(bytes) = builtin::bytes(name) else { return };
        let config = self.config(name, entry);
        let result = Loaded::new(&self.services, bytes, Source::Builtin, self.next_generation(), &config)
            .map(Arc::new)
            .and_then(|loaded| {
                Member::new(&self.services, &entry.kept, Arc::clone(&loaded), config).map(|_| Some(loaded))
            })
            .map_err(|error| (digest(bytes), error));
        let refused = entry.refused.take();
        self.settle(name, entry, result);
        entry.refused = refused.or(entry.refused.take());
    }

    /// Takes a freshly read version into the entry, or notes why not.
    fn settle(
        &self,
        name: &str,
        entry: &mut Entry,
        result: Result<Option<Arc<Loaded>>, (Box<str>, LoadError)>,
    ) {
        match result {
            Ok(loaded) => {
                entry.loads += 1;
                entry.refused = None;
                entry.loaded = loaded;
            }
            Err((digest, error)) => {
                let stays = match &entry.loaded {
                    Some(loaded) => format!("version {:.12} stays in force", loaded.digest),
                    None => "nothing serves under this name".into(),
                };
                tracing::error!(plugin = name, digest = &*digest, %error, "plugin refused; {stays}");
                *entry.refusals.entry(error.reason()).or_default() += 1;
                if let Some(reason) = error.failed_call() {
                    *entry.failed_before.entry(Reason::as_str(reason)).or_default() += 1;
                }
                entry.refused = Some(Refused { digest, reason: error.to_string() });
            }
        }
    }

    /// Makes the policy set of what is loaded and swaps it in if it differs from the one in force.
    fn publish(&self, state: &mut State) {
        let mut members = Members::new();
        let mut chains = BTreeMap::new();
        for (chain_name, uses) in self.uses(state) {
            let mut in_chain = Vec::new();
            for config in uses {
                let key = (chain_name.clone(), config.name.clone());
                if let Some(member) = self.member(state, &key, config) {
                    in_chain.push(Arc::clone(&member));
                    members.insert(key, member);
                }
            }
            chains.insert(chain_name.clone(), Arc::new(chain(&chain_name, &in_chain)));
        }
        let same = members.len() == state.members.len()
            && members
                .iter()
                .all(|(key, member)| state.members.get(key).is_some_and(|old| Arc::ptr_eq(old, member)));
        let current = self.current.load();
        if same && current.generation > 0 {
            return;
        }
        let set = PolicySet {
            generation: current.generation + 1,
            chains,
            plugins: members.values().map(|member| Arc::clone(&member.plugin)).collect(),
            granted_headers: members
                .values()
                .flat_map(|member| member.config.grant.headers.clone())
                .collect(),
        };
        for ((chain, name), member) in &members {
            let is_new =
                state.members.get(&(chain.clone(), name.clone())).is_none_or(|old| !Arc::ptr_eq(old, member));
            if is_new {
                let Plugin { version, digest, source, stages, .. } = &*member.plugin;
                tracing::info!(
                    plugin = &**name,
                    chain = &**chain,
                    version = &**version,
                    ?source,
                    ?stages,
                    "plugin in force: {digest:.12}"
                );
            }
        }
        let before = std::mem::replace(&mut state.members, members);
        self.current.store(Arc::new(set));
        state.keep_counts(before);
    }

    /// The member of a chain: the one in force if nothing about it changed, else a new one. One that cannot
    /// be set up leaves the one in force.
    fn member(
        &self,
        state: &mut State,
        key: &(Box<str>, Box<str>),
        config: PluginConfig,
    ) -> Option<Arc<Member>> {
        let old = state.members.get(key).cloned();
        let entry = state.entries.get_mut(&key.1)?;
        let loaded = Arc::clone(entry.loaded.as_ref()?);
        if let Some(old) = &old
            && old.is(&loaded, &config)
        {
            return Some(Arc::clone(old));
        }
        match Member::new(&self.services, &entry.kept, loaded, config) {
            Ok(member) => Some(Arc::new(member)),
            Err(error) => {
                tracing::error!(plugin = &*key.1, chain = &*key.0, %error, "plugin cannot serve this chain");
                let digest = entry.loaded.as_ref().map(|loaded| loaded.digest.clone()).unwrap_or_default();
                entry.refused = Some(Refused { digest, reason: format!("in chain `{}`: {error}", key.0) });
                old
            }
        }
    }

    /// The plugins that each chain uses, in order, with their configuration.
    fn uses(&self, state: &State) -> Vec<(Box<str>, Vec<PluginConfig>)> {
        let config = |name: &str| {
            let entry = state.entries.get(name)?;
            Some(self.config(name, entry)).filter(|config| config.mode == Mode::Active)
        };
        if self.chains.is_empty() {
            let others =
                state.entries.keys().map(|name| &**name).filter(|name| !builtin::NAMES.contains(name));
            let names = builtin::NAMES.into_iter().chain(others);
            return vec![("default".into(), names.filter_map(config).collect())];
        }
        let chain = |chain: &ChainConfig| {
            let uses = chain.plugins.iter().filter_map(|used| {
                let mut config = config(&used.plugin)?;
                config.weight = used.weight.or(config.weight);
                if let Some(json) = &used.config {
                    config.config = json.clone();
                }
                Some(config)
            });
            (chain.name.clone(), uses.collect())
        };
        self.chains.iter().map(chain).collect()
    }

    /// The configuration of a plugin: its `[[plugin]]`, or the defaults with what lies beside the file.
    fn config(&self, name: &str, entry: &Entry) -> PluginConfig {
        match self.configs.iter().find(|config| *config.name == *name) {
            Some(config) => config.clone(),
            None => {
                let mut config = PluginConfig::named(name);
                config.weight = entry.beside.0;
                if let Some(json) = &entry.beside.1 {
                    config.config = json.clone();
                }
                config
            }
        }
    }

    fn next_generation(&self) -> u64 {
        self.generations.fetch_add(1, Ordering::Relaxed) + 1
    }
}

struct File {
    path: PathBuf,
    beside: PathBuf,
    stamps: (Stamp, Option<Stamp>),
}

fn serving(members: &Members, name: &str) -> Vec<(Arc<Plugin>, f32)> {
    let of_name = members.iter().filter(|((_, plugin), _)| **plugin == *name);
    of_name.map(|(_, member)| (Arc::clone(&member.plugin), member.weight)).collect()
}
