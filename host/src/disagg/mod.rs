//! How a prefill on one endpoint and a decode on another are asked for, one file an engine family.
//!
//! Pure functions from body to body, by splicing: whatever the client sent reaches both engines as it was,
//! but for the members that a protocol owns. Those are internal, and a caller has removed them from what
//! the client sent ([`crate::api::splice::INTERNAL`]).

mod nixl;

use bytes::Bytes;
use thiserror::Error;

use crate::api::SpliceError;
use crate::types::Api;

/// A protocol between prefill and decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// vLLM's `NixlConnector`: the legs run one after the other, and decode pulls the blocks that
    /// prefill's answer names.
    Nixl,
}

/// Why a leg has no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
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
}

impl Dialect {
    /// The body of the prefill leg.
    ///
    /// # Errors
    ///
    /// When the API has no legs or the body is no JSON object.
    pub fn prefill_body(self, api: Api, body: &Bytes) -> Result<Bytes, DialectError> {
        match self {
            Self::Nixl => nixl::prefill(api, body),
        }
    }

    /// The body of the decode leg, from the client's body and what prefill answered.
    ///
    /// # Errors
    ///
    /// When the API has no legs, the body is no JSON object, or prefill handed nothing over; then decode can
    /// run on the client's body alone.
    pub fn decode_body(self, api: Api, body: &Bytes, prefill_answer: &[u8]) -> Result<Bytes, DialectError> {
        match self {
            Self::Nixl => nixl::decode(api, body, prefill_answer),
        }
    }
}
