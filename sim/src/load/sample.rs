//! What came of one request.

use http::StatusCode;
use std::fmt;
use std::time::Duration;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// No connection.
    Connect,
    /// The connection broke before an answer began.
    NoAnswer,
    /// The answer broke off.
    Broken,
    /// The stream ended without its end mark.
    Truncated,
    /// The stream said that something failed.
    InStream,
    /// It took too long.
    Timeout,
    /// A status other than 2xx, with the router's reason when it gave one.
    Status(u16, Option<String>),
}

impl Trouble {
    pub(super) fn status(status: StatusCode, reason: Option<String>) -> Self {
        Self::Status(status.as_u16(), reason)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect => f.write_str("no connection"),
            Self::NoAnswer => f.write_str("no answer"),
            Self::Broken => f.write_str("answer broke off"),
            Self::Truncated => f.write_str("stream without end"),
            Self::InStream => f.write_str("error in stream"),
            Self::Timeout => f.write_str("timeout"),
            Self::Status(status, None) => write!(f, "status {status}"),
            Self::Status(status, Some(reason)) => write!(f, "status {status} ({reason})"),
        }
    }
}

/// One request and its answer.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// From sending to the first token; absent without a stream.
    pub ttft: Option<Duration>,
    /// From sending to the end.
    pub latency: Duration,
    /// Tokens of the prompt, as the usage says.
    pub prompt_tokens: u64,
    /// Of those, the ones found in a cache.
    pub cached_tokens: u64,
    /// Tokens of the answer, as the usage says, or else pieces of the stream.
    pub output_tokens: u64,
    /// Who answered: the header `x-sluicegate-endpoint`.
    pub endpoint: Option<String>,
    /// Why it failed, if it did.
    pub trouble: Option<Trouble>,
}
