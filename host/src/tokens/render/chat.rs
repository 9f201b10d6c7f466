//! Chat completions, and what the other APIs of conversations become: messages, tools and options for a template.

use minijinja::value::{Value, ValueKind};

use super::content::{self, Members, calls};
use super::{Conversations, Prompt, tools};
use crate::tokens::NoTokens;
use crate::tokens::template::{Content, Shape, Templates};
use crate::tokens::value::{entries, flag, is_object, items, member, object, text};

/// What a client may not say to a template by `chat_template_kwargs`: it is said elsewhere, or means more than a
/// variable.
const RESERVED: &[&str] = &[
    "messages",
    "conversation",
    "tools",
    "documents",
    "chat_template",
    "tokenize",
    "tokenizer_kwargs",
    "return_dict",
    "return_tensors",
    "return_assistant_tokens_mask",
    "padding",
    "truncation",
    "max_length",
    "add_generation_prompt",
    "continue_final_message",
];

/// A conversation, ready for a template.
#[derive(Debug)]
pub(super) struct Chat {
    /// As the chat completions API has them.
    pub(super) messages: Vec<Value>,
    pub(super) tools: Option<Value>,
    pub(super) documents: Option<Value>,
    /// Variables for the template alone.
    pub(super) variables: Vec<(String, Value)>,
    /// Whether the prompt ends with the head of an answer.
    pub(super) answer: bool,
    /// Whether the last message is to be continued.
    pub(super) continues: bool,
    /// Whether the model's special tokens are put around the text.
    pub(super) special: bool,
    /// The order of a call's members, which templates may show.
    pub(super) calls: Members,
}

impl Chat {
    /// Reads the body of a chat completion.
    pub(super) fn of(body: &Value) -> Result<Self, NoTokens> {
        if member(body, "truncate_prompt_tokens").is_some() {
            return Err(NoTokens::Truncated);
        }
        if member(body, "chat_template").is_some() || member(body, "mm_processor_kwargs").is_some() {
            return Err(NoTokens::Unknown);
        }
        let messages = member(body, "messages").as_ref().and_then(items).ok_or(NoTokens::Refused)?;
        let tools = tools::of_chat(body)?;
        if tools.as_ref().is_some_and(|tools| tools.len() == Some(0)) {
            return Err(NoTokens::Refused);
        }
        Ok(Self {
            messages: messages.collect(),
            tools,
            documents: documents(body)?,
            variables: variables(body, text(body, "reasoning_effort"))?,
            answer: flag(body, "add_generation_prompt", true).ok_or(NoTokens::Refused)?,
            continues: flag(body, "continue_final_message", false).ok_or(NoTokens::Refused)?,
            special: flag(body, "add_special_tokens", false).ok_or(NoTokens::Refused)?,
            calls: Members::OfSchema,
        })
    }

    /// The text that the model's template makes of it.
    pub(super) fn render(self, conversations: &Conversations<'_>) -> Result<Prompt, NoTokens> {
        let templates = conversations.templates.ok_or(NoTokens::NoTemplate)?;
        if self.messages.is_empty() || (self.continues && self.answer) {
            return Err(NoTokens::Refused);
        }
        let with_tools = self.tools.is_some();
        let shape = templates.shape(with_tools);
        let messages = self.messages.iter().map(|raw| message(raw, shape.content, self.calls));
        let mut messages: Vec<Value> = messages.collect::<Result<_, _>>()?;
        if !shape.developer {
            developers_are_systems(&mut messages);
        }
        let special = self.special;
        let text = match self.continues {
            false => templates.render(self.for_template(messages, conversations), with_tools)?,
            true => self.continued(messages, shape, templates, conversations)?,
        };
        Ok(Prompt::Text { text, special })
    }

    fn for_template(&self, messages: Vec<Value>, conversations: &Conversations<'_>) -> Value {
        let none = || Value::from(());
        let specials = conversations
            .specials
            .iter()
            .map(|(name, content)| (Value::from(*name), content.as_str().into()));
        let own = self.variables.iter().map(|(name, value)| (Value::from(name.as_str()), value.clone()));
        let given = [
            ("messages", Value::from(messages)),
            ("tools", self.tools.clone().unwrap_or_else(none)),
            ("documents", self.documents.clone().unwrap_or_else(none)),
            ("add_generation_prompt", self.answer.into()),
        ];
        let given = given.into_iter().map(|(name, value)| (Value::from(name), value));
        Value::from_pairs(specials.chain(own).chain(given))
    }

    /// The text up to the end of the last message, found by a mark that is put behind it.
    fn continued(
        &self,
        mut messages: Vec<Value>,
        shape: &Shape,
        templates: &Templates,
        conversations: &Conversations<'_>,
    ) -> Result<String, NoTokens> {
        /// As in transformers: a template may trim the blank at its end.
        const MARK: &str = "CONTINUE_FINAL_MESSAGE_TAG ";
        let last = messages.pop().ok_or(NoTokens::Refused)?;
        let (marked, last_text) = marked(&last, MARK)?;
        messages.push(marked);
        let text = templates.render(self.for_template(messages, conversations), self.tools.is_some())?;
        if !shape.names_content || !text.contains(last_text.trim()) {
            return Err(NoTokens::Refused);
        }
        let (before, after) = text.rsplit_once(MARK.trim_end()).ok_or(NoTokens::Refused)?;
        Ok(if after.starts_with(' ') { before.to_owned() } else { before.trim_end().to_owned() })
    }
}

/// The message with a mark behind its last text, and that text.
fn marked(message: &Value, mark: &str) -> Result<(Value, String), NoTokens> {
    let content = member(message, "content").ok_or(NoTokens::Refused)?;
    let (marked, text) = match content.as_str() {
        Some(text) => (Value::from(format!("{text}{mark}")), text.to_owned()),
        None => {
            let mut parts: Vec<Value> = items(&content).ok_or(NoTokens::Refused)?.collect();
            let with_text = |part: &Value| member(part, "text").is_some();
            let at = parts.iter().rposition(with_text).ok_or(NoTokens::Refused)?;
            let part = parts.get_mut(at).ok_or(NoTokens::Refused)?;
            let text = text(part, "text").ok_or(NoTokens::Refused)?;
            *part = with(part, "text", Value::from(format!("{text}{mark}")));
            (Value::from(parts), text)
        }
    };
    Ok((with(message, "content", marked), text))
}

/// The object with another value of one member.
fn with(object: &Value, name: &str, value: Value) -> Value {
    let members = entries(object).into_iter();
    Value::from_pairs(members.map(|(key, old)| {
        let new = if key.as_str() == Some(name) { value.clone() } else { old };
        (key, new)
    }))
}

/// A message as templates see it.
fn message(raw: &Value, wanted: Content, order: Members) -> Result<Value, NoTokens> {
    let role = text(raw, "role").ok_or(NoTokens::Refused)?;
    let content = content::convert(member(raw, "content").as_ref(), &role, wanted)?;
    let mut members = vec![("role", Value::from(role.as_str())), ("content", content)];
    match role.as_str() {
        "assistant" => {
            members.extend(calls(raw, order)?.map(|calls| ("tool_calls", calls)));
            let thought = member(raw, "reasoning").or_else(|| member(raw, "reasoning_content"));
            if let Some(thought) = thought {
                let thought = thought.as_str().map(Value::from).ok_or(NoTokens::Refused)?;
                members.extend([("reasoning", thought.clone()), ("reasoning_content", thought)]);
            }
        }
        "tool" => members.extend(member(raw, "tool_call_id").map(|id| ("tool_call_id", id))),
        _ => {}
    }
    for name in ["name", "task"] {
        members.extend(text(raw, name).map(|value| (name, Value::from(value))));
    }
    if role == "developer" {
        if member(raw, "tools").is_some() {
            return Err(NoTokens::Unknown);
        }
        members.push(("tools", Value::from(())));
    }
    Ok(Value::from_pairs(members))
}

/// For templates that know no developers: their messages become the system's, and all of these one, the first.
fn developers_are_systems(messages: &mut Vec<Value>) {
    let of = |role: &'static str| move |message: &Value| text(message, "role").as_deref() == Some(role);
    if !messages.iter().any(of("developer")) {
        return;
    }
    for message in messages.iter_mut().filter(|message| of("developer")(message)) {
        let mut members = entries(message);
        members.retain(|(key, _)| key.as_str() != Some("tools"));
        *message = with(&Value::from_pairs(members), "role", "system".into());
    }
    let systems = messages.iter().filter(|message| of("system")(message)).count();
    if systems <= 1 && messages.first().is_some_and(of("system")) {
        return;
    }
    let (systems, mut others): (Vec<_>, Vec<_>) =
        messages.drain(..).partition(|message| of("system")(message));
    let contents =
        systems.iter().filter_map(|message| member(message, "content")).map(|content| one_text(&content));
    let contents: Vec<String> = contents.filter(|content| !content.is_empty()).collect();
    messages.push(object([("role", "system".into()), ("content", contents.join("\n\n").into())]));
    messages.append(&mut others);
}

fn one_text(content: &Value) -> String {
    match content.as_str() {
        Some(text) => text.to_owned(),
        None => {
            let texts = items(content).into_iter().flatten().filter_map(|part| text(&part, "text"));
            texts.collect::<Vec<_>>().join("\n")
        }
    }
}

fn documents(body: &Value) -> Result<Option<Value>, NoTokens> {
    let Some(documents) = member(body, "documents") else { return Ok(None) };
    let of_texts = |document: Value| {
        is_object(&document) && entries(&document).iter().all(|(_, value)| value.as_str().is_some())
    };
    let all = items(&documents).ok_or(NoTokens::Refused)?.all(of_texts);
    if all { Ok(Some(documents)) } else { Err(NoTokens::Refused) }
}

/// `chat_template_kwargs`, and what follows from how much is to be thought.
pub(super) fn variables(body: &Value, effort: Option<String>) -> Result<Vec<(String, Value)>, NoTokens> {
    let given = member(body, "chat_template_kwargs");
    if given.as_ref().is_some_and(|given| !is_object(given)) {
        return Err(NoTokens::Refused);
    }
    let given = given.map_or_else(Vec::new, |given| entries(&given));
    let mut variables = Vec::with_capacity(given.len() + 2);
    for (key, value) in given {
        let key = key.as_str().ok_or(NoTokens::Refused)?.to_owned();
        if RESERVED.contains(&key.as_str()) {
            return Err(NoTokens::Unknown);
        }
        variables.push((key, value));
    }
    if let Some(effort) = effort {
        variables.retain(|(key, _)| key != "reasoning_effort");
        if variables.iter().all(|(key, _)| key != "enable_thinking") {
            variables.push(("enable_thinking".into(), (effort != "none").into()));
        }
        variables.push(("reasoning_effort".into(), effort.into()));
    }
    Ok(variables)
}

/// Whether a value is an empty object, list or text, or nothing at all: what Python takes for false.
pub(super) fn empty(value: Option<&Value>) -> bool {
    value.is_none_or(|value| value.kind() == ValueKind::Undefined || !value.is_true())
}
