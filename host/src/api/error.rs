//! Errors in the words of the API that was called.
//!
//! A client's library decides by the shape and the type of an error whether it retries, and what it raises;
//! so a refusal of the proxy looks like one of the model server that the client believes to talk to.

use bytes::Bytes;
use http::StatusCode;
use serde::Serialize;

use super::facts::BodyError;
use crate::types::Api;

/// The type of an error that is the client's.
pub const INVALID_REQUEST: &str = "invalid_request_error";

/// An error as a client is told it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The status of the answer.
    pub status: StatusCode,
    /// OpenAI's `type`; Anthropic's follows from the status.
    pub kind: &'static str,
    /// OpenAI's `code`, for programs.
    pub code: &'static str,
    /// For people.
    pub message: String,
    /// The field that is at fault.
    pub param: Option<String>,
}

impl ApiError {
    /// An error with the usual type of its status and no field at fault.
    #[must_use]
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind: openai_type(status), code, message: message.into(), param: None }
    }
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        let code = match &error {
            BodyError::NotJson { .. } => "invalid_json",
            BodyError::NotAnObject => "invalid_body",
            BodyError::Missing { .. } => "missing_required_parameter",
            BodyError::Wrong { .. } => "invalid_type",
        };
        let param = error.field().map(str::to_owned);
        Self { param, ..Self::new(StatusCode::BAD_REQUEST, code, error.to_string()) }
    }
}

/// OpenAI's type of a status.
fn openai_type(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        503 => "service_unavailable_error",
        400..=499 => INVALID_REQUEST,
        _ => "server_error",
    }
}

/// Anthropic's type of a status.
fn anthropic_type(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        400..=499 => INVALID_REQUEST,
        503 | 529 => "overloaded_error",
        504 => "timeout_error",
        _ => "api_error",
    }
}

#[derive(Serialize)]
struct Detail<'a> {
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    param: Option<&'a str>,
    code: &'a str,
}

#[derive(Serialize)]
struct OpenAi<'a> {
    error: Detail<'a>,
}

#[derive(Serialize)]
struct AnthropicDetail<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    message: &'a str,
}

#[derive(Serialize)]
struct Anthropic<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    error: AnthropicDetail<'a>,
}

/// The `error` event of a stream of responses. Its definition has the members at the top; what is sent in
/// practice, and what client libraries raise, has them in `error`.
#[derive(Serialize)]
struct ResponsesEvent<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    code: &'a str,
    message: &'a str,
    param: Option<&'a str>,
    sequence_number: u32,
    error: Detail<'a>,
}

impl ApiError {
    fn detail(&self) -> Detail<'_> {
        let param = self.param.as_deref();
        Detail { message: &self.message, kind: self.kind, param, code: self.code }
    }
}

/// The body of an error's answer.
#[must_use]
pub fn body(api: Api, error: &ApiError) -> Bytes {
    json(api, error).into()
}

fn json(api: Api, error: &ApiError) -> Vec<u8> {
    // Strings and numbers always serialise.
    if api == Api::Messages {
        let detail = AnthropicDetail { kind: anthropic_type(error.status), message: &error.message };
        return serde_json::to_vec(&Anthropic { kind: "error", error: detail }).unwrap_or_default();
    }
    serde_json::to_vec(&OpenAi { error: error.detail() }).unwrap_or_default()
}

/// The event that ends a stream which cannot go on. The stream has to stand between two events.
#[must_use]
pub fn event(api: Api, error: &ApiError) -> Bytes {
    let (name, data) = match api {
        Api::Responses => {
            let event = ResponsesEvent {
                kind: "error",
                code: error.code,
                message: &error.message,
                param: error.param.as_deref(),
                sequence_number: 0,
                error: error.detail(),
            };
            ("event: error\n", serde_json::to_vec(&event).unwrap_or_default())
        }
        Api::Messages => ("event: error\n", json(api, error)),
        _ => ("", json(api, error)),
    };
    [name.as_bytes(), b"data: ", &data, b"\n\n"].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error() -> ApiError {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "no_endpoint_available", "nobody \"there\"")
    }

    fn text(bytes: &Bytes) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn bodies_have_the_shape_of_their_api() {
        assert_eq!(
            text(&body(Api::Chat, &error())),
            r#"{"error":{"message":"nobody \"there\"","type":"service_unavailable_error","param":null,"code":"no_endpoint_available"}}"#
        );
        assert_eq!(
            text(&body(Api::Messages, &error())),
            r#"{"type":"error","error":{"type":"overloaded_error","message":"nobody \"there\""}}"#
        );
    }

    #[test]
    fn events_end_a_stream() {
        assert!(text(&event(Api::Completions, &error())).starts_with("data: {\"error\":{"));
        let responses = event(Api::Responses, &error());
        assert!(text(&responses).starts_with("event: error\ndata: {\"type\":\"error\",\"code\":"));
        assert!(text(&event(Api::Messages, &error())).starts_with("event: error\ndata: {\"type\":\"error\""));
        assert!(text(&responses).ends_with("}\n\n"));
        assert_eq!(text(&responses).matches('\n').count(), 3);
    }

    #[test]
    fn a_body_error_names_its_field() {
        let error = ApiError::from(BodyError::Missing { field: "messages" });
        assert_eq!((error.status, error.kind), (StatusCode::BAD_REQUEST, INVALID_REQUEST));
        assert_eq!(error.param.as_deref(), Some("messages"));
        assert_eq!(error.to_string(), "`messages` is missing");
    }
}
