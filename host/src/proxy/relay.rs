//! An engine's answer on its way to the client: bytes as they come, with what can be learned from them.
//!
//! Nothing is buffered and nothing is changed. The scan of usage sees every piece before it goes on, so load,
//! latency and the explanation are up to date when the client has read the last byte. A stream that breaks ends in
//! an error event in the API's shape; any other answer that breaks ends the client's connection, so that it
//! cannot be taken for whole.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap};
use http_body::{Body, Frame, SizeHint};
use hyper::StatusCode;
use hyper::body::Incoming;

use super::attempt::{Job, Spent};
use super::idle::Idle;
use super::infer::seconds;
use super::upstream::Lease;
use crate::api::{self, AnswerId, ApiError, UsageScan};
use crate::clock::{MILLI, Nanos};
use crate::policy::EventKind;
use crate::pool::{Endpoint, Reservation};
use crate::types::Api;

/// An answer under way. Dropping it before its end is the client going away: the engine's connection closes.
pub(super) struct Relay {
    job: Job,
    endpoint: Arc<Endpoint>,
    status: StatusCode,
    body: Incoming,
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
        match Pin::new(&mut relay.body).poll_frame(context) {
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
                let event = relay.broken(&error.to_string());
                Poll::Ready(Some(event.ok_or(error)))
            }
            Poll::Pending if relay.idle.expired(context) => {
                let why = format!("nothing came for {} ms", relay.idle.timeout.as_millis());
                // Without events there is no way to tell the client; closing its connection is left.
                Poll::Ready(relay.broken(&why).map(Ok))
            }
            Poll::Pending => Poll::Pending,
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
        body: Incoming,
        lease: Lease,
        mut reservation: Reservation,
        held: u32,
    ) -> Self {
        let events = headers
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().to_ascii_lowercase().starts_with(b"text/event-stream"));
        let scanned = status.is_success() && job.request.api != Api::Other;
        let scan = scanned.then(|| UsageScan::new(job.request.api, events));
        let answer_id = (scanned && job.request.api == Api::Responses).then(AnswerId::default);
        if !events {
            // The whole answer is there: so was the first token.
            reservation.first_token();
        }
        let idle = Idle::new(job.service.config.idle_timeout);
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
    }

    #[expect(clippy::cast_precision_loss, reason = "milliseconds of a request")]
    fn first_token(&mut self) {
        let now = self.job.proxy.clock.now();
        self.job.first = Some(now);
        self.job.service.metrics.ttft(seconds(now.saturating_sub(self.job.request.arrived)));
        let ms = now.saturating_sub(self.sent) as f32 / MILLI as f32;
        let uncached = self.job.request.prompt_tokens.saturating_sub(self.held);
        if let Some(reservation) = &mut self.reservation {
            self.endpoint.latency.first_token(ms, uncached, reservation.ahead());
            reservation.first_token();
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
        if let Some(first) = self.job.first
            && spent.output > 1
        {
            let ms = self.job.proxy.clock.now().saturating_sub(first) as f32 / MILLI as f32;
            self.endpoint.latency.output(ms, spent.output - 1);
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

    /// The engine's answer has broken off: the event that tells the client, if there is a way to tell it.
    fn broken(&mut self, why: &str) -> Option<Frame<Bytes>> {
        self.lease = None;
        drop(self.reservation.take());
        self.endpoint.health.request_failed(&format!("its answer broke off: {why}"));
        let spent = self.spent();
        self.job.trace.tried(&Arc::clone(&self.endpoint), format!("its answer broke off: {why}"));
        self.job.end(StatusCode::BAD_GATEWAY.as_u16(), EventKind::Failed, spent);
        if !self.events {
            return None;
        }
        let message = format!("endpoint {} broke off its answer: {why}", self.endpoint.name);
        let error = ApiError::new(StatusCode::BAD_GATEWAY, "endpoint_failed", message);
        // The break may lie inside an event: an empty line ends it.
        let mut event = b"\n\n".to_vec();
        event.extend_from_slice(&api::error::event(self.job.request.api, &error));
        Some(Frame::data(event.into()))
    }
}
