//! What a refusal is to a client: status, code, reason and metric, decided here alone.

use std::error::Error as _;
use std::io::ErrorKind;
use std::time::Duration;

use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};

use super::body::Answer;
use super::headers::{DROPPED_REASON, mark, queued};
use super::idle::UploadError;
use crate::api::{self, ApiError};
use crate::clock::SECOND;
use crate::flow::{Full, Scope, Standing, What};
use crate::route::Refusal;
use crate::telemetry;
use crate::tenants::{Exceeded, Limit, Stranger};
use crate::types::Api;

/// Why a request is not answered by an engine.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The request itself is at fault.
    #[error(transparent)]
    Client(#[from] ApiError),
    /// The message is no HTTP/1.1, or its end is not certain.
    #[error(transparent)]
    Malformed(ApiError),
    /// The caller is nobody.
    #[error(transparent)]
    Stranger(#[from] Stranger),
    /// The caller may not use this path.
    #[error("the path `{0}` is not among those that this API key may use")]
    PathNotAllowed(Box<str>),
    /// The caller has used what it may.
    #[error("{}", over(.0))]
    Exceeded(Exceeded),
    /// The body is too long.
    #[error("the body is longer than {0} bytes; send less, or raise `limits.body_bytes`")]
    TooLarge(usize),
    /// The body did not come.
    #[error("the body did not arrive: {0}")]
    BodyLost(String),
    /// The body did not come in time.
    #[error("the body did not arrive within {} ms", .0.as_millis())]
    BodyTimeout(Duration),
    /// There are too many connections.
    #[error("there are {0} connections already; try again later, or raise `limits.connections`")]
    TooManyConnections(usize),
    /// There are too many requests.
    #[error("there are {0} requests already; try again later, or raise `limits.requests`")]
    TooManyRequests(usize),
    /// The bodies of all requests are too long together.
    #[error(
        "the bodies of all requests would be over {0} bytes; try again later, or raise `limits.buffered_bytes`"
    )]
    TooMuchBuffered(usize),
    /// A tunnel to another host is asked for.
    #[error("CONNECT is not served: this is no forward proxy")]
    NoForwardProxy,
    /// Nobody serves the model.
    #[error("the model `{model}` is not served here; served are: {served}")]
    UnknownModel { model: Box<str>, served: String },
    /// The policies say no, or nobody can take it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The queue takes no more.
    #[error("the queue is full ({}); try again later", full_of(*.full))]
    QueueFull { full: Full, standing: Standing },
    /// A more important request took its place.
    #[error("a request of a higher priority took this one's place in the full queue; try again later")]
    Displaced { standing: Standing },
    /// Its time in the queue was up.
    #[error("no capacity within {waited_ms} ms; try again later")]
    Expired { waited_ms: u64, standing: Standing },
    /// Its time was up and there was no endpoint at all.
    #[error("no endpoint of pool `{pool}` is up: {why}")]
    NobodyUp { pool: Box<str>, why: String },
    /// The process shuts down.
    #[error("the router is shutting down")]
    ShuttingDown,
    /// Every endpoint was tried.
    #[error("no endpoint answered; tried {0}")]
    AllFailed(String),
    /// The last endpoint tried did not answer in time.
    #[error("no endpoint answered in time; tried {0}")]
    TimedOut(String),
    /// Every endpoint that could be reached said that it is busy.
    #[error("the endpoints are busy; tried {tried}")]
    EnginesBusy { tried: String, time: Duration },
    /// The request took longer than its pool allows.
    #[error("the request took longer than {} ms", .0.as_millis())]
    TotalTimeout(Duration),
}

impl From<Exceeded> for Failure {
    fn from(exceeded: Exceeded) -> Self {
        Self::Exceeded(exceeded)
    }
}

fn over(Exceeded { limit, at, retry_after }: &Exceeded) -> String {
    let what = match limit {
        Limit::Requests => "requests a minute",
        Limit::Tokens => "tokens a minute",
        Limit::Running => "requests at a time",
    };
    let seconds = retry_after.div_ceil(SECOND).max(1);
    format!("the limit of {at} {what} of this API key is reached; try again in {seconds} s")
}

fn full_of(full: Full) -> String {
    let what = match full.what {
        What::Requests => "requests",
        What::Bytes => "bytes",
        What::Tokens => "tokens",
    };
    match full.scope {
        Scope::Pool => what.into(),
        Scope::Band => format!("{what} of this priority"),
        Scope::Flow => format!("{what} of this flow"),
    }
}

/// What a client and the metrics are told.
struct Told {
    status: StatusCode,
    code: &'static str,
    /// llm-d's value of the dropped-reason header, for refusals of load and capacity.
    dropped: Option<&'static str>,
    retry_after: Option<Duration>,
}

/// When a retry is worth while, where nothing went of late that would tell.
pub(super) const SOON: Duration = Duration::from_secs(1);

impl Failure {
    fn told(&self) -> Told {
        let told = |status, code| Told { status, code, dropped: None, retry_after: None };
        let dropped =
            |status, code, reason| Told { status, code, dropped: Some(reason), retry_after: Some(SOON) };
        match self {
            Self::Client(error) | Self::Malformed(error) => told(error.status, error.code),
            Self::Stranger(_) => told(StatusCode::UNAUTHORIZED, "invalid_api_key"),
            Self::PathNotAllowed(_) => told(StatusCode::FORBIDDEN, "path_not_allowed"),
            Self::Exceeded(exceeded) => Told {
                status: StatusCode::TOO_MANY_REQUESTS,
                code: "rate_limit_exceeded",
                dropped: Some("rejected-quota-exceeded"),
                retry_after: Some(Duration::from_nanos(exceeded.retry_after)),
            },
            Self::TooLarge(_) => told(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large"),
            Self::BodyLost(_) => told(StatusCode::BAD_REQUEST, "incomplete_body"),
            Self::BodyTimeout(_) => told(StatusCode::REQUEST_TIMEOUT, "request_timeout"),
            Self::TooManyConnections(_) | Self::TooManyRequests(_) | Self::TooMuchBuffered(_) => {
                dropped(StatusCode::SERVICE_UNAVAILABLE, "overloaded", "rejected-saturated")
            }
            Self::NoForwardProxy => told(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
            Self::UnknownModel { .. } => told(StatusCode::NOT_FOUND, "model_not_found"),
            Self::Refused(Refusal::Rejected(rejection)) => Told {
                status: StatusCode::from_u16(rejection.status).unwrap_or(StatusCode::TOO_MANY_REQUESTS),
                code: "rejected_by_policy",
                dropped: Some("rejected-by-policy"),
                retry_after: rejection.retry_after_ms.map(|ms| Duration::from_millis(ms.into())),
            },
            Self::Refused(Refusal::NoEndpoints | Refusal::Filtered(_)) | Self::NobodyUp { .. } => {
                dropped(StatusCode::SERVICE_UNAVAILABLE, "no_endpoint_available", "rejected-no-endpoints")
            }
            Self::Refused(Refusal::Policy { .. }) => {
                dropped(StatusCode::SERVICE_UNAVAILABLE, "policy_failed", "rejected-policy-failed")
            }
            Self::QueueFull { standing, .. } | Self::Displaced { standing } => Told {
                retry_after: standing.estimate.or(Some(SOON)),
                ..dropped(StatusCode::TOO_MANY_REQUESTS, "queue_full", "rejected-saturated")
            },
            Self::Expired { standing, .. } => Told {
                retry_after: standing.estimate.or(Some(SOON)),
                ..dropped(StatusCode::TOO_MANY_REQUESTS, "queue_timeout", "rejected-ttl-expired")
            },
            Self::ShuttingDown => {
                dropped(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", "rejected-shutting-down")
            }
            Self::AllFailed(_) => told(StatusCode::BAD_GATEWAY, "endpoint_failed"),
            Self::TimedOut(_) => told(StatusCode::GATEWAY_TIMEOUT, "endpoint_timeout"),
            Self::EnginesBusy { time, .. } => Told {
                retry_after: Some(*time),
                ..dropped(StatusCode::TOO_MANY_REQUESTS, "endpoints_busy", "rejected-saturated")
            },
            Self::TotalTimeout(_) => told(StatusCode::GATEWAY_TIMEOUT, "total_timeout"),
        }
    }

    /// Why a client's body did not come to its end.
    pub(super) fn body_lost(error: &hyper::Error) -> Self {
        let mut causes = std::iter::successors(error.source(), |cause| (*cause).source());
        if let Some(UploadError::Late(timeout)) = error.source().and_then(|cause| cause.downcast_ref()) {
            return Self::BodyTimeout(*timeout);
        }
        match causes.find_map(|cause| cause.downcast_ref::<std::io::Error>()) {
            Some(cause) if matches!(cause.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidData) => {
                let message = format!("the body is not in chunks as HTTP/1.1 writes them: {cause}");
                Self::Malformed(ApiError::new(StatusCode::BAD_REQUEST, "invalid_chunk", message))
            }
            Some(cause) => Self::BodyLost(cause.to_string()),
            None => Self::BodyLost(error.to_string()),
        }
    }

    /// Where the request would stand in the queue if it came now.
    const fn standing(&self) -> Option<Standing> {
        match self {
            Self::QueueFull { standing, .. }
            | Self::Displaced { standing }
            | Self::Expired { standing, .. } => Some(*standing),
            _ => None,
        }
    }

    /// Whether the connection cannot go on, because the end of the message was not reached.
    const fn ends_connection(&self) -> bool {
        matches!(
            self,
            Self::Malformed(_)
                | Self::TooLarge(_)
                | Self::BodyLost(_)
                | Self::BodyTimeout(_)
                | Self::TooManyConnections(_)
                | Self::TooMuchBuffered(_)
                | Self::NoForwardProxy
        )
    }

    /// The bound that the client met, where it is one that is not counted where it is met.
    pub(super) fn limit(&self) -> Option<telemetry::Limit> {
        match self {
            Self::TooLarge(_) => Some(telemetry::Limit::BodyBytes),
            Self::BodyTimeout(_) => Some(telemetry::Limit::BodyTime),
            Self::Malformed(error) => match error.status {
                StatusCode::REQUEST_TIMEOUT => Some(telemetry::Limit::HeaderTime),
                StatusCode::URI_TOO_LONG | StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
                    Some(telemetry::Limit::HeaderBytes)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The status that the client gets.
    pub(super) fn status(&self) -> u16 {
        self.told().status.as_u16()
    }

    /// The label of the metric of refusals; none for mistakes of clients and failures of engines.
    pub(super) fn dropped_reason(&self) -> Option<&'static str> {
        self.told().dropped
    }

    /// The answer in the shape of the API that was called.
    pub(super) fn answer(&self, api: Api, id: &str) -> Response<Answer> {
        let told = self.told();
        let error = match self {
            Self::Client(error) | Self::Malformed(error) => error.clone(),
            _ => ApiError::new(told.status, told.code, self.to_string()),
        };
        let mut response = Response::new(Answer::whole(api::error::body(api, &error)));
        *response.status_mut() = told.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        mark(headers, id);
        if self.ends_connection() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if told.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(reason) = told.dropped {
            headers.insert(DROPPED_REASON, HeaderValue::from_static(reason));
        }
        if let Some(standing) = self.standing() {
            queued(headers, standing, None);
        }
        if let Some(after) = told.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(after.as_millis().div_ceil(1_000).max(1) as u64));
        }
        response
    }
}
