//! Anthropic's Messages API, as the chat that vLLM makes of it.

use minijinja::value::{Value, ValueKind};

use super::chat::{Chat, empty, variables};
use super::content::{BILLING, Members};
use super::{Conversations, tools};
use crate::tokens::NoTokens;
use crate::tokens::value::{items, member, object, text};

/// Reads the body of a message.
pub(super) fn chat(body: &Value, conversations: &Conversations<'_>) -> Result<Chat, NoTokens> {
    let templates = conversations.templates.ok_or(NoTokens::NoTemplate)?;
    let raw: Vec<Value> =
        member(body, "messages").as_ref().and_then(items).ok_or(NoTokens::Refused)?.collect();
    let tools = tools::of_messages(body)?;
    if tools.as_ref().is_some_and(|tools| tools.len() == Some(0)) {
        return Err(NoTokens::Unknown);
    }
    let thinking = member(body, "thinking").and_then(|thinking| text(&thinking, "type"));
    // What a model is told that is not to think is found out by the engine.
    if thinking.as_deref() == Some("disabled") && templates.shape(tools.is_some()).effort {
        return Err(NoTokens::Unknown);
    }
    let effort = member(body, "output_config").and_then(|config| text(&config, "effort"));
    Ok(Chat {
        messages: messages(body, &raw, templates.system_first())?,
        tools,
        documents: None,
        variables: variables(body, effort)?,
        answer: true,
        continues: false,
        special: false,
        calls: Members::OfSchema,
    })
}

fn messages(body: &Value, raw: &[Value], system_first: bool) -> Result<Vec<Value>, NoTokens> {
    let mut out = Vec::with_capacity(raw.len() + 1);
    let mut system = system_text(member(body, "system").as_ref())?;
    let of_system = |message: &&Value| text(message, "role").as_deref() == Some("system");
    if system_first {
        for message in raw.iter().filter(of_system) {
            system.push_str(&system_text(member(message, "content").as_ref())?);
        }
    }
    if !system.is_empty() {
        out.push(object([("role", "system".into()), ("content", system.into())]));
    }
    for message in raw {
        if of_system(&message) {
            let text = system_text(member(message, "content").as_ref())?;
            if !system_first && !text.is_empty() {
                out.push(object([("role", "system".into()), ("content", text.into())]));
            }
            continue;
        }
        convert(message, &mut out)?;
    }
    Ok(out)
}

/// The texts of a system prompt, one after the other, without the line that changes with every request.
fn system_text(content: Option<&Value>) -> Result<String, NoTokens> {
    let Some(content) = content else { return Ok(String::new()) };
    let kept = |text: &str| if text.starts_with(BILLING) { String::new() } else { text.to_owned() };
    if let Some(text) = content.as_str() {
        return Ok(kept(text));
    }
    let mut whole = String::new();
    for block in items(content).ok_or(NoTokens::Refused)? {
        match text(&block, "type").as_deref() {
            Some("text") => whole.push_str(&kept(&text(&block, "text").unwrap_or_default())),
            _ => return Err(NoTokens::Unknown),
        }
    }
    Ok(whole)
}

/// What the blocks of one message come to.
#[derive(Default)]
struct Blocks {
    texts: Vec<Value>,
    calls: Vec<Value>,
    thought: String,
    thinks: bool,
}

fn convert(message: &Value, out: &mut Vec<Value>) -> Result<(), NoTokens> {
    let role = text(message, "role").filter(|role| matches!(role.as_str(), "user" | "assistant"));
    let role = role.ok_or(NoTokens::Refused)?;
    let content = member(message, "content").ok_or(NoTokens::Refused)?;
    let mut members = vec![("role", Value::from(role.as_str()))];
    if content.as_str().is_some() {
        members.push(("content", content));
        out.push(Value::from_pairs(members));
        return Ok(());
    }
    let mut blocks = Blocks::default();
    for block in items(&content).ok_or(NoTokens::Refused)? {
        blocks.take(&block, &role, out)?;
    }
    if blocks.thinks {
        members.push(("reasoning", blocks.thought.into()));
    }
    if !blocks.calls.is_empty() {
        members.push(("tool_calls", blocks.calls.into()));
    }
    let said = !blocks.texts.is_empty();
    if said {
        let texts = blocks.texts.iter();
        let parts = texts.map(|text| object([("type", "text".into()), ("text", text.clone())]));
        members.push(("content", parts.collect()));
    }
    if said || role == "assistant" {
        out.push(Value::from_pairs(members));
    }
    Ok(())
}

impl Blocks {
    fn take(&mut self, block: &Value, role: &str, out: &mut Vec<Value>) -> Result<(), NoTokens> {
        match text(block, "type").ok_or(NoTokens::Refused)?.as_str() {
            "text" => self.texts.extend(member(block, "text").filter(|text| !empty(Some(text)))),
            "thinking" => {
                self.thought.push_str(&text(block, "thinking").unwrap_or_default());
                self.thinks |= member(block, "thinking").is_some();
            }
            "redacted_thinking" => {}
            "tool_use" => self.calls.push(call(block)?),
            "tool_result" if role == "user" => out.push(result(block)?),
            "image" => return Err(NoTokens::Media),
            _ => return Err(NoTokens::Unknown),
        }
        Ok(())
    }
}

fn call(block: &Value) -> Result<Value, NoTokens> {
    // Without an id the engine makes one up.
    let id = member(block, "id").filter(|id| !empty(Some(id))).ok_or(NoTokens::Unknown)?;
    let input = member(block, "input").unwrap_or_else(|| Value::from_pairs::<_, Value, Value>([]));
    let function = object([("name", text(block, "name").unwrap_or_default().into()), ("arguments", input)]);
    Ok(object([("id", id), ("type", "function".into()), ("function", function)]))
}

fn result(block: &Value) -> Result<Value, NoTokens> {
    let content = match member(block, "content") {
        None => String::new(),
        Some(content) => match content.as_str() {
            Some(text) => text.to_owned(),
            None => {
                let texts = items(&content).ok_or(NoTokens::Refused)?.map(|item| {
                    match text(&item, "type").as_deref() {
                        Some("text") => Ok(text(&item, "text").unwrap_or_default()),
                        Some("image") => Err(NoTokens::Media),
                        _ => Err(NoTokens::Unknown),
                    }
                });
                texts.collect::<Result<Vec<_>, _>>()?.join("\n")
            }
        },
    };
    let id = member(block, "tool_use_id").filter(|id| id.kind() == ValueKind::String);
    Ok(object([
        ("role", "tool".into()),
        ("tool_call_id", id.unwrap_or_else(|| Value::from(""))),
        ("content", content.into()),
    ]))
}
