//! What a proxy has to understand of the APIs in front of model servers.
//!
//! Bodies are read and never rebuilt: [`facts`] scans one once for what policies see, [`splice`] edits a
//! copy that keeps every byte it was not asked to change, [`usage`] watches an answer go by, [`error`]
//! speaks to a client in the shape of the API it called. Everything here takes bytes from strangers, so
//! nothing here may panic, recurse without bound or hold more than it says.

pub mod error;
pub mod facts;
mod json;
pub mod models;
pub mod path;
mod prompt;
pub mod splice;
pub mod usage;

pub use error::ApiError;
pub use facts::{BodyError, Facts};
pub use splice::SpliceError;
pub use usage::{AnswerId, UsageScan};

use http::Method;

use crate::types::Api;

/// The API that a method and a path belong to; the path comes without query and trailing slash.
///
/// Only `POST` carries a prompt: anything else is [`Api::Other`] and passes through.
#[must_use]
pub fn of(method: &Method, path: &str) -> Api {
    if method != Method::POST {
        return Api::Other;
    }
    match path {
        "/v1/chat/completions" => Api::Chat,
        "/v1/completions" => Api::Completions,
        "/v1/responses" => Api::Responses,
        "/v1/messages" => Api::Messages,
        "/v1/embeddings" => Api::Embeddings,
        "/generate" | "/inference/v1/generate" => Api::Generate,
        _ => Api::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_methods_name_an_api() {
        assert_eq!(of(&Method::POST, "/v1/chat/completions"), Api::Chat);
        assert_eq!(of(&Method::POST, "/v1/messages"), Api::Messages);
        assert_eq!(of(&Method::POST, "/inference/v1/generate"), Api::Generate);
        assert_eq!(of(&Method::GET, "/v1/chat/completions"), Api::Other);
        assert_eq!(of(&Method::GET, "/v1/responses/resp_1"), Api::Other);
        assert_eq!(of(&Method::POST, "/v1/messages/count_tokens"), Api::Other);
    }
}
