//! The pools of a configuration, and what they take over from those of the one before.
//!
//! A pool is known by its name. What is learned of it, who waits in front of it and what its policies keep stays
//! over any change of it; only what depends on how prompts are cut into blocks begins anew when that changes.

use std::sync::Arc;

use super::AppError;
use super::shared::Shared;
use super::tokens::Tokenizers;
use crate::clock::nanos;
use crate::config::{Config, EndpointConfig, HealthConfig, PoolConfig, Resolve, SecretError, SecretSource};
use crate::discovery::{Addition, Source};
use crate::flow;
use crate::net::Dialer;
use crate::plugin::Controller;
use crate::pool::{Check, Ejection, EndpointSpec, Pool, PoolSpec};
use crate::prefix::{Exact, Index, Sessions};
use crate::proxy::{RetryBudget, Service, Tokenizing};
use crate::route::{Lane, RouteMode};

/// Sessions remembered a pool.
const MAX_SESSIONS: usize = 100_000;

/// What becomes of a pool. Nothing that others see has changed yet.
pub(super) enum Planned {
    /// Nothing of it changes.
    Same(Arc<Service>),
    /// It takes over from the one before.
    Changed(Arc<Service>, Box<(PoolConfig, PoolSpec, Dialer)>, Option<Tokenizing>),
    /// It was not there.
    New(Box<Service>),
}

/// Plans the pools of `config`, where those of `before` are there.
pub(super) fn plan(
    shared: &Shared,
    config: &Config,
    before: &[Arc<Service>],
    tokenizers: &mut Tokenizers,
) -> Result<Vec<Planned>, AppError> {
    let mode = mode(config);
    let plan = |pool: &PoolConfig| {
        let known = before.iter().find(|service| service.config.name == pool.name);
        Ok(match known {
            Some(service) => {
                let spec = spec(shared, pool)?;
                // The configuration may be the same and the keys that it names others.
                if service.config == *pool && service.lane.mode == mode && has_all(service, &spec) {
                    return Ok(Planned::Same(Arc::clone(service)));
                }
                let tokenizing = tokenizers.of(pool).map_err(AppError::Start)?;
                let dialer = Dialer::new(&pool.tls, pool.http_version)?;
                let planned = Box::new((pool.clone(), spec, dialer));
                Planned::Changed(Arc::clone(service), planned, tokenizing)
            }
            None => {
                let tokenizing = tokenizers.of(pool).map_err(AppError::Start)?;
                Planned::New(Box::new(new(shared, pool, mode, tokenizing)?))
            }
        })
    };
    config.pools.iter().map(plan).collect()
}

impl Planned {
    /// Makes it so.
    pub(super) fn take(self, config: &Config) -> Arc<Service> {
        match self {
            Self::Same(service) => service,
            Self::Changed(before, pool, tokenizing) => {
                Arc::new(changed(&before, *pool, tokenizing, mode(config)))
            }
            Self::New(service) => Arc::new(*service),
        }
    }
}

/// Whether the endpoints of a pool are as they should be.
fn has_all(service: &Service, spec: &PoolSpec) -> bool {
    let pool = &service.lane.pool;
    spec.endpoints.iter().all(|spec| pool.endpoint(&spec.url.name()).is_some_and(|known| known.is(spec)))
}

fn mode(config: &Config) -> RouteMode {
    if config.observe { RouteMode::Observe } else { RouteMode::Follow }
}

fn new(
    shared: &Shared,
    config: &PoolConfig,
    mode: RouteMode,
    tokenizing: Option<Tokenizing>,
) -> Result<Service, AppError> {
    let lane = Arc::new(Lane {
        pool: Arc::new(Pool::new(spec(shared, config)?)),
        index: Arc::new(Index::new(config.index_bytes)),
        measure: Arc::default(),
        exact: Arc::new(Exact::new(config.index_bytes)),
        sessions: Arc::new(Sessions::new(MAX_SESSIONS, nanos(config.session_ttl))),
        windows: Arc::default(),
        registry: Arc::clone(&shared.registry),
        mode,
        shadows: Some(Arc::clone(&shared.shadowing) as _),
        clock: Arc::clone(&shared.clock),
    });
    let controller = Controller::start(
        Arc::clone(&lane),
        Arc::clone(&shared.catalog),
        Arc::clone(&shared.shadowing),
        limits(config),
    )
    .map_err(AppError::Start)?;
    Ok(Service {
        controller: Arc::new(controller),
        lane,
        config: config.clone(),
        tokenizing,
        retries: RetryBudget::new(config.retry_percent, config.retry_min_per_s),
        metrics: shared.metrics.pool(&config.name),
        dialer: Dialer::new(&config.tls, config.http_version)?,
    })
}

fn changed(
    before: &Service,
    (config, spec, dialer): (PoolConfig, PoolSpec, Dialer),
    tokenizing: Option<Tokenizing>,
    mode: RouteMode,
) -> Service {
    let pool = before.lane.pool.reconfigured(spec);
    let mut lane = before.lane.reconfigured(pool, mode);
    if (before.config.block_tokens, &before.config.tokenizer) == (config.block_tokens, &config.tokenizer) {
        lane.index.set_max_bytes(config.index_bytes);
    } else {
        lane.index = Arc::new(Index::new(config.index_bytes));
    }
    lane.exact.set_max_bytes(config.index_bytes);
    lane.sessions.set_ttl(nanos(config.session_ttl));
    let lane = Arc::new(lane);
    before.controller.follow(Arc::clone(&lane), limits(&config));
    Service {
        controller: Arc::clone(&before.controller),
        lane,
        tokenizing,
        retries: RetryBudget::new(config.retry_percent, config.retry_min_per_s),
        metrics: Arc::clone(&before.metrics),
        dialer,
        config,
    }
}

fn limits(config: &PoolConfig) -> flow::Limits {
    flow::Limits::from(&config.queue)
}

/// What is configured of a pool, with the endpoints that are known by their hosts' names.
fn spec(shared: &Shared, config: &PoolConfig) -> Result<PoolSpec, SecretError> {
    Ok(PoolSpec {
        name: config.name.clone(),
        chain: config.chain.clone(),
        models: config.models.clone(),
        aliases: config.aliases.clone(),
        engine: config.engine.known(),
        dialect: config.dialect.known(),
        endpoints: shared.names.endpoints(&sources(shared, config)?),
        ejection: ejection(&config.health),
        check: check(&config.health),
    })
}

/// Where the endpoints of a pool come from, with the keys that they are shown: first those that are configured.
pub(super) fn sources(shared: &Shared, config: &PoolConfig) -> Result<Vec<Source>, SecretError> {
    let of_pool = config.api_key.as_ref().map(SecretSource::bearer).transpose()?;
    let source = |endpoint: &EndpointConfig| {
        let own = endpoint.api_key.as_ref().map(SecretSource::bearer).transpose()?;
        let spec = EndpointSpec {
            url: endpoint.url.clone(),
            role: endpoint.role,
            weight: endpoint.weight,
            labels: endpoint.labels.clone(),
            kv_events: endpoint.kv_events.clone(),
            bootstrap_port: endpoint.bootstrap_port,
            authorization: own.or_else(|| of_pool.clone()),
        };
        Ok(Source { spec, resolve: endpoint.resolve })
    };
    let added = additions(shared, config).into_iter().filter_map(|added| added.spec()).map(|spec| {
        let spec = EndpointSpec { authorization: of_pool.clone(), ..spec };
        Ok(Source { spec, resolve: Resolve::Off })
    });
    config.endpoints.iter().map(source).chain(added).collect()
}

/// What was added to a pool, where that is allowed.
pub(super) fn additions(shared: &Shared, config: &PoolConfig) -> Vec<Addition> {
    if config.admin_endpoints { shared.additions.of(&config.name) } else { Vec::new() }
}

fn ejection(health: &HealthConfig) -> Ejection {
    Ejection {
        after: health.eject_after,
        first: nanos(health.eject),
        longest: nanos(health.max_eject),
        percent: health.max_ejected_percent,
        slow_start: nanos(health.slow_start),
    }
}

fn check(health: &HealthConfig) -> Option<Check> {
    health.path.as_ref().map(|path| Check { path: path.clone(), interval: nanos(health.interval) })
}
