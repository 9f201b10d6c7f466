//! The tasks that keep up with the endpoints of each pool: one that finds them, one that asks
//! them, one that listens to them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::shared::Shared;
use super::{secrets, services};
use crate::config::{AskForEvents, EndpointConfig, EngineChoice, HealthConfig, HttpVersion, PoolTls, Scrape};
use crate::discovery::{self, Addition};
use crate::kv_events;
use crate::proxy::Service;
use crate::scrape;

/// The tasks of all pools. Dropping it ends them.
pub(super) struct Tasks {
    runtime: Handle,
    by_pool: BTreeMap<Box<str>, OfPool>,
}

/// Of what a change means that endpoints are asked otherwise.
type Asked = (Scrape, EngineChoice, HttpVersion, PoolTls, HealthConfig);

struct OfPool {
    asked: Asked,
    asks: Ends,
    heard: AskForEvents,
    hears: Ends,
    found: Found,
    finds: Ends,
}

/// By what endpoints are found: those that are configured and added, their keys, how often, and who is asked.
type Found = (Vec<EndpointConfig>, Vec<Addition>, secrets::Hashes, Duration, Option<SocketAddr>);

/// Ends a task when dropped.
struct Ends(AbortHandle);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Tasks {
    pub(super) fn on(runtime: Handle) -> Self {
        Self { runtime, by_pool: BTreeMap::new() }
    }

    /// Ends those of pools that are gone, starts those of new ones, and both where their settings changed. Endpoints
    /// that come and go they notice themselves.
    pub(super) fn follow(&mut self, shared: &Shared, services: &[Arc<Service>], settings: &Scrape) {
        let mut before = std::mem::take(&mut self.by_pool);
        for service in services {
            let config = &service.config;
            let asked = (
                settings.clone(),
                config.engine,
                config.http_version,
                config.tls.clone(),
                config.health.clone(),
            );
            let heard = config.ask_for_events;
            let found = (
                config.endpoints.clone(),
                services::additions(shared, config),
                secrets::hashes_of_pool(config),
                config.resolve_every,
                config.dns,
            );
            let tasks = match before.remove(&service.config.name) {
                None => OfPool {
                    asks: self.ask(shared, service, settings),
                    hears: self.hear(shared, service),
                    finds: self.find(shared, service),
                    asked,
                    heard,
                    found,
                },
                Some(mut tasks) => {
                    if tasks.asked != asked {
                        tasks.asks = self.ask(shared, service, settings);
                        tasks.asked = asked;
                    }
                    if tasks.heard != heard {
                        tasks.hears = self.hear(shared, service);
                        tasks.heard = heard;
                    }
                    if tasks.found != found {
                        tasks.finds = self.find(shared, service);
                        tasks.found = found;
                    }
                    tasks
                }
            };
            self.by_pool.insert(service.config.name.clone(), tasks);
        }
    }

    fn ask(&self, shared: &Shared, service: &Service, settings: &Scrape) -> Ends {
        let _context = self.runtime.enter();
        let task = scrape::run(
            Arc::clone(&service.lane.pool),
            Arc::clone(&shared.registry),
            service.dialer.clone(),
            Arc::clone(&shared.clock),
            settings.clone(),
        );
        Ends(self.runtime.spawn(task).abort_handle())
    }

    fn find(&self, shared: &Shared, service: &Service) -> Ends {
        // Its secrets were there when the service was made.
        let sources = services::sources(shared, &service.config).unwrap_or_default();
        let pool = Arc::clone(&service.lane.pool);
        let (names, config) = (Arc::clone(&shared.names), &service.config);
        let task = discovery::run(pool, names, sources, config.resolve_every, config.dns);
        Ends(self.runtime.spawn(task).abort_handle())
    }

    fn hear(&self, shared: &Shared, service: &Service) -> Ends {
        let task = kv_events::run(
            Arc::clone(&service.lane.pool),
            Arc::clone(&service.lane.exact),
            Arc::clone(&shared.clock),
            service.config.ask_for_events == AskForEvents::Auto,
        );
        Ends(self.runtime.spawn(task).abort_handle())
    }
}
