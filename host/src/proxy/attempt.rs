//! Sending a request to its endpoints in order until one answers.
//!
//! What was refused or reset before any byte of an answer goes to the next endpoint. An answer of 5xx or none in
//! time is retried while the pool's budget allows; without budget the engine's own answer is passed on. An endpoint
//! that says it is busy (429) has done nothing: the next one may have the request, and the busy one is left alone for
//! the time that it asked for. Once an answer's head has gone to the client nothing is sent again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderMap, RETRY_AFTER};
use hyper::{Response, StatusCode};

use super::body::{Answer, Sent, Streamed};
use super::headers::{explain, queued, to_client};
use super::job::Job;
use super::outcome::{Failure, SOON};
use super::relay::{Coming, Relay};
use super::split::{Opened, Split};
use super::tunnel;
use super::upstream::{Answered, Remake, SendError};
use crate::clock::nanos;
use crate::policy::EventKind;
use crate::pool::{Endpoint, Reservation};
use crate::route::Choice;

/// Why an attempt came to nothing.
pub(super) enum Missed {
    /// There was no connection.
    Unreached(String),
    /// Nothing was done there: the next endpoint may have it.
    Free(String),
    /// Work may have been done: the next endpoint may have it if the budget allows.
    Costly(String),
    /// It said that it is busy, for this time: the next endpoint may have it.
    Busy(Duration),
    /// The request's own time is up.
    Late,
}

impl From<SendError> for Missed {
    fn from(error: SendError) -> Self {
        let why = error.to_string();
        match error {
            SendError::Dial(_) | SendError::NoBody => Self::Unreached(why),
            SendError::Broken(_) | SendError::Body(_) => Self::Free(why),
            SendError::Timeout(_) => Self::Costly(why),
        }
    }
}

impl Missed {
    /// What is kept of it.
    fn why(&self) -> String {
        match self {
            Self::Unreached(why) | Self::Free(why) | Self::Costly(why) => why.clone(),
            Self::Busy(_) => "it answered 429 Too Many Requests".into(),
            Self::Late => "the request's time was up".into(),
        }
    }
}

/// What trying the endpoints came to.
pub(super) enum Ran {
    /// An answer, be it that every attempt came to nothing.
    Answered(Response<Answer>),
    /// No endpoint could be connected to: nothing was sent, and the request may wait for one.
    Unreached(Box<Job>),
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
    /// One was busy, for this time.
    Busy(Duration),
    /// The request's own time was up.
    Late,
}

impl Ending {
    fn after(self, missed: &Missed) -> Self {
        match (self, missed) {
            (_, Missed::Late) => Self::Late,
            (_, Missed::Busy(time)) => Self::Busy(*time),
            (busy @ Self::Busy(_), _) | (busy, Missed::Unreached(_)) => busy,
            (_, Missed::Free(_)) => Self::Failed,
            (_, Missed::Costly(_)) => Self::TimedOut,
        }
    }
}

impl Job {
    /// Tries the endpoints in order, each after the legs that the policy wants before it: what was prefilled is good
    /// for one decode.
    pub(super) async fn run(mut self, choice: Choice, body: Bytes) -> Ran {
        let Choice { order, reservation, legs, serving } = choice;
        let mut reservation = Some(reservation);
        let mut legs = Some(legs);
        let mut ending = Ending::Unreachable;
        let stand_ins = self.service.lane.stand_ins(&order);
        let last = (order.len() + stand_ins.len()).saturating_sub(1);
        let after = |n: usize| order.iter().chain(&stand_ins).nth(n + 1);
        for (n, endpoint) in order.iter().chain(&stand_ins).enumerate() {
            let mut reserved = self.reserved(&mut reservation, endpoint);
            if !reserved.try_out(self.proxy.clock.now()) && n < last {
                self.trace.tried(endpoint, "it is being tried after an ejection, by another request");
                continue;
            }
            let legs = legs.take().unwrap_or_else(|| self.split_again(&serving, endpoint));
            let missed = match self.split(endpoint, legs, &serving, &mut reserved, &body).await {
                Split::Answered(opened) => {
                    // All of the prompt is there when its first token comes.
                    let held = self.request.prompt_tokens;
                    return Ran::Answered(self.answer(endpoint, opened, reserved, held));
                }
                Split::Missed(_) if self.is_late() => Missed::Late,
                Split::Missed(missed) => missed,
                Split::Whole => match self.try_whole(endpoint, reserved.held(), &body, after(n)).await {
                    Ok(answered) => {
                        let held = reserved.held();
                        return Ran::Answered(self.answer(endpoint, answered.into(), reserved, held));
                    }
                    Err(missed) => missed,
                },
            };
            ending = ending.after(&missed);
            self.trace.tried(endpoint, missed.why());
            let go_on = match missed {
                Missed::Unreached(_) | Missed::Free(_) | Missed::Busy(_) => true,
                Missed::Costly(_) => n < last && self.may_retry(),
                Missed::Late => false,
            };
            if !go_on {
                break;
            }
            if n < last {
                self.service.metrics.retried();
            }
        }
        match ending {
            Ending::Unreachable => Ran::Unreached(Box::new(self)),
            ending => Ran::Answered(self.fail(ending)),
        }
    }

    /// Tells the client that no endpoint could be connected to.
    pub(super) fn fail_unreached(self) -> Response<Answer> {
        self.fail(Ending::Unreachable)
    }

    /// Asks one endpoint to do all of it. It is believed to hold the first `held` tokens of the prompt.
    async fn try_whole(
        &mut self,
        endpoint: &Arc<Endpoint>,
        held: u32,
        body: &Bytes,
        next: Option<&Arc<Endpoint>>,
    ) -> Result<Answered, Missed> {
        self.start(endpoint);
        let again = || self.whole_request(endpoint, Sent::Whole(Some(body.clone())));
        let missed = match self.send(endpoint, again).await {
            Ok(answered) => match self.unusable(endpoint, &answered.response, next) {
                None => return Ok(answered),
                Some(missed) => missed,
            },
            Err(_) if self.is_late() => Missed::Late,
            Err(error) => error.into(),
        };
        self.service.lane.unsent(&self.request, endpoint, held);
        Err(missed)
    }

    /// Tries the endpoints in order with a body that can be sent once: until a connection is made.
    pub(super) async fn run_once(mut self, choice: Choice, body: Sent) -> Response<Answer> {
        let Choice { order, reservation, .. } = choice;
        let mut reservation = Some(reservation);
        let mut body = Some(body);
        let mut ending = Ending::Unreachable;
        for endpoint in order.iter() {
            let mut reserved = self.reserved(&mut reservation, endpoint);
            reserved.try_out(self.proxy.clock.now());
            let held = reserved.held();
            self.start(endpoint);
            let sending = || self.engine_request(endpoint, body.take()?);
            match self.send(endpoint, sending).await {
                Ok(answered) => return self.answer(endpoint, answered.into(), reserved, held),
                Err(SendError::Body(error)) => {
                    self.trace.tried(endpoint, "the client's body broke off");
                    return self.refuse(&Failure::body_lost(&error));
                }
                Err(error) => {
                    let missed = if self.is_late() { Missed::Late } else { error.into() };
                    ending = ending.after(&missed);
                    self.trace.tried(endpoint, missed.why());
                }
            }
            if body.is_none() || matches!(ending, Ending::Late) {
                break;
            }
        }
        self.fail(ending)
    }

    fn reserved(&self, first: &mut Option<Reservation>, endpoint: &Arc<Endpoint>) -> Reservation {
        first.take().unwrap_or_else(|| self.service.lane.reserve(&self.request, endpoint))
    }

    /// The request is on its way.
    pub(super) fn start(&mut self, endpoint: &Arc<Endpoint>) {
        self.spends();
        self.service.lane.sent(&self.request, endpoint);
        self.sent_at = self.proxy.clock.now();
        self.event(EventKind::Dispatched, endpoint);
    }

    fn may_retry(&self) -> bool {
        self.service.retries.withdraw(self.proxy.clock.now())
    }

    pub(super) async fn send(
        &self,
        endpoint: &Endpoint,
        request: impl Remake,
    ) -> Result<Answered, SendError> {
        let sent = self.proxy.upstream.send(endpoint, request, self.way()).await;
        // When the request's own time is up it is nobody's fault.
        if let Err(error) = &sent
            && !self.is_late()
        {
            self.service.unanswered(endpoint, self.proxy.clock.now(), error);
        }
        sent
    }

    /// Why an answer is not passed on, if the next endpoint may do better.
    fn unusable<B>(
        &self,
        endpoint: &Endpoint,
        response: &Response<B>,
        next: Option<&Arc<Endpoint>>,
    ) -> Option<Missed> {
        let (status, now) = (response.status(), self.proxy.clock.now());
        if status == StatusCode::TOO_MANY_REQUESTS {
            let time = busy_for(response.headers());
            if let Some(time) = time {
                self.service.lane.pool.busy(endpoint, now, nanos(time));
            }
            // Those that are busy come last: when the next one is, all are.
            let is_free = next.is_some_and(|next| !next.circuit.paused(now));
            return is_free.then(|| Missed::Busy(time.unwrap_or(SOON)));
        }
        let may_be_better_elsewhere = matches!(
            status,
            StatusCode::INTERNAL_SERVER_ERROR
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT
        );
        if !may_be_better_elsewhere || next.is_none() || !self.may_retry() {
            return None;
        }
        self.failed(endpoint, &format!("it answered {status}"));
        Some(Missed::Free(format!("it answered {status}")))
    }

    /// Passes an engine's answer on.
    pub(super) fn answer(
        mut self,
        endpoint: &Arc<Endpoint>,
        opened: Opened,
        reservation: Reservation,
        held: u32,
    ) -> Response<Answer> {
        endpoint.reached(self.proxy.clock.now());
        let Opened { answered, first } = opened;
        if answered.response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return self.switch(endpoint, answered, reservation);
        }
        let Answered { response, lease } = answered;
        let (head, body) = response.into_parts();
        if head.status.is_server_error() {
            self.failed(endpoint, &format!("it answered {}", head.status));
        }
        self.trace.served(endpoint);
        let mut headers = to_client(&head.headers, &self.request.id, &endpoint.name);
        explain(&self.request.headers, &mut headers, &self.trace);
        if let Some(waited) = self.waited {
            queued(&mut headers, waited.standing, Some(waited.took));
        }
        let relay = Relay::new(
            self,
            Arc::clone(endpoint),
            head.status,
            &headers,
            Coming { first, rest: body },
            lease,
            reservation,
            held,
        );
        let mut response = Response::new(Answer::Coming(Streamed::Relay(Box::new(relay))));
        *response.status_mut() = head.status;
        *response.headers_mut() = headers;
        response
    }

    /// The engine agrees to another protocol. Nobody asked it to where the client did not.
    fn switch(
        mut self,
        endpoint: &Arc<Endpoint>,
        answered: Answered,
        reservation: Reservation,
    ) -> Response<Answer> {
        if self.upgrade.is_none() {
            self.failed(endpoint, "it answered 101, which nobody asked for");
            self.trace.tried(endpoint, "it answered 101, which nobody asked for");
            return self.fail(Ending::Failed);
        }
        self.trace.served(endpoint);
        let headers = to_client(answered.response.headers(), &self.request.id, &endpoint.name);
        tunnel::begin(self, endpoint, answered, headers, reservation)
    }

    fn fail(mut self, ending: Ending) -> Response<Answer> {
        let tried = self.trace.attempts();
        let failure = match ending {
            Ending::Unreachable => Failure::NobodyUp { pool: self.service.config.name.clone(), why: tried },
            Ending::Failed => Failure::AllFailed(tried),
            Ending::TimedOut => Failure::TimedOut(tried),
            Ending::Busy(time) => Failure::EnginesBusy { tried, time },
            Ending::Late => Failure::TotalTimeout(self.service.config.total_timeout.unwrap_or_default()),
        };
        self.refuse(&failure)
    }
}

/// For how long an engine that answers 429 asks to be left alone, where it says so in seconds.
fn busy_for(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}
