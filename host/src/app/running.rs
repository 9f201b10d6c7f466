//! The configuration in force, and the change to another one.
//!
//! A configuration is applied whole or refused whole: all that can go wrong is tried first, while the one in force
//! serves; what comes after cannot fail. A request goes on with what it began with, and the next one finds the new
//! [`Proxy`]. Starting is the same change, from nothing.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::secrets;
use super::services::{self, Planned};
use super::shared::Shared;
use super::tasks::Tasks;
use super::tokens::{self, Tokenizers};
use super::{AppError, Native};
use crate::admin::{Access, Admin, AdminPool, Control, EndpointRefusal};
use crate::audit::Deed;
use crate::config::{self, Config, Flags};
use crate::discovery::Addition;
use crate::plugin::{Prepared, supervise, watch};
use crate::proxy::{Proxy, Service};
use crate::telemetry::Reloaded;

/// What runs, under whatever configuration.
pub(super) struct Running {
    flags: Flags,
    pub(super) shared: Arc<Shared>,
    pub(super) proxy: Arc<ArcSwap<Proxy>>,
    pub(super) admin: Arc<ArcSwap<Admin>>,
    /// Held while the configuration changes.
    state: Mutex<State>,
    me: Weak<Self>,
}

struct State {
    config: Config,
    /// Of the secrets that are in use.
    secrets: secrets::Hashes,
    tokenizers: Tokenizers,
    tasks: Tasks,
    watch: Option<watch::Watch>,
    /// None once another process has taken over.
    supervisor: Option<supervise::Supervisor>,
}

/// A configuration that can be applied.
struct Ready {
    config: Config,
    secrets: secrets::Hashes,
    services: Vec<Planned>,
    plugins: Prepared,
    access: Access,
    /// Of the plugin directory, where that is another one.
    watch: Option<Option<watch::Watch>>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("flags", &self.flags).finish_non_exhaustive()
    }
}

impl Running {
    /// Starts everything but the listeners; the plugins are loaded when it returns. `flags` are what `config` was
    /// read from.
    pub(super) fn start(
        flags: Flags,
        config: Config,
        native: Option<Native>,
        runtime: Handle,
    ) -> Result<Arc<Self>, AppError> {
        let shared = Arc::new(Shared::start(&config, native)?);
        let mut tokenizers = Tokenizers::default();
        let planned = services::plan(&shared, &config, &[], &mut tokenizers)?;
        let access = Access::of(&config.admin_tokens)?;
        let services: Vec<_> = planned.into_iter().map(|planned| planned.take(&config)).collect();
        let watch = watched(&shared, &config).map_err(AppError::Start)?;
        let mut tasks = Tasks::on(runtime);
        tasks.follow(&shared, &services, &config.scrape);
        let supervisor = supervise::start(
            Arc::clone(&shared.catalog),
            lanes(&services),
            config.guardrails.clone(),
            Arc::clone(&shared.clock),
        )
        .map_err(AppError::Start)?;
        Ok(Arc::new_cyclic(|me| Self {
            flags,
            proxy: Arc::new(ArcSwap::from_pointee(proxy(&shared, &config, &services))),
            admin: Arc::new(ArcSwap::from_pointee(admin(
                &shared,
                &config,
                &services,
                access,
                watch.as_ref(),
                me,
            ))),
            shared,
            state: Mutex::new(State {
                secrets: secrets::hashes(&config),
                config,
                tokenizers,
                tasks,
                watch,
                supervisor: Some(supervisor),
            }),
            me: Weak::clone(me),
        }))
    }

    /// The file that is watched.
    pub(super) fn file(&self) -> Option<&Path> {
        self.flags.config.as_deref()
    }

    /// Another process has taken over: what is in `state_dir` is its own from now on, and plugins are no more swapped
    /// here.
    pub(super) fn retire(&self) {
        let mut state = self.state.lock();
        state.watch = None;
        state.supervisor = None;
    }

    /// Whether the file, or a secret, says anything else than what is in force.
    pub(super) fn differs(&self) -> bool {
        let Ok(config) = config::from_flags(self.flags.clone()) else { return true };
        let state = self.state.lock();
        config != state.config || secrets::hashes(&config) != state.secrets
    }

    /// The files in which the secrets in use lie.
    pub(super) fn secret_files(&self) -> Vec<PathBuf> {
        secrets::files(&self.state.lock().config).map(Path::to_path_buf).collect()
    }

    /// Reads the configuration again and applies it, or says why not.
    pub(super) fn reload(&self) -> Reloaded {
        let mut state = self.state.lock();
        let reloaded = match self.prepare(&mut state) {
            Ok(None) => Reloaded::Unchanged,
            Ok(Some(ready)) => self.apply(&mut state, ready),
            Err(why) => Reloaded::Refused(why),
        };
        match &reloaded {
            Reloaded::Applied => tracing::info!("the changed configuration is in force"),
            Reloaded::Unchanged => tracing::info!("the configuration has not changed"),
            Reloaded::Refused(why) => {
                tracing::error!("the changed configuration is refused, and the one in force stays: {why}");
            }
        }
        let deed = Deed::new("config.reload", "configuration", "router");
        match &reloaded {
            Reloaded::Applied => self.shared.audit.note(&deed),
            Reloaded::Refused(why) => self.shared.audit.note(&deed.because(why).failed()),
            Reloaded::Unchanged => {}
        }
        self.shared.reloads.note(&reloaded);
        reloaded
    }

    /// Adds an endpoint while the router runs.
    fn add_endpoint(&self, addition: Addition) -> Result<(), EndpointRefusal> {
        let mut state = self.state.lock();
        let service = self.adding_to(&addition.pool)?;
        let id = addition.spec().map(|spec| spec.url.name()).unwrap_or_default();
        let pools = &self.proxy.load().pools;
        if let Some(other) = pools.iter().find(|service| service.lane.pool.endpoint(&id).is_some()) {
            return Err(EndpointRefusal::Taken { id: id.into(), pool: other.config.name.clone() });
        }
        self.shared.additions.add(addition)?;
        self.endpoints_changed(&mut state, &service);
        Ok(())
    }

    /// Takes one away that was added.
    fn remove_endpoint(&self, id: &str) -> Result<(), EndpointRefusal> {
        let mut state = self.state.lock();
        let Some(pool) = self.shared.additions.pool_of(id) else {
            let pools = &self.proxy.load().pools;
            let is_there = pools.iter().any(|service| service.lane.pool.endpoint(id).is_some());
            return Err(match is_there {
                true => EndpointRefusal::Configured(id.into()),
                false => EndpointRefusal::Unknown(id.into()),
            });
        };
        let service = self.adding_to(&pool)?;
        self.shared.additions.remove(id)?;
        self.endpoints_changed(&mut state, &service);
        Ok(())
    }

    /// The pool of this name, if endpoints may be added to it.
    fn adding_to(&self, pool: &str) -> Result<Arc<Service>, EndpointRefusal> {
        let proxy = self.proxy.load();
        let service = proxy.pools.iter().find(|service| &*service.config.name == pool);
        match service {
            None => Err(EndpointRefusal::NoPool(pool.into())),
            Some(service) if !service.config.admin_endpoints => Err(EndpointRefusal::NotAllowed(pool.into())),
            Some(service) => Ok(Arc::clone(service)),
        }
    }

    fn endpoints_changed(&self, state: &mut State, service: &Service) {
        // Its secrets were there when the service was made.
        let sources = services::sources(&self.shared, &service.config).unwrap_or_default();
        service.lane.pool.update(self.shared.names.endpoints(&sources));
        let services = &self.proxy.load().pools;
        state.tasks.follow(&self.shared, services, &state.config.scrape);
        self.close_unused(services);
    }

    /// Closes the connections to endpoints that are gone.
    fn close_unused(&self, services: &[Arc<Service>]) {
        let endpoints = services.iter().flat_map(|service| service.lane.pool.endpoints().to_vec());
        self.shared.upstream.retain(&endpoints.map(|endpoint| endpoint.id).collect::<HashSet<_>>());
    }

    /// All that can go wrong. None: nothing has changed.
    fn prepare(&self, state: &mut State) -> Result<Option<Ready>, String> {
        let config = config::from_flags(self.flags.clone()).map_err(|errors| errors.to_string())?;
        let secrets = secrets::hashes(&config);
        if config == state.config && secrets == state.secrets {
            return Ok(None);
        }
        if let Some(key) = fixed(&state.config, &config) {
            return Err(format!(
                "{key}: it cannot change while the process runs; `sluicegate upgrade` applies it"
            ));
        }
        let unreadable = tokens::problems_beyond(&state.config, &config);
        if !unreadable.is_empty() {
            return Err(unreadable.join("; "));
        }
        let plugins = self.shared.catalog.prepare(&config).map_err(|error| error.to_string())?;
        let before = &self.proxy.load().pools;
        let services = services::plan(&self.shared, &config, before, &mut state.tokenizers)
            .map_err(|error| error.to_string())?;
        let access = Access::of(&config.admin_tokens).map_err(|error| error.to_string())?;
        let same_directory =
            (&config.plugins_dir, config.watch) == (&state.config.plugins_dir, state.config.watch);
        let watch = match same_directory {
            true => None,
            false => Some(
                watched(&self.shared, &config)
                    .map_err(|error| format!("plugins.dir: no thread to watch it: {error}"))?,
            ),
        };
        Ok(Some(Ready { config, secrets, services, plugins, access, watch }))
    }

    fn apply(&self, state: &mut State, ready: Ready) -> Reloaded {
        let Ready { config, secrets, services, plugins, access, watch } = ready;
        // First, because it may still be refused.
        if let Err(error) = self.shared.catalog.take(plugins, &config) {
            return Reloaded::Refused(error.to_string());
        }
        let services: Vec<_> = services.into_iter().map(|planned| planned.take(&config)).collect();
        if let Some(watch) = watch {
            state.watch = watch;
        }
        self.shared.tenants.replace(&config);
        self.proxy.store(Arc::new(proxy(&self.shared, &config, &services)));
        let admin = admin(&self.shared, &config, &services, access, state.watch.as_ref(), &self.me);
        self.admin.store(Arc::new(admin));
        if let Some(supervisor) = &state.supervisor {
            supervisor.follow(lanes(&services), config.guardrails.clone());
        }
        state.tasks.follow(&self.shared, &services, &config.scrape);
        self.close_unused(&services);
        state.config = config;
        state.secrets = secrets;
        Reloaded::Applied
    }
}

/// What the admin API reaches the process by.
#[derive(Debug)]
struct Reach(Weak<Running>);

impl Control for Reach {
    fn reload(&self) -> Reloaded {
        match self.0.upgrade() {
            Some(running) => running.reload(),
            None => Reloaded::Refused("the process is ending".into()),
        }
    }

    fn add_endpoint(&self, addition: Addition) -> Result<(), EndpointRefusal> {
        self.0.upgrade().ok_or(EndpointRefusal::Ending)?.add_endpoint(addition)
    }

    fn remove_endpoint(&self, id: &str) -> Result<(), EndpointRefusal> {
        self.0.upgrade().ok_or(EndpointRefusal::Ending)?.remove_endpoint(id)
    }
}

/// The first key that has changed and needs another process.
fn fixed(before: &Config, now: &Config) -> Option<&'static str> {
    let same = [
        ("listen", before.listen == now.listen),
        ("tls", before.tls == now.tls),
        ("admin", before.admin == now.admin),
        ("state_dir", before.state_dir == now.state_dir),
    ];
    same.into_iter().find(|(_, same)| !same).map(|(key, _)| key)
}

fn watched(shared: &Shared, config: &Config) -> std::io::Result<Option<watch::Watch>> {
    let start = |directory: &PathBuf| {
        let (catalog, clock) = (Arc::clone(&shared.catalog), Arc::clone(&shared.clock));
        watch::start(catalog, directory.clone(), config.watch, clock)
    };
    config.plugins_dir.as_ref().map(start).transpose()
}

fn lanes(services: &[Arc<Service>]) -> Vec<Arc<crate::route::Lane>> {
    services.iter().map(|service| Arc::clone(&service.lane)).collect()
}

fn proxy(shared: &Shared, config: &Config, services: &[Arc<Service>]) -> Proxy {
    Proxy {
        catalog: Arc::clone(&shared.catalog),
        pools: services.to_vec(),
        tenants: Arc::clone(&shared.tenants),
        upstream: Arc::clone(&shared.upstream),
        limits: config.limits.clone(),
        usage: Arc::clone(shared.metrics.usage()),
        forwarded: config.forwarded,
        traceparent: config.traceparent,
        unrouted: shared.metrics.pool("none"),
        decisions: Arc::clone(&shared.decisions),
        closing: Arc::clone(&shared.closing),
        clock: Arc::clone(&shared.clock),
    }
}

fn admin(
    shared: &Shared,
    config: &Config,
    services: &[Arc<Service>],
    access: Access,
    watch: Option<&watch::Watch>,
    running: &Weak<Running>,
) -> Admin {
    let pool = |service: &Arc<Service>| AdminPool {
        lane: Arc::clone(&service.lane),
        gate: Arc::clone(service.controller.gate()),
    };
    Admin {
        catalog: Arc::clone(&shared.catalog),
        directory: watch.map(watch::Watch::status),
        lanes: services.iter().map(pool).collect(),
        access,
        audit: Arc::clone(&shared.audit),
        tenants: Arc::clone(&shared.tenants),
        metrics: Arc::clone(&shared.metrics),
        decisions: Arc::clone(&shared.decisions),
        config_json: serde_json::to_value(config).unwrap_or_default(),
        reloads: Arc::clone(&shared.reloads),
        control: Arc::new(Reach(Weak::clone(running))),
        clock: Arc::clone(&shared.clock),
    }
}
