//! What lives as long as the process, whatever its configuration becomes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::{AppError, Native};
use crate::audit::Audit;
use crate::clock::{Clock, RealClock};
use crate::config::Config;
use crate::discovery::{Additions, Names};
use crate::plugin::{Catalog, Compiling, Runtime, Shadowing, compile};
use crate::policy::Registry;
use crate::proxy::Upstream;
use crate::telemetry::{DECISIONS, Decisions, Metrics, Reloads};
use crate::tenants::Tenants;

/// The parts that no configuration replaces.
pub(super) struct Shared {
    pub(super) catalog: Arc<Catalog>,
    pub(super) registry: Arc<Registry>,
    pub(super) shadowing: Arc<Shadowing>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) decisions: Arc<Decisions>,
    pub(super) upstream: Arc<Upstream>,
    pub(super) reloads: Arc<Reloads>,
    pub(super) names: Arc<Names>,
    pub(super) additions: Additions,
    pub(super) tenants: Arc<Tenants>,
    pub(super) audit: Arc<Audit>,
    pub(super) closing: Arc<AtomicBool>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Shared {
    /// Starts them; the plugins are loaded when it returns.
    pub(super) fn start(config: &Config, native: Option<Native>) -> Result<Self, AppError> {
        let clock: Arc<dyn Clock> = RealClock::start();
        let registry = Arc::new(Registry::default());
        let compiling = Compiling {
            program: Some(compile::program().map_err(AppError::Start)?),
            cache: Some(config.state_dir.join("cache")),
            limits: config.compile,
        };
        let runtime = Arc::new(Runtime::compiling(compiling)?);
        let catalog = Catalog::load(config, runtime, Arc::clone(&registry), Arc::clone(&clock));
        if let Some(native) = native {
            catalog.serve_by(native(&registry));
        }
        let audit = Arc::new(Audit::start(&config.state_dir).map_err(AppError::Start)?);
        catalog.audit_to(Arc::clone(&audit));
        Ok(Self {
            catalog,
            registry,
            shadowing: Arc::new(Shadowing::start(Arc::clone(&clock)).map_err(AppError::Start)?),
            metrics: Metrics::new(),
            decisions: Arc::new(Decisions::new(DECISIONS)),
            upstream: Arc::default(),
            reloads: Arc::default(),
            names: Arc::default(),
            additions: Additions::open(&config.state_dir),
            tenants: Arc::new(Tenants::of(config)),
            audit,
            closing: Arc::default(),
            clock,
        })
    }
}
