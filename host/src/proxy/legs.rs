//! One leg of a split at one endpoint, whose answer is nobody's.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use hyper::{Request, StatusCode};

use super::body::Sent;
use super::headers::REQUEST_ID;
use super::infer::seconds;
use super::job::Job;
use super::upstream::{Answered, SendError, Way};
use super::{Proxy, Service};
use crate::clock::{MILLI, Nanos};
use crate::disagg::{self, DialectError};
use crate::policy::{self, LegStage};
use crate::pool::Endpoint;

/// The answer of a leg is a few KB of parameters and one token; a stream that nobody asked for is longer.
const MAX_ANSWER: usize = 4 * 1024 * 1024;

/// Why a leg came to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum LegFault {
    /// There was no answer.
    #[error(transparent)]
    Send(#[from] SendError),
    /// It was not done in time.
    #[error("it was not done within {0} ms")]
    Timeout(u128),
    /// The answer broke off, or had no end.
    #[error("its answer broke off: {0}")]
    Broken(String),
    /// It was refused or failed.
    #[error("it answered {0}")]
    Status(StatusCode),
    /// It is not known how the engine is to be found by others.
    #[error("its bootstrap server: {0}")]
    Introduction(String),
    /// There is no body for the leg, or nothing usable in its answer.
    #[error(transparent)]
    Dialect(#[from] DialectError),
}

/// The label in the metric of faults of a leg that got no answer.
pub(super) const fn unsent(error: &SendError) -> &'static str {
    match error {
        SendError::Dial(_) | SendError::NoBody => "unreachable",
        SendError::Timeout(_) => "timeout",
        SendError::Broken(_) | SendError::Body(_) => "broken",
    }
}

impl LegFault {
    /// The label of the metric of faults.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Send(error) => unsent(error),
            Self::Introduction(_) => "unreachable",
            Self::Timeout(_) => "timeout",
            Self::Broken(_) => "broken",
            Self::Status(_) => "status",
            Self::Dialect(DialectError::Ended(_)) => "ended",
            Self::Dialect(_) => "unusable",
        }
    }

    /// Whether it would be the same at every other endpoint.
    pub(super) fn is_everywhere(&self) -> bool {
        match self {
            Self::Status(status) => {
                status.is_client_error()
                    && !matches!(*status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
            }
            Self::Dialect(error) => {
                matches!(error, DialectError::Api | DialectError::Body(_) | DialectError::Ended(_))
            }
            _ => false,
        }
    }
}

/// A leg that is about to be sent. It holds all that it needs, so that it can go on by itself.
pub(super) struct LegCall {
    proxy: Arc<Proxy>,
    service: Arc<Service>,
    request: Arc<policy::Request>,
    endpoint: Arc<Endpoint>,
    stage: LegStage,
    head: Request<()>,
    body: Bytes,
    /// Whether its time says how fast the endpoint prefills.
    is_timed: bool,
}

/// What a leg answered, and how long it took.
pub(super) struct LegDone {
    pub(super) answer: Bytes,
    pub(super) took: Nanos,
}

impl LegCall {
    /// None when the path cannot be put behind the endpoint's own.
    pub(super) fn new(
        job: &Job,
        endpoint: &Arc<Endpoint>,
        stage: LegStage,
        leg: disagg::Leg,
    ) -> Option<Self> {
        Some(Self {
            proxy: Arc::clone(&job.proxy),
            service: Arc::clone(&job.service),
            request: Arc::clone(&job.request),
            endpoint: Arc::clone(endpoint),
            stage,
            head: head(job, endpoint, &leg)?,
            body: leg.body,
            is_timed: stage == LegStage::Prefill,
        })
    }

    /// The same, beside decode: it is done when decode has fetched what it made, which says nothing of its speed.
    pub(super) fn beside_decode(self) -> Self {
        Self { is_timed: false, ..self }
    }

    /// Sends it and reads its answer. The endpoint's load counts it for so long, and gives it back however it ends.
    pub(super) async fn run(self) -> Result<LegDone, LegFault> {
        let Self { proxy, service, request, endpoint, stage, head, body, is_timed } = self;
        let lane = &service.lane;
        let reserved = lane.reserve(&request, &endpoint);
        let uncached = request.prompt_tokens.saturating_sub(reserved.held());
        let started = proxy.clock.now();
        let config = &service.config;
        let limit = config.prefill_timeout;
        let way =
            Way { dialer: &service.dialer, connect: config.connect_timeout, answer: limit, upgrades: false };
        let exchange = async {
            let remake = || Some(head.clone().map(|()| Sent::Whole(Some(body.clone()))));
            let answered = proxy.upstream.send(&endpoint, remake, way).await?;
            endpoint.reached(proxy.clock.now());
            read(answered).await
        };
        let outcome = match tokio::time::timeout(limit, exchange).await {
            Ok(outcome) => outcome,
            Err(_) => Err(LegFault::Timeout(limit.as_millis())),
        };
        let took = proxy.clock.now().saturating_sub(started);
        service.metrics.split.leg(stage, seconds(took));
        match outcome {
            Ok(answer) => {
                service.succeeded(&endpoint, proxy.clock.now());
                lane.sent(&request, &endpoint);
                if is_timed {
                    #[expect(clippy::cast_precision_loss, reason = "milliseconds of a request")]
                    endpoint.latency.first_token(took as f32 / MILLI as f32, uncached, reserved.ahead());
                }
                Ok(LegDone { answer, took })
            }
            Err(fault) => {
                match &fault {
                    LegFault::Send(error) => service.unanswered(&endpoint, proxy.clock.now(), error),
                    LegFault::Status(status) if !status.is_server_error() => {}
                    fault => service.failed(&endpoint, proxy.clock.now(), &fault.to_string()),
                }
                service.metrics.split.fault(stage.as_str(), fault.reason());
                Err(fault)
            }
        }
    }
}

/// Reads a leg's answer to its end, so that its connection can be used again.
async fn read(answered: Answered) -> Result<Bytes, LegFault> {
    let Answered { response, lease } = answered;
    let status = response.status();
    let answer = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
    let answer = answer.map_err(|error| LegFault::Broken(error.to_string()))?.to_bytes();
    lease.done();
    if status.is_success() { Ok(answer) } else { Err(LegFault::Status(status)) }
}

/// The head of a leg's request: the client's, but for what describes the body.
pub(super) fn head(job: &Job, endpoint: &Endpoint, leg: &disagg::Leg) -> Option<Request<()>> {
    let mut head = job.whole_request(endpoint, ())?;
    let headers = head.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(leg.body.len()));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(id) = leg.request_id.as_deref().and_then(|id| HeaderValue::from_str(id).ok()) {
        headers.insert(REQUEST_ID, id);
    }
    Some(head)
}
