//! What goes wrong, and how it is told to a client.

use http::StatusCode;
use serde_json::{Value, json};
use std::net::SocketAddr;

/// Why an engine cannot run.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The address is taken or not ours.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The publisher cannot listen.
    #[error("cannot publish on {address}: {source}")]
    Publish {
        /// The address asked for.
        address: String,
        /// What the library said.
        source: zeromq::ZmqError,
    },
    /// The runtime or standard output failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The tokenizer that was named is none.
    #[error(transparent)]
    Tokenizer(#[from] sluicegate::tokens::LoadError),
}

/// An error that a client is told.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[error("{status}: {message}")]
pub(super) struct ApiError {
    pub(super) status: StatusCode,
    pub(super) message: String,
    /// The field at fault.
    pub(super) param: Option<String>,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), param: None }
    }

    pub(super) fn bad(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, message: message.into(), param: Some(param.into()) }
    }

    pub(super) fn no_model(model: &str) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            message: format!("The model `{model}` does not exist."),
            param: Some("model".into()),
        }
    }

    /// vLLM's names of error types.
    fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            400 => "BadRequestError",
            404 => "NotFoundError",
            429 => "RateLimitError",
            503 => "ServiceUnavailableError",
            500..=599 => "InternalServerError",
            _ => "InvalidRequestError",
        }
    }

    /// OpenAI's shape, as vLLM fills it.
    pub(super) fn openai(&self) -> Value {
        json!({"error": {
            "message": self.message,
            "type": self.kind(),
            "param": self.param,
            "code": self.status.as_u16(),
        }})
    }

    /// Anthropic's shape.
    pub(super) fn anthropic(&self) -> Value {
        let kind = match self.status.as_u16() {
            400 => "invalid_request_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            503 | 529 => "overloaded_error",
            _ => "api_error",
        };
        json!({"type": "error", "error": {"type": kind, "message": self.message}})
    }
}
