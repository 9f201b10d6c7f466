//! What a body asks for.

use super::super::error::ApiError;
use super::Api;
use crate::text::{self, PromptError, Token};
use serde_json::Value;

/// OpenAI's default for `POST /v1/completions`.
const COMPLETIONS_DEFAULT: u32 = 16;

/// A request as the engine needs it.
#[derive(Debug)]
pub(in crate::engine) struct Parsed {
    pub(in crate::engine) model: Option<String>,
    pub(in crate::engine) prompts: Vec<Vec<Token>>,
    /// Answers to each prompt.
    pub(in crate::engine) n: u32,
    /// Most tokens of an answer; absent when the model decides.
    pub(in crate::engine) max_tokens: Option<u32>,
    /// The field that sets `max_tokens` in this API.
    pub(in crate::engine) limit_field: &'static str,
    pub(in crate::engine) stream: bool,
    pub(in crate::engine) include_usage: bool,
    pub(in crate::engine) salt: String,
    /// False for embeddings.
    pub(in crate::engine) generates: bool,
}

impl From<PromptError> for ApiError {
    fn from(error: PromptError) -> Self {
        Self::bad(error.field(), error.to_string())
    }
}

/// Reads the body of a request.
pub(in crate::engine) fn parse(api: Api, body: &Value) -> Result<Parsed, ApiError> {
    if !body.is_object() {
        return Err(ApiError::bad("body", "Input should be a valid dictionary"));
    }
    let prompts = match api {
        Api::Chat => vec![text::chat(body)?],
        Api::Messages => vec![text::messages(body)?],
        Api::Responses => vec![text::responses(body)?],
        Api::Completions => text::completion(body, "prompt")?,
        Api::Embeddings => text::completion(body, "input")?,
    };
    let (limit_field, max_tokens) = limit(api, body)?;
    let stream = boolean(body, "stream")?.unwrap_or(false) && api != Api::Embeddings;
    let options = body.get("stream_options").filter(|options| !options.is_null());
    if options.is_some() && !stream {
        return Err(ApiError::bad(
            "stream_options",
            "Stream options can only be defined when `stream=True`.",
        ));
    }
    let n = match api {
        Api::Chat | Api::Completions => number(body, "n")?.unwrap_or(1),
        Api::Responses | Api::Messages | Api::Embeddings => 1,
    };
    if !(1..=128).contains(&n) {
        return Err(ApiError::bad("n", "n should be 1 to 128"));
    }
    Ok(Parsed {
        model: match body.get("model") {
            None | Some(Value::Null) => None,
            Some(Value::String(model)) => Some(model.clone()),
            Some(_) => return Err(ApiError::bad("model", "Input should be a valid string")),
        },
        prompts,
        n,
        max_tokens,
        limit_field,
        stream,
        include_usage: options.and_then(|o| o.get("include_usage")).and_then(Value::as_bool).unwrap_or(false),
        salt: body.get("cache_salt").and_then(Value::as_str).unwrap_or_default().to_owned(),
        generates: api != Api::Embeddings,
    })
}

fn limit(api: Api, body: &Value) -> Result<(&'static str, Option<u32>), ApiError> {
    let (field, value) = match api {
        Api::Chat => match number(body, "max_completion_tokens")? {
            Some(limit) => ("max_completion_tokens", Some(limit)),
            None => ("max_tokens", number(body, "max_tokens")?),
        },
        Api::Completions => ("max_tokens", Some(number(body, "max_tokens")?.unwrap_or(COMPLETIONS_DEFAULT))),
        Api::Responses => ("max_output_tokens", number(body, "max_output_tokens")?),
        Api::Messages => match number(body, "max_tokens")? {
            None => return Err(ApiError::bad("max_tokens", "Field required: max_tokens")),
            some => ("max_tokens", some),
        },
        Api::Embeddings => ("max_tokens", None),
    };
    match value {
        Some(0) => Err(ApiError::bad(field, format!("{field} must be at least 1, got 0."))),
        value => Ok((field, value)),
    }
}

fn number(body: &Value, field: &'static str) -> Result<Option<u32>, ApiError> {
    match body.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64().and_then(|number| u32::try_from(number).ok()) {
            Some(number) => Ok(Some(number)),
            None => Err(ApiError::bad(field, format!("Input should be a valid integer: {field}"))),
        },
    }
}

fn boolean(body: &Value, field: &'static str) -> Result<Option<bool>, ApiError> {
    match body.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(value)) => Ok(Some(*value)),
        Some(_) => Err(ApiError::bad(field, format!("Input should be a valid boolean: {field}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_api_has_its_limit() {
        let chat = json!({"messages": [{"role": "user", "content": "x"}], "max_tokens": 5, "max_completion_tokens": 7});
        assert_eq!(parse(Api::Chat, &chat).unwrap().max_tokens, Some(7));
        assert_eq!(parse(Api::Completions, &json!({"prompt": "x"})).unwrap().max_tokens, Some(16));
        assert_eq!(parse(Api::Responses, &json!({"input": "x"})).unwrap().max_tokens, None);
        let error =
            parse(Api::Messages, &json!({"messages": [{"role": "user", "content": "x"}]})).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("max_tokens"));
    }

    #[test]
    fn stream_options_want_a_stream() {
        let body = json!({"prompt": "x", "stream_options": {"include_usage": true}});
        assert_eq!(parse(Api::Completions, &body).unwrap_err().param.as_deref(), Some("stream_options"));
    }

    #[test]
    fn wrong_kinds_are_named() {
        for (field, body) in [
            ("n", json!({"prompt": "x", "n": 0})),
            ("model", json!({"prompt": "x", "model": 3})),
            ("stream", json!({"prompt": "x", "stream": "yes"})),
            ("max_tokens", json!({"prompt": "x", "max_tokens": -1})),
        ] {
            assert_eq!(parse(Api::Completions, &body).unwrap_err().param.as_deref(), Some(field));
        }
    }
}
