//! From a configuration to the parts of the process.

use std::sync::Arc;
use std::time::Duration;

use super::AppError;
use super::tokens::Tokenizers;
use crate::admin::{Admin, AdminPool};
use crate::clock::{Clock, Nanos, RealClock};
use crate::config::{self, Config, PoolConfig};
use crate::flow;
use crate::plugin::{Catalog, Compiling, Controller, Runtime, Shadowing, compile, supervise, watch};
use crate::policy::Registry;
use crate::pool::{EndpointSpec, Pool, PoolSpec, Windows};
use crate::prefix::{Exact, Index, Sessions};
use crate::proxy::{Proxy, RetryBudget, Service, Upstream};
use crate::route::{Lane, Measure, RouteMode};
use crate::telemetry::{DECISIONS, Decisions, Metrics};

/// Sessions remembered a pool.
const MAX_SESSIONS: usize = 100_000;
/// How long a session is remembered: agents pause for minutes between turns.
const SESSION_TTL: Duration = Duration::from_secs(3_600);

/// What runs.
pub(super) struct Parts {
    pub(super) proxy: Arc<Proxy>,
    pub(super) admin: Arc<Admin>,
    pub(super) _watch: Option<watch::Watch>,
    pub(super) _supervisor: supervise::Supervisor,
}

/// Builds everything; the plugins are loaded when it returns.
pub(super) fn build(config: &Config) -> Result<Parts, AppError> {
    refuse_https(config)?;
    let clock: Arc<dyn Clock> = RealClock::start();
    let registry = Arc::new(Registry::default());
    let compiling = Compiling {
        program: Some(compile::program().map_err(AppError::Start)?),
        cache: Some(config.state_dir.join("cache")),
        limits: config.compile,
    };
    let runtime = Arc::new(Runtime::compiling(compiling)?);
    let catalog = Catalog::load(config, runtime, Arc::clone(&registry), Arc::clone(&clock));
    let shadowing = Arc::new(Shadowing::start(Arc::clone(&clock)).map_err(AppError::Start)?);
    let metrics = Metrics::new();
    let decisions = Arc::new(Decisions::new(DECISIONS));
    let mode = if config.observe { RouteMode::Observe } else { RouteMode::Follow };
    let mut tokenizers = Tokenizers::default();
    let pools = config
        .pools
        .iter()
        .map(|pool| {
            let service = service(pool, mode, &catalog, &shadowing, &registry, &clock, &metrics)?;
            Ok(Arc::new(Service { tokenizing: tokenizers.of(pool)?, ..service }))
        })
        .collect::<Result<Vec<_>, _>>()
        .map_err(AppError::Start)?;
    let watch = match &config.plugins_dir {
        Some(directory) => Some(
            watch::start(Arc::clone(&catalog), directory.clone(), config.watch, Arc::clone(&clock))
                .map_err(AppError::Start)?,
        ),
        None => None,
    };
    let admin = Admin {
        catalog: Arc::clone(&catalog),
        directory: watch.as_ref().map(watch::Watch::status),
        lanes: pools
            .iter()
            .map(|service| AdminPool {
                lane: Arc::clone(&service.lane),
                gate: Arc::clone(service.controller.gate()),
            })
            .collect(),
        metrics: Arc::clone(&metrics),
        decisions: Arc::clone(&decisions),
        config_json: serde_json::to_value(config).unwrap_or_default(),
        clock: Arc::clone(&clock),
    };
    let lanes = pools.iter().map(|service| Arc::clone(&service.lane)).collect();
    let supervisor =
        supervise::start(Arc::clone(&catalog), lanes, config.guardrails.clone(), Arc::clone(&clock))
            .map_err(AppError::Start)?;
    let proxy = Proxy {
        catalog,
        pools,
        upstream: Upstream::default(),
        limits: config.limits.clone(),
        unrouted: metrics.pool("none"),
        decisions,
        clock,
    };
    Ok(Parts { proxy: Arc::new(proxy), admin: Arc::new(admin), _watch: watch, _supervisor: supervisor })
}

fn service(
    config: &PoolConfig,
    mode: RouteMode,
    catalog: &Arc<Catalog>,
    shadowing: &Arc<Shadowing>,
    registry: &Arc<Registry>,
    clock: &Arc<dyn Clock>,
    metrics: &Metrics,
) -> std::io::Result<Service> {
    let spec = PoolSpec {
        name: config.name.clone(),
        chain: config.chain.clone(),
        models: config.models.clone(),
        aliases: config.aliases.clone(),
        engine: config.engine.known(),
        endpoints: config.endpoints.iter().map(endpoint).collect(),
    };
    let lane = Arc::new(Lane {
        pool: Arc::new(Pool::new(spec)),
        index: Index::new(config.index_bytes),
        measure: Measure::default(),
        exact: Arc::new(Exact::new(config.index_bytes)),
        sessions: Sessions::new(MAX_SESSIONS, nanos(SESSION_TTL)),
        windows: Windows::default(),
        registry: Arc::clone(registry),
        mode,
        shadows: Some(Arc::clone(shadowing) as _),
        clock: Arc::clone(clock),
    });
    let limits = flow::Limits { max_requests: config.queue.max_requests, max_bytes: config.queue.max_bytes };
    Ok(Service {
        controller: Controller::start(Arc::clone(&lane), Arc::clone(catalog), Arc::clone(shadowing), limits)?,
        lane,
        config: config.clone(),
        tokenizing: None,
        retries: RetryBudget::new(config.retry_percent, config.retry_min_per_s),
        metrics: metrics.pool(&config.name),
    })
}

fn endpoint(config: &config::EndpointConfig) -> EndpointSpec {
    EndpointSpec {
        url: config.url.clone(),
        role: config.role,
        weight: config.weight,
        labels: config.labels.clone(),
        kv_events: config.kv_events.clone(),
    }
}

fn refuse_https(config: &Config) -> Result<(), AppError> {
    let endpoints = config.pools.iter().flat_map(|pool| &pool.endpoints);
    match endpoints.into_iter().find(|endpoint| endpoint.url.https) {
        Some(endpoint) => Err(AppError::Https(endpoint.url.to_string())),
        None => Ok(()),
    }
}

fn nanos(duration: Duration) -> Nanos {
    Nanos::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}
