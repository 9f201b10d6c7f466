//! The canonical prompt of each API: what the chat template would make of a request's body.
//!
//! A message is a header of two tokens, its content, and an end token; the prompt ends with the assistant's header.
//! Every message starts on a token, so that a conversation that grows keeps all tokens it had.

use super::token::{Token, push_text};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

const END: Token = 0xffff_fff0;
const HEADER: Token = 0xffff_fff1;
/// Tokens of one image: 16 stands for what a small vision encoder gives.
const IMAGE_TOKENS: u32 = 16;

/// Why a body has no prompt.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PromptError {
    /// A field is absent.
    #[error("Field required: {0}")]
    Missing(&'static str),
    /// A field is there, with a value of another kind.
    #[error("Input should be {expected}: {field}")]
    Wrong {
        /// The field's name.
        field: &'static str,
        /// What was expected of it.
        expected: &'static str,
    },
    /// A prompt of no tokens.
    #[error("The prompt is empty: {0}")]
    Empty(&'static str),
}

impl PromptError {
    /// The name of the field at fault.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Missing(field) | Self::Empty(field) | Self::Wrong { field, .. } => field,
        }
    }
}

/// The prompt of `POST /v1/chat/completions`.
///
/// # Errors
/// When `messages` is absent, empty or no list.
pub fn chat(body: &Value) -> Result<Vec<Token>, PromptError> {
    let mut out = Vec::new();
    push_tools(body, &mut out);
    let list = body.get("messages").ok_or(PromptError::Missing("messages"))?;
    push_messages(list, "messages", &mut out)?;
    push_header("assistant", &mut out);
    Ok(out)
}

/// The prompt of `POST /v1/messages`.
///
/// # Errors
/// When `messages` is absent, empty or no list.
pub fn messages(body: &Value) -> Result<Vec<Token>, PromptError> {
    let mut out = Vec::new();
    push_tools(body, &mut out);
    if let Some(system) = body.get("system") {
        push_message("system", system, &mut out);
    }
    let list = body.get("messages").ok_or(PromptError::Missing("messages"))?;
    push_messages(list, "messages", &mut out)?;
    push_header("assistant", &mut out);
    Ok(out)
}

/// The prompt of `POST /v1/responses`.
///
/// # Errors
/// When `input` is absent, or neither text nor a list.
pub fn responses(body: &Value) -> Result<Vec<Token>, PromptError> {
    let mut out = Vec::new();
    push_tools(body, &mut out);
    if let Some(text @ Value::String(_)) = body.get("instructions") {
        push_message("system", text, &mut out);
    }
    match body.get("input") {
        None => return Err(PromptError::Missing("input")),
        Some(text @ Value::String(_)) => push_message("user", text, &mut out),
        Some(list) => push_messages(list, "input", &mut out)?,
    }
    push_header("assistant", &mut out);
    Ok(out)
}

/// The prompts of `POST /v1/completions` (`field` = "prompt") and `/v1/embeddings` ("input"): text, a list of texts,
/// token ids, or a list of lists of them.
///
/// # Errors
/// When the field is absent, empty, or of another kind.
pub fn completion(body: &Value, field: &'static str) -> Result<Vec<Vec<Token>>, PromptError> {
    let wrong = PromptError::Wrong { field, expected: "text, a list of texts, or token ids" };
    let prompts: Vec<Vec<Token>> = match body.get(field) {
        None | Some(Value::Null) => return Err(PromptError::Missing(field)),
        Some(Value::String(text)) => vec![plain(text)],
        Some(Value::Array(items)) => match items.first() {
            None => return Err(PromptError::Empty(field)),
            Some(Value::Number(_)) => vec![ids(items).ok_or(wrong)?],
            Some(Value::String(_)) => {
                items.iter().map(|item| item.as_str().map(plain)).collect::<Option<_>>().ok_or(wrong)?
            }
            Some(Value::Array(_)) => items
                .iter()
                .map(|item| item.as_array().and_then(|i| ids(i)))
                .collect::<Option<_>>()
                .ok_or(wrong)?,
            Some(_) => return Err(wrong),
        },
        Some(_) => return Err(wrong),
    };
    if prompts.iter().any(Vec::is_empty) { Err(PromptError::Empty(field)) } else { Ok(prompts) }
}

fn plain(text: &str) -> Vec<Token> {
    let mut out = Vec::new();
    push_text(text, &mut out);
    out
}

fn ids(items: &[Value]) -> Option<Vec<Token>> {
    items.iter().map(|item| item.as_u64().and_then(|id| Token::try_from(id).ok())).collect()
}

fn push_tools(body: &Value, out: &mut Vec<Token>) {
    if let Some(Value::Array(tools)) = body.get("tools")
        && !tools.is_empty()
    {
        push_header("tools", out);
        for tool in tools {
            push_text(&tool.to_string(), out);
        }
        out.push(END);
    }
}

fn push_messages(list: &Value, field: &'static str, out: &mut Vec<Token>) -> Result<(), PromptError> {
    let list = list.as_array().ok_or(PromptError::Wrong { field, expected: "a valid list" })?;
    if list.is_empty() {
        return Err(PromptError::Empty(field));
    }
    for message in list {
        if !message.is_object() {
            return Err(PromptError::Wrong { field, expected: "a list of objects" });
        }
        let role = message.get("role").and_then(Value::as_str).unwrap_or("tool");
        push_header(role, out);
        match message.get("content") {
            // An item of the Responses API that is no message: its call or output is its content.
            None if message.get("role").is_none() => push_text(&message.to_string(), out),
            None => {}
            Some(content) => push_content(content, out),
        }
        if let Some(calls) = message.get("tool_calls") {
            push_text(&calls.to_string(), out);
        }
        out.push(END);
    }
    Ok(())
}

fn push_message(role: &str, content: &Value, out: &mut Vec<Token>) {
    push_header(role, out);
    push_content(content, out);
    out.push(END);
}

fn push_header(role: &str, out: &mut Vec<Token>) {
    out.push(HEADER);
    out.push(xxh3_64(role.as_bytes()) as Token);
}

fn push_content(content: &Value, out: &mut Vec<Token>) {
    match content {
        Value::Null => {}
        Value::String(text) => push_text(text, out),
        Value::Array(parts) => parts.iter().for_each(|part| push_part(part, out)),
        other => push_text(&other.to_string(), out),
    }
}

fn push_part(part: &Value, out: &mut Vec<Token>) {
    if let Some(text) = part.get("text").and_then(Value::as_str) {
        push_text(text, out);
        return;
    }
    let json = part.to_string();
    match part.get("type").and_then(Value::as_str) {
        Some("image_url" | "input_image" | "image") => {
            let hash = xxh3_64(json.as_bytes()) as Token;
            out.extend((0..IMAGE_TOKENS).map(|i| hash.wrapping_add(i)));
        }
        _ => push_text(&json, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_conversation_that_grows_keeps_its_tokens() {
        let first = chat(&json!({"messages": [{"role": "user", "content": "hello there, friend"}]})).unwrap();
        let second = chat(&json!({"messages": [
            {"role": "user", "content": "hello there, friend"},
            {"role": "assistant", "content": "bab cec "},
            {"role": "user", "content": "more"},
        ]}))
        .unwrap();
        assert_eq!(second[..first.len()], first[..]);
        let mut answer = Vec::new();
        push_text("bab cec ", &mut answer);
        assert_eq!(second[first.len()..first.len() + 2], answer[..]);
    }

    #[test]
    fn parts_and_text_are_the_same_prompt() {
        let text = json!({"messages": [{"role": "user", "content": "abcd"}]});
        let parts = json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "abcd"}]}]});
        assert_eq!(chat(&text), chat(&parts));
        assert_eq!(chat(&text), responses(&json!({"input": "abcd"})));
        assert_eq!(chat(&text), messages(&text));
    }

    #[test]
    fn completion_takes_all_four_forms() {
        let of = |prompt: Value| completion(&json!({ "prompt": prompt }), "prompt").map(|p| p.len());
        assert_eq!(of(json!("abc")), Ok(1));
        assert_eq!(of(json!(["abc", "d"])), Ok(2));
        assert_eq!(of(json!([1, 2, 3])), Ok(1));
        assert_eq!(of(json!([[1, 2], [3]])), Ok(2));
        assert_eq!(of(json!([])), Err(PromptError::Empty("prompt")));
        assert!(matches!(of(json!({})), Err(PromptError::Wrong { .. })));
        assert_eq!(of(Value::Null), Err(PromptError::Missing("prompt")));
    }
}
