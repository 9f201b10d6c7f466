//! One file's bytes, made a plugin that may count.

use std::sync::Arc;

use parking_lot::Mutex;

use super::artifact::ArtifactError;
use super::bindings::exports::sluicegate::policy::plugin::Manifest;
use super::case::{Cases, Recorder};
use super::component::{ComponentError, Linked};
use super::engine::Runtime;
use super::host::{Grants, Shared};
use super::instance::{Instances, Population};
use super::kv::Store;
use super::probe::{self, ProbeError};
use super::quota::Quota;
use super::series::Series;
use super::supply::SupplyError;
use crate::clock::{Clock, Nanos};
use crate::config::PluginConfig;
use crate::policy::{CallError, Reason, Registry, Source};

/// Why a plugin is not taken into service.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read, or may not be loaded.
    #[error(transparent)]
    Supply(#[from] SupplyError),
    /// Its bytes are no plugin.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// It does not fit the contract.
    #[error(transparent)]
    Component(#[from] ComponentError),
    /// It cannot be set up.
    #[error("it cannot be set up: {0}")]
    SetUp(CallError),
    /// It fails a trial call.
    #[error(transparent)]
    Probe(#[from] Trial),
    /// It cannot serve a chain that uses it.
    #[error("in chain `{chain}`: {error}")]
    InChain {
        /// The chain.
        chain: Box<str>,
        /// Why not.
        error: Box<LoadError>,
    },
    /// The file beside it cannot be used.
    #[error("{0}")]
    Beside(String),
    /// The configuration names it and says not to load files that nothing names.
    #[error("no [[plugin]] names it, and `plugins.unlisted` is \"refuse\"")]
    Unlisted,
}

/// A failed trial call.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Trial(ProbeError);

impl LoadError {
    /// The reason to count it under.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Supply(error) => error.reason(),
            Self::Artifact(_) => "not_a_plugin",
            Self::Component(ComponentError::Version { .. }) => "wrong_version",
            Self::Component(ComponentError::Compile(error)) => error.reason(),
            Self::Component(ComponentError::Needs(_)) => "memory",
            Self::Component(_) => "does_not_fit",
            Self::SetUp(_) => "set_up",
            Self::Probe(Trial(error)) => error.error.reason.as_str(),
            Self::InChain { error, .. } => error.reason(),
            Self::Beside(_) => "beside",
            Self::Unlisted => "unlisted",
        }
    }

    /// The kind of failed call, when it is a call that failed.
    #[must_use]
    pub fn failed_call(&self) -> Option<Reason> {
        match self {
            Self::Probe(Trial(error)) => Some(error.error.reason),
            Self::SetUp(error) => Some(error.reason),
            Self::InChain { error, .. } => error.failed_call(),
            _ => None,
        }
    }
}

/// Where a plugin gets what the host gives it.
#[derive(Debug, Clone)]
pub(super) struct Services {
    pub(super) runtime: Arc<Runtime>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) registry: Arc<Registry>,
}

impl Services {
    /// For plugins that are looked at and serve nobody: columns of their own, with this runtime and clock.
    pub(super) fn alone(runtime: Arc<Runtime>, clock: Arc<dyn Clock>) -> Self {
        Self { runtime, clock, registry: Arc::default() }
    }
}

/// A plugin's state that outlives its versions.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept {
    pub(super) store: Arc<Store>,
    pub(super) series: Arc<Series>,
    pub(super) cases: Arc<Cases>,
    pub(super) quota: Arc<Quota>,
    pub(super) population: Arc<Population>,
}

/// A compiled version of a plugin.
pub(super) struct Loaded {
    pub(super) digest: Box<str>,
    pub(super) source: Source,
    pub(super) generation: u64,
    linked: Arc<Linked>,
}

impl Kept {
    /// What a candidate of the plugin keeps: a store over the plugin's, and series of its own.
    pub(super) fn of_candidate(&self) -> Self {
        Self { store: Arc::new(Store::over(&self.store)), ..Self::default() }
    }

    /// Takes over what a candidate has stored.
    pub(super) fn adopt(&self, candidate: &Self, now: Nanos) {
        self.store.adopt(&candidate.store, now);
    }
}

impl Loaded {
    /// Compiles and links.
    pub(super) fn new(
        services: &Services,
        bytes: &[u8],
        source: Source,
        generation: u64,
        config: &PluginConfig,
    ) -> Result<Self, LoadError> {
        let artifact = services.runtime.compiler().artifact(bytes, source)?;
        let linked =
            Arc::new(Linked::new(&services.runtime, &artifact, source, config.memory_bytes, config.wasi)?);
        Ok(Self { digest: artifact.digest, source, generation, linked })
    }

    pub(super) fn stages(&self) -> &[&'static str] {
        &self.linked.stages
    }

    /// Instances with one configuration, tried out.
    pub(super) fn instances(
        &self,
        services: &Services,
        kept: &Kept,
        config: &PluginConfig,
    ) -> Result<(Arc<Instances>, Manifest), LoadError> {
        let instances = self.untried(services, kept, config);
        let manifest = probe::describe(&instances).map_err(LoadError::SetUp)?;
        probe::stages(&instances).map_err(|error| LoadError::Probe(Trial(error)))?;
        instances.ready().map_err(LoadError::SetUp)?;
        Ok((instances, manifest))
    }

    /// Instances with one configuration, none of them made yet.
    pub(super) fn untried(&self, services: &Services, kept: &Kept, config: &PluginConfig) -> Arc<Instances> {
        let shared = Arc::new(Shared {
            name: config.name.clone(),
            clock: Arc::clone(&services.clock),
            registry: Arc::clone(&services.registry),
            store: Arc::clone(&kept.store),
            series: Arc::clone(&kept.series),
            quota: Arc::clone(&kept.quota),
            population: Arc::clone(&kept.population),
            grants: Grants { body: config.grant.body, headers: config.grant.headers.clone() },
            memory_bytes: config.memory_bytes,
            resolved: Mutex::default(),
            recorder: Recorder {
                config: config.clone(),
                digest: self.digest.clone(),
                cases: Arc::clone(&kept.cases),
            },
        });
        self.linked.alive.get_or_init(|| kept.population.generation());
        let json = config.config.to_string().into();
        Arc::new(Instances::new(Arc::clone(&self.linked), shared, json))
    }
}
