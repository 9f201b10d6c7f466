//! Answers.

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

pub(super) type Answer = Response<Full<Bytes>>;

/// An answer of any type.
pub(super) fn typed(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// Words for people.
pub(super) fn text(status: StatusCode, words: impl Into<Bytes>) -> Answer {
    typed(status, "text/plain; charset=utf-8", words)
}

/// What was asked for.
pub(super) fn ok(value: &Value) -> Answer {
    typed(StatusCode::OK, "application/json", value.to_string())
}

/// Why it is not given.
pub(super) fn error(status: StatusCode, message: impl Into<String>) -> Answer {
    let body = json!({"error": {"message": message.into()}});
    typed(status, "application/json", body.to_string())
}

/// The path is known, the method is not.
pub(super) fn wrong_method(allowed: &'static str) -> Answer {
    let mut answer = error(StatusCode::METHOD_NOT_ALLOWED, format!("this path answers {allowed}"));
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

/// A number, or null where it is not known.
pub(super) fn number(value: f32) -> Value {
    // By way of its shortest decimal: 0.1 stays 0.1 and does not become 0.10000000149.
    if value.is_finite() {
        json!(value.to_string().parse::<f64>().unwrap_or(value.into()))
    } else {
        Value::Null
    }
}
