//! The Responses API, as the chat that vLLM makes of it. What a response continues is the engine's to know.

use minijinja::value::Value;

use super::chat::{Chat, variables};
use super::content::Members;
use super::tools;
use crate::tokens::NoTokens;
use crate::tokens::value::{entries, items, member, object, text};

/// Reads the body of a response.
pub(super) fn chat(body: &Value) -> Result<Chat, NoTokens> {
    if ["previous_response_id", "conversation", "prompt", "previous_input_messages"]
        .iter()
        .any(|field| member(body, field).is_some())
    {
        return Err(NoTokens::Unknown);
    }
    if text(body, "truncation").is_some_and(|truncation| truncation != "disabled") {
        return Err(NoTokens::Truncated);
    }
    let input = member(body, "input").ok_or(NoTokens::NoPrompt)?;
    let mut messages = Vec::new();
    if let Some(instructions) = text(body, "instructions").filter(|text| !text.is_empty()) {
        messages.push(object([("role", "system".into()), ("content", instructions.into())]));
    }
    let mut continues = false;
    if input.as_str().is_some() {
        messages.push(object([("role", "user".into()), ("content", input)]));
    } else {
        for item in items(&input).ok_or(NoTokens::Refused)? {
            take(&item, &mut messages)?;
            continues = matches!(text(&item, "status").as_deref(), Some("in_progress" | "incomplete"))
                && matches!(text(&item, "type").as_deref(), None | Some("message" | "reasoning"));
        }
    }
    let effort = member(body, "reasoning").and_then(|reasoning| text(&reasoning, "effort"));
    Ok(Chat {
        messages,
        tools: tools::of_responses(body)?,
        documents: None,
        variables: variables(body, effort)?,
        answer: !continues,
        continues,
        // Other than with chat completions.
        special: true,
        calls: Members::AsMade,
    })
}

/// Appends an item, or makes it part of the assistant's message before it.
fn take(item: &Value, messages: &mut Vec<Value>) -> Result<(), NoTokens> {
    let kind = text(item, "type");
    let role = text(item, "role");
    match (kind.as_deref(), role.as_deref()) {
        (Some("function_call"), _) => {
            if member(item, "namespace").is_some() {
                return Err(NoTokens::Unknown);
            }
            let said = |name| member(item, name).ok_or(NoTokens::Refused);
            let function = object([("name", said("name")?), ("arguments", said("arguments")?)]);
            let call =
                object([("id", said("call_id")?), ("function", function), ("type", "function".into())]);
            let calls = member(&last_assistant(messages), "tool_calls");
            let mut calls: Vec<Value> = calls.as_ref().and_then(items).into_iter().flatten().collect();
            calls.push(call);
            set_or_push(messages, "tool_calls", Value::from(calls), false);
        }
        (Some("function_call_output"), _) => {
            let content = member(item, "output").unwrap_or(Value::from(()));
            let id = member(item, "call_id").unwrap_or(Value::from(()));
            messages.push(object([("role", "tool".into()), ("content", content), ("tool_call_id", id)]));
        }
        (Some("reasoning"), _) => {
            if member(item, "encrypted_content").is_some() {
                return Err(NoTokens::Unknown);
            }
            let first =
                |field| member(item, field).as_ref().and_then(items).and_then(|mut parts| parts.next());
            let thought = first("content").or_else(|| first("summary")).and_then(|part| text(&part, "text"));
            set_or_push(messages, "reasoning", thought.unwrap_or_default().into(), true);
        }
        (None | Some("message"), Some("assistant")) => {
            let content = member(item, "content").ok_or(NoTokens::Refused)?;
            let said = match content.as_str() {
                Some(text) => text.to_owned(),
                None => {
                    let first =
                        items(&content).and_then(|mut parts| parts.next()).ok_or(NoTokens::Refused)?;
                    text(&first, "text").ok_or(NoTokens::Unknown)?
                }
            };
            set_or_push(messages, "content", said.into(), true);
        }
        (None | Some("message"), Some("user" | "system" | "developer")) => messages.push(item.clone()),
        _ => return Err(NoTokens::Unknown),
    }
    Ok(())
}

/// The last message if it is the assistant's.
fn last_assistant(messages: &[Value]) -> Value {
    let last = messages.last().filter(|message| text(message, "role").as_deref() == Some("assistant"));
    last.cloned().unwrap_or_default()
}

/// Gives the assistant's last message a member; where there is none, or it has that member already and `keep`, a
/// new message.
fn set_or_push(messages: &mut Vec<Value>, name: &str, value: Value, keep: bool) {
    let last = last_assistant(messages);
    let taken = keep && member(&last, name).is_some();
    let fits = !(last.is_undefined() || taken);
    let mut members = if fits { entries(&last) } else { vec![("role".into(), "assistant".into())] };
    if fits {
        messages.pop();
    }
    members.retain(|(key, _)| key.as_str() != Some(name));
    members.push((name.into(), value));
    messages.push(Value::from_pairs(members));
}
