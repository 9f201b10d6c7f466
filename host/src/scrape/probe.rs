//! One endpoint, read again and again.

use std::sync::Arc;

use http::StatusCode;

use super::engines::llamacpp;
use super::http::{GetError, Getter};
use super::models::models;
use super::page::narrow;
use super::prometheus::Parser;
use super::wanted::Shared;
use crate::clock::{Clock, Nanos, nanos};
use crate::config::Scrape;
use crate::net::Dialer;
use crate::pool::{Endpoint, Pool, Report};
use crate::types::Engine;

/// The state of one endpoint's readings.
pub(super) struct Probe {
    pool: Arc<Pool>,
    endpoint: Arc<Endpoint>,
    wanted: Arc<Shared>,
    clock: Arc<dyn Clock>,
    get: Getter,
    metrics: Offer,
    slots: Offer,
    models: Offer,
    /// When the pool's check is due.
    check_due: Nanos,
    /// The report that is built up; what one reading does not say stays from the one before.
    report: Report,
}

/// Something that an endpoint may offer, and when it is worth asking for.
#[derive(Debug)]
struct Offer {
    path: &'static str,
    due: Nanos,
    /// Time after which it is asked for again once it was refused.
    again: Nanos,
}

impl Offer {
    /// Whether it is due.
    fn due(&self, now: Nanos) -> bool {
        now >= self.due
    }

    fn not_before(&mut self, now: Nanos) {
        self.due = now.saturating_add(self.again);
    }
}

/// What became of asking for metrics.
enum Metrics {
    /// They were read.
    Read,
    /// The endpoint answers but does not offer them.
    NotOffered,
}

impl Probe {
    pub(super) fn new(
        pool: &Arc<Pool>,
        endpoint: &Arc<Endpoint>,
        wanted: &Arc<Shared>,
        dialer: &Dialer,
        clock: &Arc<dyn Clock>,
        settings: &Scrape,
    ) -> Self {
        let again = nanos(settings.models_interval);
        let offer = |path| Offer { path, due: 0, again };
        let mut report = Report::clone(&endpoint.report());
        report.engine = pool.engine.or(report.engine);
        Self {
            pool: Arc::clone(pool),
            endpoint: Arc::clone(endpoint),
            wanted: Arc::clone(wanted),
            clock: Arc::clone(clock),
            get: Getter::new(dialer.clone(), endpoint, settings.timeout, settings.page_bytes),
            metrics: offer("/metrics"),
            slots: offer("/slots"),
            models: offer("/v1/models"),
            check_due: 0,
            report,
        }
    }

    /// Reads the endpoint once: health and report are then up to date.
    pub(super) async fn once(&mut self) {
        match self.read().await {
            Ok(()) => {
                if self.endpoint.probe_ok(self.clock.now()) {
                    tracing::info!(endpoint = %self.endpoint.name, "endpoint is up");
                }
                self.pool.publish(&self.endpoint, self.report.clone());
                self.pool.learn_limit(&self.endpoint, self.clock.now());
            }
            Err(error) => {
                let refused = matches!(error, GetError::Refused);
                if self.endpoint.health.probe_failed(self.clock.now(), refused, &error.to_string()) {
                    tracing::warn!(endpoint = %self.endpoint.name, %error, "endpoint is down");
                }
                // Another engine, or another model, may be there when it comes back.
                self.metrics.due = 0;
                self.slots.due = 0;
                self.models.due = 0;
                self.check_due = 0;
            }
        }
    }

    async fn read(&mut self) -> Result<(), GetError> {
        let now = self.clock.now();
        self.check(now).await?;
        let offered = self.metrics.due(now) && matches!(self.metrics(now).await?, Metrics::Read);
        if !offered && self.pool.check.is_none() {
            self.health().await?;
        }
        // The endpoint is up; that it does not say more is no failure.
        if self.models.due(now)
            && let Err(error) = self.models(now).await
        {
            tracing::debug!(endpoint = %self.endpoint.name, %error, "no list of models");
        }
        if self.report.engine == Some(Engine::Llamacpp)
            && self.slots.due(now)
            && let Err(error) = self.slots(now, offered).await
        {
            self.slots.not_before(now);
            tracing::debug!(endpoint = %self.endpoint.name, %error, "no slots");
        }
        Ok(())
    }

    async fn metrics(&mut self, now: Nanos) -> Result<Metrics, GetError> {
        let wanted = self.wanted.get();
        let mut parser = Parser::new(&wanted);
        let head = self.get.get(self.metrics.path, |piece| parser.feed(piece)).await?;
        self.engine_by_header(head.llamacpp);
        if head.status.is_success() {
            let page = parser.finish();
            self.report.engine = self.pool.engine.or(page.engine()).or(self.report.engine);
            page.fill(&mut self.report);
            self.report.at = self.clock.now();
            return Ok(Metrics::Read);
        }
        // llama.cpp answers 501 when metrics are not switched on. Another 5xx is a failure.
        if head.status.is_server_error() && head.status != StatusCode::NOT_IMPLEMENTED {
            return Err(status(self.metrics.path, head.status));
        }
        self.metrics.not_before(now);
        Ok(Metrics::NotOffered)
    }

    /// Asks where the pool says that endpoints tell whether they are well. After a failure it is due at once.
    async fn check(&mut self, now: Nanos) -> Result<(), GetError> {
        let pool = Arc::clone(&self.pool);
        let Some(check) = pool.check.as_ref().filter(|_| now >= self.check_due) else { return Ok(()) };
        let head = self.get.get(&check.path, |_| {}).await?;
        if head.status.is_client_error() || head.status.is_server_error() {
            return Err(status(&check.path, head.status));
        }
        self.check_due = now.saturating_add(check.interval);
        Ok(())
    }

    /// An endpoint without metrics is up when it says so, or answers at all that it has no such page.
    async fn health(&mut self) -> Result<(), GetError> {
        const PATH: &str = "/health";
        let head = self.get.get(PATH, |_| {}).await?;
        self.engine_by_header(head.llamacpp);
        if head.status.is_server_error() { Err(status(PATH, head.status)) } else { Ok(()) }
    }

    async fn models(&mut self, now: Nanos) -> Result<(), GetError> {
        let (head, body) = self.get.collect(self.models.path).await?;
        self.engine_by_header(head.llamacpp);
        if head.status.is_success()
            && let Some(models) = models(&body)
        {
            // The same list stays the same allocation.
            if models.ids != self.report.models {
                self.report.models = models.ids;
            }
            self.report.adapters = models.adapters;
            self.report.engine = self.report.engine.or(models.engine);
            // An empty list (nothing is loaded yet) is asked for again at the next reading.
            if !self.report.models.is_empty() {
                self.models.not_before(now);
            }
        }
        Ok(())
    }

    async fn slots(&mut self, now: Nanos, metrics: bool) -> Result<(), GetError> {
        let (head, body) = self.get.collect(self.slots.path).await?;
        match llamacpp::slots(&body) {
            Some(slots) if head.status.is_success() => {
                if let Some(usage) = slots.kv_usage {
                    self.report.kv_usage = Some(narrow(usage));
                }
                if !metrics {
                    self.report.running = Some(narrow(slots.running.into()));
                    self.report.at = self.clock.now();
                }
            }
            _ => self.slots.not_before(now),
        }
        Ok(())
    }

    fn engine_by_header(&mut self, llamacpp: bool) {
        if llamacpp && self.report.engine.is_none() {
            self.report.engine = Some(Engine::Llamacpp);
        }
    }
}

fn status(path: &str, status: StatusCode) -> GetError {
    GetError::Failed(format!("{path} answered {}", status.as_u16()))
}
