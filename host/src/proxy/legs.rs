//! Legs before decode, run in the engines' dialect.
//!
//! Each leg is tried at its endpoints in order. If none of them does it the request is served aggregated at the
//! decode endpoint that is reserved already: a failed split costs time, never the request.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::StatusCode;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};

use super::attempt::Job;
use super::body::Sent;
use crate::disagg::Dialect;
use crate::policy::LegStage;
use crate::pool::Endpoint;
use crate::route::Choice;
use crate::types::Engine;

/// The answer of a prefill leg is a few KB of parameters and one token.
const MAX_ANSWER: usize = 4 * 1024 * 1024;

/// Runs the legs of a choice and gives the body for its decode endpoint.
pub(super) async fn run(job: &mut Job, choice: &mut Choice, body: &Bytes) -> Bytes {
    let legs = std::mem::take(&mut choice.legs);
    let Some(decode) = choice.order.first() else { return body.clone() };
    let Some(dialect) = dialect(job, decode) else { return body.clone() };
    let mut decode_body = body.clone();
    for leg in legs.iter().filter(|leg| leg.stage == LegStage::Prefill) {
        for endpoint in leg.order.iter() {
            match prefill(job, endpoint, dialect, body).await {
                Ok(bytes) => {
                    job.trace.prefilled(endpoint);
                    // The prompt is not prefilled at the decode endpoint.
                    choice.reservation.first_token();
                    decode_body = bytes;
                    break;
                }
                Err(why) => job.trace.tried(endpoint, why),
            }
        }
    }
    decode_body
}

/// The dialect that the decode endpoint's engine speaks.
fn dialect(job: &Job, decode: &Endpoint) -> Option<Dialect> {
    let engine = job.service.config.engine.known().or(decode.report().engine);
    matches!(engine, None | Some(Engine::Vllm)).then_some(Dialect::Nixl)
}

/// One prefill leg at one endpoint: the body for decode, or why there is none.
async fn prefill(
    job: &Job,
    endpoint: &Arc<Endpoint>,
    dialect: Dialect,
    body: &Bytes,
) -> Result<Bytes, String> {
    let prefill_body = dialect.prefill_body(job.request.api, body).map_err(|error| error.to_string())?;
    let lane = &job.service.lane;
    let _reserved = lane.reserve(&job.request, endpoint);
    let config = &job.service.config;
    let remake = || {
        let mut request = job.engine_request(endpoint, Sent::Whole(Some(prefill_body.clone())))?;
        request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(prefill_body.len()));
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Some(request)
    };
    let answered = job
        .proxy
        .upstream
        .send(endpoint, remake, config.connect_timeout, config.first_byte_timeout)
        .await
        .map_err(|error| {
            job.note_failure(endpoint, &error);
            error.to_string()
        })?;
    let status = answered.response.status();
    let answer = Limited::new(answered.response.into_body(), MAX_ANSWER)
        .collect()
        .await
        .map_err(|error| format!("its answer broke off: {error}"))?
        .to_bytes();
    answered.lease.done();
    if status != StatusCode::OK {
        return Err(format!("prefill answered {status}"));
    }
    endpoint.health.request_ok();
    lane.sent(&job.request, endpoint);
    dialect.decode_body(job.request.api, body, &answer).map_err(|error| error.to_string())
}
