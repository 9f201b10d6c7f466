//! Sending a request to its endpoints in order until one answers.
//!
//! What was refused or reset before any byte of an answer goes to the next endpoint. An answer of 5xx or none in
//! time is retried while the pool's budget allows; without budget the engine's own answer is passed on. Once an
//! answer's head has gone to the client nothing is sent again.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper::{Request, Response, StatusCode};

use super::body::{Answer, Sent};
use super::headers::{explain, to_client, to_engine};
use super::infer::seconds;
use super::outcome::Failure;
use super::record;
use super::relay::Relay;
use super::service::Line;
use super::upstream::{Answered, Remake, SendError};
use super::{Proxy, Service};
use crate::clock::Nanos;
use crate::flow::Pass;
use crate::policy::{self, Event, EventKind};
use crate::pool::{Endpoint, Reservation};
use crate::route::{Choice, Trace};
use crate::types::EndpointId;

/// A request that has left the queue, with all that it holds.
pub(super) struct Job {
    pub(super) proxy: Arc<Proxy>,
    pub(super) service: Arc<Service>,
    pub(super) request: Arc<policy::Request>,
    pub(super) peer: IpAddr,
    pub(super) line: Line,
    pub(super) pass: Pass,
    pub(super) trace: Trace,
    /// When it was sent to the endpoint that is tried.
    pub(super) sent_at: Nanos,
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

/// Why an attempt came to nothing.
enum Missed {
    /// There was no connection.
    Unreached(String),
    /// Nothing was done there: the next endpoint may have it.
    Free(String),
    /// Work may have been done: the next endpoint may have it if the budget allows.
    Costly(String),
}

impl From<SendError> for Missed {
    fn from(error: SendError) -> Self {
        let why = error.to_string();
        match error {
            SendError::Connect(_) | SendError::ConnectTimeout(_) => Self::Unreached(why),
            SendError::Broken(_) | SendError::Body(_) => Self::Free(why),
            SendError::Timeout(_) => Self::Costly(why),
        }
    }
}

/// What is to be said when every attempt came to nothing.
#[derive(Clone, Copy)]
enum Ending {
    /// No endpoint could be connected to.
    Unreachable,
    /// Some were, and broke off.
    Failed,
    /// The last one did not answer in time.
    TimedOut,
}

impl Ending {
    fn after(self, missed: &Missed) -> Self {
        match missed {
            Missed::Unreached(_) => self,
            Missed::Free(_) => Self::Failed,
            Missed::Costly(_) => Self::TimedOut,
        }
    }
}

impl Job {
    pub(super) fn new(
        proxy: Arc<Proxy>,
        service: Arc<Service>,
        request: Arc<policy::Request>,
        peer: IpAddr,
        line: Line,
        pass: Pass,
        trace: Trace,
    ) -> Self {
        Self { proxy, service, request, peer, line, pass, trace, sent_at: 0, first: None, ended: false }
    }

    /// Tries the endpoints in order. `body` is for the first one, `plain` for all others: parameters of a prefill
    /// leg are good for one decode.
    pub(super) async fn run(mut self, choice: Choice, body: Bytes, plain: Bytes) -> Response<Answer> {
        let Choice { order, reservation, .. } = choice;
        let mut reservation = Some(reservation);
        let mut body = Some(body);
        let mut ending = Ending::Unreachable;
        let last = order.len().saturating_sub(1);
        for (n, endpoint) in order.iter().enumerate() {
            let reserved = self.reserved(&mut reservation, endpoint);
            let bytes = body.take().unwrap_or_else(|| plain.clone());
            let held = self.start(endpoint);
            let again = || self.engine_request(endpoint, Sent::Whole(Some(bytes.clone())));
            let missed = match self.send(endpoint, again).await {
                Ok(answered) => match self.unusable(&answered.response, n < last) {
                    None => return self.answer(endpoint, answered, reserved, held),
                    Some(missed) => missed,
                },
                Err(error) => error.into(),
            };
            self.service.lane.unsent(&self.request, endpoint, held);
            ending = ending.after(&missed);
            let (why, go_on) = match missed {
                Missed::Unreached(why) | Missed::Free(why) => (why, true),
                Missed::Costly(why) => (why, n < last && self.may_retry()),
            };
            self.trace.tried(endpoint, why);
            if !go_on {
                break;
            }
            if n < last {
                self.service.metrics.retried();
            }
        }
        self.fail(ending)
    }

    /// Tries the endpoints in order with a body that can be sent once: until a connection is made.
    pub(super) async fn run_once(mut self, choice: Choice, body: Sent) -> Response<Answer> {
        let Choice { order, reservation, .. } = choice;
        let mut reservation = Some(reservation);
        let mut body = Some(body);
        let mut ending = Ending::Unreachable;
        for endpoint in order.iter() {
            let reserved = self.reserved(&mut reservation, endpoint);
            let held = self.start(endpoint);
            let sending = || self.engine_request(endpoint, body.take()?);
            match self.send(endpoint, sending).await {
                Ok(answered) => return self.answer(endpoint, answered, reserved, held),
                Err(SendError::Body(error)) => {
                    self.trace.tried(endpoint, "the client's body broke off");
                    return self.refuse(&Failure::body_lost(&error));
                }
                Err(error) => {
                    let why = error.to_string();
                    ending = ending.after(&error.into());
                    self.trace.tried(endpoint, why);
                }
            }
            if body.is_none() {
                break;
            }
        }
        self.fail(ending)
    }

    fn reserved(&self, first: &mut Option<Reservation>, endpoint: &Arc<Endpoint>) -> Reservation {
        first.take().unwrap_or_else(|| self.service.lane.reserve(&self.request, endpoint))
    }

    /// The request is on its way; the prompt tokens that the endpoint was believed to hold before.
    fn start(&mut self, endpoint: &Arc<Endpoint>) -> u32 {
        let held = self.service.lane.cached_tokens(&self.request, endpoint);
        self.service.lane.sent(&self.request, endpoint);
        self.sent_at = self.proxy.clock.now();
        self.event(EventKind::Dispatched, endpoint);
        held
    }

    fn may_retry(&self) -> bool {
        self.service.retries.withdraw(self.proxy.clock.now())
    }

    async fn send(&self, endpoint: &Endpoint, request: impl Remake) -> Result<Answered, SendError> {
        let config = &self.service.config;
        let sent =
            self.proxy.upstream.send(endpoint, request, config.connect_timeout, config.first_byte_timeout);
        sent.await.inspect_err(|error| self.note_failure(endpoint, error))
    }

    /// The request as the engine gets it.
    pub(super) fn engine_request(&self, endpoint: &Endpoint, body: Sent) -> Option<Request<Sent>> {
        let mut request = Request::new(body);
        *request.method_mut() = self.line.method.clone();
        *request.uri_mut() = self.line.to(&endpoint.url.base_path)?;
        *request.headers_mut() =
            to_engine(&self.request.headers, &self.request.id, &endpoint.url.authority(), self.peer);
        Some(request)
    }

    /// Why an answer is not passed on, if another endpoint may do better.
    fn unusable<B>(&self, response: &Response<B>, others_left: bool) -> Option<Missed> {
        let status = response.status();
        let may_be_better_elsewhere = matches!(
            status,
            StatusCode::INTERNAL_SERVER_ERROR
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT
        );
        if !may_be_better_elsewhere || !others_left || !self.may_retry() {
            return None;
        }
        Some(Missed::Free(format!("it answered {status}")))
    }

    pub(super) fn note_failure(&self, endpoint: &Endpoint, error: &SendError) {
        let now = self.proxy.clock.now();
        match error {
            SendError::Connect(_) | SendError::ConnectTimeout(_) => {
                endpoint.health.connect_failed(now, &error.to_string());
            }
            SendError::Broken(_) | SendError::Timeout(_) => {
                endpoint.health.request_failed(&error.to_string());
            }
            SendError::Body(_) => {}
        }
    }

    /// Passes an engine's answer on.
    pub(super) fn answer(
        mut self,
        endpoint: &Arc<Endpoint>,
        answered: Answered,
        reservation: Reservation,
        held: u32,
    ) -> Response<Answer> {
        let Answered { response, lease } = answered;
        let (head, body) = response.into_parts();
        if head.status.is_server_error() {
            endpoint.health.request_failed(&format!("it answered {}", head.status));
        } else {
            endpoint.health.request_ok();
        }
        self.trace.served(endpoint);
        let mut headers = to_client(&head.headers, &self.request.id, &endpoint.name);
        explain(&self.request.headers, &mut headers, &self.trace);
        let relay =
            Relay::new(self, Arc::clone(endpoint), head.status, &headers, body, lease, reservation, held);
        let mut response = Response::new(Answer::Coming(Box::new(relay)));
        *response.status_mut() = head.status;
        *response.headers_mut() = headers;
        response
    }

    fn fail(mut self, ending: Ending) -> Response<Answer> {
        let tried = self.trace.attempts();
        let failure = match ending {
            Ending::Unreachable => Failure::NobodyUp { pool: self.service.config.name.clone(), why: tried },
            Ending::Failed => Failure::AllFailed(tried),
            Ending::TimedOut => Failure::TimedOut(tried),
        };
        self.refuse(&failure)
    }

    /// Answers a request that no engine will.
    fn refuse(&mut self, failure: &Failure) -> Response<Answer> {
        if let Some(reason) = failure.dropped_reason() {
            self.service.metrics.refused(reason);
        }
        let mut answer = failure.answer(self.request.api, &self.request.id);
        explain(&self.request.headers, answer.headers_mut(), &self.trace);
        self.end(failure.status(), EventKind::Failed, Spent::default());
        answer
    }

    /// The request has ended: metrics, explanation, and the plugins that listen. Counts once.
    pub(super) fn end(&mut self, status: u16, kind: EventKind, spent: Spent) {
        self.ended = true;
        let taken = self.proxy.clock.now().saturating_sub(self.request.arrived);
        self.service.metrics.request(self.request.api, status, seconds(taken));
        let ended = record::ended(kind, status);
        record::note(&self.service.lane, &self.request, &self.trace, ended, self.first, spent);
        let endpoint = self.trace.endpoint();
        self.tell(kind, endpoint, spent);
        self.proxy.decisions.push(self.trace.finish(status));
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
            endpoint,
            at_ms: self.proxy.clock.now() / crate::clock::MILLI,
            prompt_tokens: self.request.prompt_tokens,
            cached_tokens: spent.cached,
            output_tokens: spent.output,
        });
    }
}
