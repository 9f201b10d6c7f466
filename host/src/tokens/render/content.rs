//! A message's content: texts in one or another shape, as one text or as a list of parts.

use minijinja::value::Value;

use crate::tokens::NoTokens;
use crate::tokens::template::Content;
use crate::tokens::value::{entries, is_object, items, member, object, text};

/// Members of a part that are read, or belong to parts of other kinds; the rest goes to the template.
const KNOWN: &[&str] = &[
    "type",
    "text",
    "refusal",
    "thinking",
    "closed",
    "uuid",
    "name",
    "image_url",
    "input_audio",
    "file",
    "data",
    "cache_control",
    "prompt_cache_breakpoint",
];
const MEDIA: &[&str] = &[
    "image_url",
    "input_image",
    "image_embeds",
    "image_pil",
    "image",
    "audio_url",
    "input_audio",
    "audio_embeds",
    "video_url",
    "video_embeds",
    "input_file",
    "file",
    "document",
];
/// Claude Code puts a line that changes with every request before its system prompt; vLLM takes it out.
pub(super) const BILLING: &str = "x-anthropic-billing-header";

/// A text of a message, with what else its part says.
struct Part {
    text: String,
    more: Vec<(Value, Value)>,
}

/// The content of a message for a template.
pub(super) fn convert(content: Option<&Value>, role: &str, wanted: Content) -> Result<Value, NoTokens> {
    let mut parts = match content {
        None => Vec::new(),
        Some(content) => match content.as_str() {
            Some(text) => vec![Part { text: text.to_owned(), more: Vec::new() }],
            None => items(content)
                .ok_or(NoTokens::Refused)?
                .filter_map(|part| part_of(&part).transpose())
                .collect::<Result<_, _>>()?,
        },
    };
    if role == "system" {
        parts.retain_mut(|part| without_billing(&mut part.text));
    }
    // Most templates know the results of tools as text only, and vLLM sees to it.
    if wanted == Content::Text || role == "tool" {
        let texts: Vec<&str> = parts.iter().map(|part| &*part.text).collect();
        return Ok(Value::from(texts.join("\n")));
    }
    let parts = parts.into_iter().map(|part| {
        let own = [("type".into(), "text".into()), ("text".into(), Value::from(part.text))];
        Value::from_pairs::<_, Value, Value>(own.into_iter().chain(part.more))
    });
    Ok(parts.collect())
}

/// The text of a part; none for one without, which is left out.
fn part_of(part: &Value) -> Result<Option<Part>, NoTokens> {
    if let Some(text) = part.as_str() {
        return Ok(Some(Part { text: text.to_owned(), more: Vec::new() }));
    }
    if !is_object(part) {
        return Err(NoTokens::Refused);
    }
    let kind = text(part, "type").ok_or(NoTokens::Unknown)?;
    let (field, may_lack) = match &*kind {
        "text" => ("text", true),
        "refusal" => ("refusal", true),
        "input_text" | "output_text" => ("text", false),
        "thinking" => ("thinking", false),
        kind if MEDIA.contains(&kind) => return Err(NoTokens::Media),
        "prompt_embeds" => return Err(NoTokens::Embeddings),
        _ => return Err(NoTokens::Unknown),
    };
    if member(part, "uuid").is_some() {
        return Err(NoTokens::Unknown);
    }
    let more =
        entries(part).into_iter().filter(|(key, _)| !KNOWN.contains(&key.as_str().unwrap_or_default()));
    match member(part, field) {
        None if may_lack => Ok(None),
        Some(found) => match found.as_str() {
            Some(found) => Ok(Some(Part { text: found.to_owned(), more: more.collect() })),
            None => Err(NoTokens::Refused),
        },
        None => Err(NoTokens::Refused),
    }
}

/// Takes out the billing line; false when nothing is left.
fn without_billing(text: &mut String) -> bool {
    if text.starts_with(BILLING) {
        *text = text.split_once('\n').map_or("", |(_, rest)| rest).to_owned();
        return !text.is_empty();
    }
    true
}

/// In which order vLLM has the members of a call's function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Members {
    /// That of the API's schema, through which the message went: arguments, then the name.
    OfSchema,
    /// That in which it was put together: the name, then arguments.
    AsMade,
}

/// The calls of an assistant's message; none without any. Arguments are objects for templates, texts in the API.
pub(super) fn calls(message: &Value, order: Members) -> Result<Option<Value>, NoTokens> {
    let Some(calls) = member(message, "tool_calls") else { return Ok(None) };
    let calls = items(&calls).ok_or(NoTokens::Refused)?.map(|call| {
        if member(&call, "type").is_some_and(|kind| kind.as_str() != Some("function")) {
            return Err(NoTokens::Refused);
        }
        let function = member(&call, "function").filter(is_object).ok_or(NoTokens::Refused)?;
        let name =
            member(&function, "name").filter(|name| name.as_str().is_some()).ok_or(NoTokens::Refused)?;
        let arguments = arguments(member(&function, "arguments"))?;
        let id = member(&call, "id").filter(|id| id.as_str().is_some()).ok_or(NoTokens::Refused)?;
        let function = match order {
            Members::OfSchema => object([("arguments", arguments), ("name", name)]),
            Members::AsMade => object([("name", name), ("arguments", arguments)]),
        };
        Ok(object([("id", id), ("function", function), ("type", "function".into())]))
    });
    let calls: Vec<Value> = calls.collect::<Result<_, _>>()?;
    Ok(if calls.is_empty() { None } else { Some(Value::from(calls)) })
}

/// Arguments as an object; what is none, or no JSON, is an empty one.
fn arguments(given: Option<Value>) -> Result<Value, NoTokens> {
    let given = given.unwrap_or_else(|| Value::from(""));
    let parsed: Value = match given.as_str() {
        Some(text) => match serde_json::from_str(text) {
            Ok(parsed) => parsed,
            Err(_) if python_may_read(text) => return Err(NoTokens::Unknown),
            Err(_) => Value::UNDEFINED,
        },
        None => given.clone(),
    };
    Ok(if is_object(&parsed) { parsed } else { Value::from_pairs::<_, Value, Value>([]) })
}

/// Whether Python's parser may read what this one does not: NaN and infinity, halves of surrogate pairs, and depth.
fn python_may_read(text: &str) -> bool {
    /// The depth to which text is parsed here.
    const DEPTH: usize = 128;
    let open = text.bytes().filter(|byte| matches!(byte, b'{' | b'[')).count();
    open >= DEPTH || ["NaN", "Infinity", "\\u"].iter().any(|only| text.contains(only))
}
