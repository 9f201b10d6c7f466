//! An engine's answer on its way to the client: bytes as they come, with what can be learned from them.
//!
//! Nothing is buffered and nothing is changed. The scan of usage sees every piece before it goes on, so load,
//! latency and the explanation are up to date when the client has read the last byte. A stream that breaks ends in
//! an error event in the API's shape; any other answer that breaks ends the client's connection, so that it
//! cannot be taken for whole.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::StatusCode;
use hyper::body::Incoming;

use super::headers::is_stream;
use super::idle::{Expired, Idle};
use super::infer::seconds;
use super::job::{Fetch, Job, Spent};
use super::upstream::Lease;
use crate::api::{self, AnswerId, ApiError, UsageScan};
use crate::clock::{MILLI, Nanos};
use crate::policy::EventKind;
use crate::pool::{Endpoint, Reservation};
use crate::types::Api;

/// An engine's body, of which a beginning may have been read already.
pub(super) struct Coming {
    pub(super) first: Option<Bytes>,
    pub(super) rest: Incoming,
}

impl Coming {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(Ok(Frame::data(first)))),
            None => Pin::new(&mut self.rest).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let Some(first) = &self.first else { return self.rest.size_hint() };
        let (first, rest) = (first.len() as u64, self.rest.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + first);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + first);
        }
        hint
    }
}

/// An answer under way. Dropping it before its end is the client going away: the engine's connection closes.
pub(super) struct Relay {
    job: Job,
    endpoint: Arc<Endpoint>,
    status: StatusCode,
    body: Coming,
    lease: Option<Lease>,
    reservation: Option<Reservation>,
    scan: Option<UsageScan>,
    /// Looks for the id under which the engine keeps the answer, where there is one.
    answer_id: Option<AnswerId>,
    /// A stream of events, in which an error can still be told.
    events: bool,
    sent: Nanos,
    /// Prompt tokens that the endpoint was believed to hold when the request was sent.
    held: u32,
    counted: u32,
    idle: Idle,
}

impl Body for Relay {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let relay = self.get_mut();
        if relay.job.ended {
            return Poll::Ready(None);
        }
        if relay.events && relay.job.proxy.closing.load(Ordering::Relaxed) {
            return Poll::Ready(relay.broken(&Cut::Closing).map(Ok));
        }
        match relay.body.poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    relay.take(data);
                }
                if relay.body.is_end_stream() {
                    relay.complete();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) => {
                relay.complete();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => {
                let event = relay.broken(&Cut::Broken(error.to_string()));
                Poll::Ready(Some(event.ok_or(error)))
            }
            Poll::Pending => match relay.idle.expired(context) {
                None => Poll::Pending,
                // Without events there is no way to tell the client; closing its connection is left.
                Some(expired) => Poll::Ready(relay.broken(&Cut::Expired(expired)).map(Ok)),
            },
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Relay {
    #[expect(clippy::too_many_arguments, reason = "it takes over everything that the request holds")]
    pub(super) fn new(
        job: Job,
        endpoint: Arc<Endpoint>,
        status: StatusCode,
        headers: &HeaderMap,
        body: Coming,
        lease: Lease,
        mut reservation: Reservation,
        held: u32,
    ) -> Self {
        let events = is_stream(headers);
        let scanned = status.is_success() && job.request.api != Api::Other;
        let scan = scanned.then(|| UsageScan::new(job.request.api, events));
        let answer_id = (scanned && job.request.api == Api::Responses).then(AnswerId::default);
        if !events {
            // The whole answer is there: so was the first token.
            reservation.first_token();
        }
        let idle = Idle::new(job.service.config.idle_timeout).ending(job.left());
        let sent = job.sent_at;
        let mut relay = Self {
            job,
            endpoint,
            status,
            body,
            lease: Some(lease),
            reservation: Some(reservation),
            scan,
            answer_id,
            events,
            sent,
            held,
            counted: 0,
            idle,
        };
        if relay.body.is_end_stream() {
            relay.complete();
        }
        relay
    }

    fn take(&mut self, data: &[u8]) {
        self.idle.moved();
        if let Some(id) = &mut self.answer_id {
            id.feed(data);
        }
        let Some(scan) = &mut self.scan else { return };
        scan.feed(data);
        if !self.events || !scan.first_token_seen() {
            return;
        }
        let new = scan.chunks().saturating_sub(self.counted);
        self.counted += new;
        if self.job.first.is_none() {
            self.first_token();
        }
        if let Some(reservation) = &mut self.reservation {
            reservation.output(new);
        }
        if let Some(quota) = &mut self.job.quota {
            quota.output(new);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "milliseconds of a request")]
    fn first_token(&mut self) {
        let now = self.job.proxy.clock.now();
        self.job.first = Some(now);
        self.job.service.metrics.ttft(seconds(now.saturating_sub(self.job.request.arrived)));
        let ms = now.saturating_sub(self.sent) as f32 / MILLI as f32;
        let uncached = self.job.request.prompt_tokens.saturating_sub(self.held);
        if let Some(Fetch { tokens, is_held_up }) = self.job.fetches {
            if !is_held_up {
                self.endpoint.latency.fetched(ms, tokens);
            }
            self.job.trace.transferred(now.saturating_sub(self.sent));
            self.job.service.metrics.split.transferred(seconds(now.saturating_sub(self.sent)));
        }
        if let Some(reservation) = &mut self.reservation {
            self.endpoint.latency.first_token(ms, uncached, reservation.ahead());
            reservation.first_token();
        }
        // An answer that began well is enough for an endpoint that is being tried; it may take minutes to end.
        if !self.endpoint.circuit.closed() {
            self.job.succeeded(&self.endpoint);
        }
        self.job.event(EventKind::FirstToken, &self.endpoint);
    }

    /// The last byte has come.
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of a request")]
    fn complete(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.done();
        }
        drop(self.reservation.take());
        if let Some(id) = self.answer_id.as_ref().and_then(AnswerId::get) {
            self.job.service.lane.kept(id, &self.endpoint);
        }
        let spent = self.spent();
        if !self.events {
            self.endpoint.load.produced(spent.output.max(1));
        }
        if let Some(first) = self.job.first
            && spent.output > 1
        {
            let ms = self.job.proxy.clock.now().saturating_sub(first) as f32 / MILLI as f32;
            self.endpoint.latency.output(ms, spent.output - 1);
        }
        if !self.status.is_server_error() && self.status != StatusCode::TOO_MANY_REQUESTS {
            self.job.succeeded(&self.endpoint);
        }
        let kind = if self.status.is_server_error() { EventKind::Failed } else { EventKind::Completed };
        self.job.end(self.status.as_u16(), kind, spent);
    }

    fn spent(&mut self) -> Spent {
        let chunks = self.counted;
        let Some(scan) = self.scan.take() else { return Spent::default() };
        let usage = scan.finish();
        let told = usage.map(|usage| usage.prompt_tokens);
        let prompt = told.unwrap_or(self.job.request.prompt_tokens);
        let output = usage.map_or(chunks, |usage| usage.output_tokens);
        let cached = usage.and_then(|usage| usage.cached_tokens);
        self.job.service.metrics.tokens(prompt, self.held, cached, output);
        if let Some((usage, cached)) = usage.zip(cached) {
            let lane = &self.job.service.lane;
            lane.reported(&self.job.request, &self.endpoint, self.held, usage.prompt_tokens, cached);
        }
        self.job.pass.served(u64::from(prompt) + u64::from(output));
        Spent { prompt: told, cached, output }
    }

    /// The answer ends before its end: the event that tells the client, if there is a way to tell it.
    fn broken(&mut self, cut: &Cut) -> Option<Frame<Bytes>> {
        self.lease = None;
        drop(self.reservation.take());
        let (status, code, why) = self.blame(cut);
        let spent = self.spent();
        self.job.trace.tried(&Arc::clone(&self.endpoint), &*why);
        self.job.end(status.as_u16(), EventKind::Failed, spent);
        if !self.events {
            return None;
        }
        let message = format!("endpoint {}: {why}", self.endpoint.name);
        let error = ApiError::new(status, code, message);
        // The break may lie inside an event: an empty line ends it.
        let mut event = b"\n\n".to_vec();
        event.extend_from_slice(&api::error::event(self.job.request.api, &error));
        Some(Frame::data(event.into()))
    }

    /// What the client is told of an answer that was cut off. A request whose own time is up is no fault of the
    /// endpoint's.
    fn blame(&self, cut: &Cut) -> (StatusCode, &'static str, String) {
        let why = match cut {
            Cut::Broken(why) => format!("its answer broke off: {why}"),
            Cut::Expired(Expired::Idle) => {
                format!("its answer broke off: nothing came for {} ms", self.idle.timeout.as_millis())
            }
            Cut::Closing => {
                let why = "the router ends, and waits no longer for what runs".to_owned();
                return (StatusCode::SERVICE_UNAVAILABLE, "shutting_down", why);
            }
            Cut::Expired(Expired::Whole) => {
                let whole = self.job.service.config.total_timeout.unwrap_or_default();
                let why = format!("the request took longer than {} ms", whole.as_millis());
                return (StatusCode::GATEWAY_TIMEOUT, "total_timeout", why);
            }
        };
        self.job.failed(&self.endpoint, &why);
        (StatusCode::BAD_GATEWAY, "endpoint_failed", why)
    }
}

/// Why an answer ends before its end.
enum Cut {
    /// The engine's connection broke.
    Broken(String),
    /// A time was up.
    Expired(Expired),
    /// The process ends.
    Closing,
}
