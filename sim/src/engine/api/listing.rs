//! The paths that tell something and generate nothing.

use super::super::error::ApiError;
use super::super::node::Node;
use super::{Api, parse};
use crate::text;
use serde_json::{Value, json};

/// `GET /v1/models`.
pub(in crate::engine) fn models(node: &Node) -> Value {
    let root = node.args.models.first();
    let created = node.unix_seconds(0) as u64;
    let card = |id: &String, parent: Option<&String>| {
        json!({"id": id, "object": "model", "created": created, "owned_by": "vllm", "root": root, "parent": parent,
            "max_model_len": node.args.sizes.scheduler().longest(), "permission": []})
    };
    let served = node.args.models.iter().map(|id| card(id, None));
    let adapters = node.args.loras.iter().map(|id| card(id, root));
    json!({"object": "list", "data": served.chain(adapters).collect::<Vec<_>>()})
}

/// `POST /tokenize`, for a text or for messages.
pub(in crate::engine) fn tokenize(node: &Node, bytes: &[u8]) -> Result<Value, ApiError> {
    let body = read(bytes)?;
    let api = if body.get("messages").is_some() { Api::Chat } else { Api::Completions };
    let known = node.vocabulary.as_ref().and_then(|vocabulary| vocabulary.prompt(api, bytes));
    let tokens = if let Some(known) = known {
        known
    } else if body.get("messages").is_some() {
        text::chat(&body)?
    } else {
        text::completion(&body, "prompt")?.into_iter().next().unwrap_or_default()
    };
    Ok(
        json!({"count": tokens.len(), "max_model_len": node.args.sizes.scheduler().longest(), "tokens": tokens}),
    )
}

/// `POST /v1/messages/count_tokens`.
pub(in crate::engine) fn count_tokens(node: &Node, bytes: &[u8]) -> Result<Value, ApiError> {
    if let Some(known) =
        node.vocabulary.as_ref().and_then(|vocabulary| vocabulary.prompt(Api::Messages, bytes))
    {
        return Ok(json!({"input_tokens": known.len()}));
    }
    let mut body = read(bytes)?;
    if let Some(map) = body.as_object_mut() {
        map.entry("max_tokens").or_insert(json!(1));
    }
    let parsed = parse(Api::Messages, &body)?;
    Ok(json!({"input_tokens": parsed.prompts.iter().map(Vec::len).sum::<usize>()}))
}

fn read(bytes: &[u8]) -> Result<Value, ApiError> {
    serde_json::from_slice(bytes)
        .map_err(|error| ApiError::bad("body", format!("JSON decode error: {error}")))
}
