//! How a prefill on one endpoint and a decode on another are asked for, one file a dialect.
//!
//! Pure functions from body to body, by splicing: whatever the client sent reaches both engines as it was,
//! but for the members that a protocol owns. Those are internal, and a caller has removed them from what
//! the client sent ([`crate::api::splice::INTERNAL`]). What an engine hands over goes on as it came.

mod legs;
mod mooncake;
mod moriio;
mod nixl;
mod offloading;
mod one_token;
mod sglang;
mod storage;
mod trtllm;
mod unsplit;

use bytes::Bytes;
use thiserror::Error;

use crate::api::SpliceError;
use crate::types::{Api, Dialect};

pub use legs::{Introduction, Order, bootstrap_port, introduces, is_error_event, order};
pub use unsplit::{Unsplit, unsplit};

/// What a split is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The API of the request.
    pub api: Api,
    /// The client's body, without internal members.
    pub body: &'a Bytes,
    /// The two engines, as they are to find each other.
    pub pair: &'a Pair,
}

/// What the legs of one attempt have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Host of the prefill endpoint.
    pub prefill_host: Box<str>,
    /// Its bootstrap port.
    pub prefill_port: u16,
    /// Host of the decode endpoint.
    pub decode_host: Box<str>,
    /// Its bootstrap port.
    pub decode_port: u16,
    /// Different for every attempt; below 2^63.
    pub room: u64,
    /// As the prefill engine names itself to others; empty where the dialect does not ask.
    pub engine_id: Box<str>,
}

/// The body of a leg, with the request id that it goes under when it is not the request's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leg {
    /// What is sent.
    pub body: Bytes,
    /// The request id, where the protocol puts addresses into it.
    pub request_id: Option<String>,
}

impl Leg {
    fn of(body: Bytes) -> Self {
        Self { body, request_id: None }
    }
}

/// Why a leg has no body.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DialectError {
    /// The API has no legs.
    #[error("requests of this API cannot be split")]
    Api,
    /// The client's body cannot be edited.
    #[error("the request body: {0}")]
    Body(SpliceError),
    /// Prefill's answer is not what it should be.
    #[error("the answer of prefill: {0}")]
    Answer(SpliceError),
    /// Prefill answered, but handed nothing over.
    #[error("the answer of prefill has no `{0}`")]
    NothingHandedOver(&'static str),
    /// The first token was the last: nothing is left to decode.
    #[error("prefill ended the answer with `{0}`")]
    Ended(Box<str>),
}

/// The body of the prefill leg.
///
/// # Errors
///
/// When the API has no legs or the body is no JSON object.
pub fn prefill(dialect: Dialect, ask: Ask<'_>) -> Result<Leg, DialectError> {
    match dialect {
        Dialect::Nixl => nixl::prefill(ask),
        Dialect::Mooncake => mooncake::prefill(ask),
        Dialect::Sglang => sglang::both(ask),
        Dialect::Storage => storage::prefill(ask),
        Dialect::Offloading => offloading::prefill(ask),
        Dialect::Trtllm => trtllm::prefill(ask),
        Dialect::Moriio => moriio::prefill(ask),
    }
}

/// The body of the decode leg. `answer` is what prefill said; of legs that run at once it is empty.
///
/// # Errors
///
/// When the API has no legs, the body is no JSON object, or prefill handed nothing over; then decode can
/// run on the client's body alone.
pub fn decode(dialect: Dialect, ask: Ask<'_>, answer: &[u8]) -> Result<Leg, DialectError> {
    match dialect {
        Dialect::Nixl => nixl::decode(ask, answer),
        Dialect::Mooncake => mooncake::decode(ask),
        Dialect::Sglang => sglang::both(ask),
        Dialect::Storage => storage::decode(ask),
        Dialect::Offloading => offloading::decode(ask),
        Dialect::Trtllm => trtllm::decode(ask, answer),
        Dialect::Moriio => moriio::decode(ask, answer),
    }
}

/// Whether decode's answer is to be [`merged`] with prefill's.
#[must_use]
pub fn merges(dialect: Dialect, ask: Ask<'_>) -> bool {
    dialect == Dialect::Sglang && sglang::wants_prompt(ask)
}

/// Decode's answer with what prefill alone can say of the prompt; none when decode's stands as it is.
#[must_use]
pub fn merged(decode: &Bytes, prefill: &Bytes) -> Option<Bytes> {
    sglang::merged(decode, prefill)
}

#[cfg(test)]
mod fixtures;
