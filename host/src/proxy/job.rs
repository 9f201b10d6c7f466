//! A request that has left the queue: what it holds, and how it ends.
//!
//! All of it is given back when the job is dropped. Whoever ends it says what it came to, once: metrics, the
//! explanation, its tenant's limits and the plugins that listen follow from that. One that is dropped before was given
//! up by its client.

use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderValue, TRAILER};
use hyper::{Request, Response};

use super::arrival::Arrival;
use super::body::Answer;
use super::headers::{explain, to_engine};
use super::infer::seconds;
use super::outcome::Failure;
use super::record;
use super::turn::Waited;
use super::upstream::Way;
use super::{Proxy, Service, tunnel};
use crate::clock::Nanos;
use crate::flow::Pass;
use crate::policy::{self, Event, EventKind, Placement};
use crate::pool::Endpoint;
use crate::route::Trace;
use crate::tenants::Held;
use crate::types::{Api, EndpointId};

/// A request that has left the queue, with all that it holds.
pub(super) struct Job {
    pub(super) proxy: Arc<Proxy>,
    pub(super) service: Arc<Service>,
    pub(super) request: Arc<policy::Request>,
    pub(super) arrival: Arrival,
    /// The protocol that the client wants its connection to become.
    pub(super) upgrade: Option<HeaderValue>,
    pub(super) pass: Pass,
    pub(super) trace: Trace,
    /// What it has taken of its tenant's limits.
    pub(super) quota: Option<Held>,
    /// Where it stands against others.
    pub(super) placement: Placement,
    /// How it waited; none when it went at once.
    pub(super) waited: Option<Waited>,
    /// When it was sent to the endpoint that is tried.
    pub(super) sent_at: Nanos,
    /// What the endpoint fetches from another before its first token, where that is timed.
    pub(super) fetches: Option<Fetch>,
    /// When the first token of its answer came.
    pub(super) first: Option<Nanos>,
    /// Whether it is known how the request ended. One that is dropped before was given up by its client.
    pub(super) ended: bool,
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.ended {
            self.end(CLIENT_CLOSED, EventKind::Cancelled, Spent::default());
            self.service.metrics.aborted();
        }
    }
}

/// The status under which a request is kept whose client went away (nginx's number for it).
const CLIENT_CLOSED: u16 = 499;

/// Tokens of a request that has ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    /// Of the prompt, by the engine's count.
    pub(super) prompt: Option<u32>,
    pub(super) cached: Option<u32>,
    pub(super) output: u32,
}

/// A part of a prompt that comes from another endpoint.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fetch {
    /// Its tokens.
    pub(super) tokens: u32,
    /// Whether a prompt was being computed where it goes: that holds up what arrives, and says nothing of how fast it
    /// came.
    pub(super) is_held_up: bool,
}

impl Job {
    pub(super) fn new(
        proxy: Arc<Proxy>,
        service: Arc<Service>,
        request: Arc<policy::Request>,
        arrival: Arrival,
        pass: Pass,
        trace: Trace,
        placement: Placement,
    ) -> Self {
        Self {
            proxy,
            service,
            request,
            arrival,
            upgrade: None,
            pass,
            trace,
            quota: None,
            placement,
            waited: None,
            sent_at: 0,
            fetches: None,
            first: None,
            ended: false,
        }
    }

    /// An engine begins to work for it: from now on its tenant pays, also if its client goes away.
    pub(super) fn spends(&mut self) {
        if let Some(quota) = &mut self.quota {
            quota.sent();
        }
    }

    /// What is left of the time that the request has, where that is bounded.
    pub(super) fn left(&self) -> Option<Duration> {
        let whole = self.service.config.total_timeout?;
        let taken = self.proxy.clock.now().saturating_sub(self.request.arrived);
        Some(whole.saturating_sub(Duration::from_nanos(taken)))
    }

    pub(super) fn is_late(&self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }

    /// How endpoints are reached for this request.
    pub(super) fn way(&self) -> Way<'_> {
        let Service { config, dialer, .. } = &*self.service;
        let (connect, answer) = (config.connect_timeout, config.first_byte_timeout);
        let left = self.left().unwrap_or(Duration::MAX);
        Way { dialer, connect: connect.min(left), answer: answer.min(left), upgrades: self.upgrade.is_some() }
    }

    /// The request as the engine gets it.
    pub(super) fn engine_request<B>(&self, endpoint: &Endpoint, body: B) -> Option<Request<B>> {
        let Arrival { line, origin, .. } = &self.arrival;
        let mut request = Request::new(body);
        *request.method_mut() = line.method.clone();
        *request.uri_mut() = line.to(&endpoint.url.base_path)?;
        let mut headers = to_engine(&self.request.headers, &self.request.id, endpoint, *origin);
        if let Some(protocol) = &self.upgrade {
            tunnel::ask(&mut headers, protocol);
        }
        *request.headers_mut() = headers;
        Some(request)
    }

    /// The same for a body that was read whole, which has no trailers any more.
    pub(super) fn whole_request<B>(&self, endpoint: &Endpoint, body: B) -> Option<Request<B>> {
        let mut request = self.engine_request(endpoint, body)?;
        request.headers_mut().remove(TRAILER);
        Some(request)
    }

    /// The request failed at the endpoint after it was sent.
    pub(super) fn failed(&self, endpoint: &Endpoint, why: &str) {
        self.service.failed(endpoint, self.proxy.clock.now(), why);
    }

    /// The request was served there.
    pub(super) fn succeeded(&self, endpoint: &Endpoint) {
        self.service.succeeded(endpoint, self.proxy.clock.now());
    }

    /// Answers a request that no engine will.
    pub(super) fn refuse(&mut self, failure: &Failure) -> Response<Answer> {
        if let Some(reason) = failure.dropped_reason() {
            self.service.metrics.refused(reason);
        }
        if let Some(limit) = failure.limit() {
            self.proxy.usage.hit(limit);
        }
        let mut answer = failure.answer(self.request.api, &self.request.id);
        explain(&self.request.headers, answer.headers_mut(), &self.trace);
        self.end(failure.status(), EventKind::Failed, Spent::default());
        answer
    }

    /// The request has ended: metrics, explanation, and the plugins that listen. Counts once.
    pub(super) fn end(&mut self, status: u16, kind: EventKind, spent: Spent) {
        self.ended = true;
        self.settle(status, kind, spent);
        let taken = self.proxy.clock.now().saturating_sub(self.request.arrived);
        self.service.metrics.request(self.request.api, status, seconds(taken));
        let ended = record::ended(kind, status);
        record::note(&self.service.lane, &self.request, &self.trace, ended, self.first, spent);
        let endpoint = self.trace.endpoint();
        self.tell(kind, endpoint, spent);
        self.proxy.decisions.push(self.trace.finish(status));
    }

    /// Gives back what its tenant's limits have too much of. A client that went away pays for what came.
    fn settle(&mut self, status: u16, kind: EventKind, spent: Spent) {
        let Some(quota) = self.quota.take() else { return };
        if let EventKind::Cancelled = kind {
            return;
        }
        let computed = spent.output > 0 || ((200..300).contains(&status) && self.request.api != Api::Other);
        let believed = if computed { self.request.prompt_tokens } else { 0 };
        quota.settle(spent.prompt.unwrap_or(believed), spent.output);
    }

    /// Tells the plugins that listen.
    pub(super) fn event(&self, kind: EventKind, endpoint: &Endpoint) {
        self.tell(kind, Some(endpoint.id), Spent::default());
    }

    fn tell(&self, kind: EventKind, endpoint: Option<EndpointId>, spent: Spent) {
        self.service.controller.event(Event {
            kind,
            request: Arc::clone(&self.request.id),
            flow: Some(self.pass.flow()),
            band: Some(self.pass.band()),
            endpoint,
            at_ms: self.proxy.clock.now() / crate::clock::MILLI,
            prompt_tokens: self.request.prompt_tokens,
            cached_tokens: spent.cached,
            output_tokens: spent.output,
        });
    }
}
