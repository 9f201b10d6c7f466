//! One event of a stream, or one answer: does it hold content, does it end the stream, what usage does
//! it tell.
//!
//! The APIs need not be told apart here: their members have different names.

use super::tokens::Tokens;
use crate::api::facts::member;
use crate::api::json::{Fault, Scanner, Value};

/// What an event says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// Whether it holds a piece of the model's answer.
    pub content: bool,
    /// Whether it is the stream's last.
    pub ends: bool,
    pub tokens: Tokens,
}

/// What the name of an event tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Name {
    /// It has none.
    #[default]
    None,
    /// A piece of the answer.
    Delta,
    /// The end of the stream.
    End,
    /// Neither.
    Other,
}

impl Name {
    pub(super) fn of(name: &[u8]) -> Self {
        match name {
            b"response.completed" | b"response.incomplete" | b"response.failed" | b"message_stop" => {
                Self::End
            }
            b"content_block_delta" => Self::Delta,
            name if name.starts_with(b"response.") && name.ends_with(b".delta") => Self::Delta,
            _ => Self::Other,
        }
    }
}

impl Event {
    /// Reads an event's data; `name` is what its `event:` line said.
    pub(super) fn read(data: &[u8], name: Name) -> Self {
        if data.trim_ascii() == b"[DONE]" {
            return Self { ends: true, ..Self::default() };
        }
        Self::walk(data, name).0
    }

    /// An event of which only the beginning and the end are left.
    pub(super) fn cut(head: &[u8], end: &[u8], name: Name) -> Self {
        let (mut event, name) = Self::walk(head, name);
        // So much without a name is a piece of the answer; what has a name says so.
        event.content |= name == Name::None;
        event.tokens.update(Tokens::search(head));
        event.tokens.update(Tokens::search(end));
        event
    }

    /// Reads as far as the data is JSON.
    fn walk(data: &[u8], mut name: Name) -> (Self, Name) {
        let mut event = Self::default();
        let mut content = false;
        // Where the data ends too early, what was found before it still holds.
        let _ = Scanner::within(data).object::<Fault>(|scan, key| {
            let key = key.bytes();
            if *key == *b"choices" && scan.peek() == Some(b'[') {
                return scan.array(|scan| {
                    content |= choice(scan)?;
                    Ok(())
                });
            }
            let value = scan.value()?;
            match &*key {
                b"type" => {
                    if let Some(kind) = value.text() {
                        name = Name::of(&kind.bytes());
                    }
                }
                b"text" | b"output_ids" | b"token_ids" => content |= says(value),
                b"usage" | b"meta_info" => event.tokens.update(Tokens::read(value)),
                b"timings" => event.tokens.update(Tokens::timings(value)),
                b"response" | b"message" => {
                    if let Some(usage) = member(value, b"usage") {
                        event.tokens.update(Tokens::read(usage));
                    }
                }
                _ => {}
            }
            Ok(())
        });
        event.content = content || name == Name::Delta;
        event.ends = name == Name::End;
        (event, name)
    }
}

/// Whether a value is a text or a list with something in it, or an object.
fn says(value: Value<'_>) -> bool {
    match value {
        Value::Text(text) => !text.is_empty(),
        Value::Array(raw) => raw.len() > 2,
        Value::Object(_) => true,
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Whether a choice holds a piece of the answer.
fn choice(scan: &mut Scanner<'_>) -> Result<bool, Fault> {
    any(scan, |key, scan| match key {
        b"delta" | b"message" => delta(scan),
        b"text" | b"token_ids" => Ok(says(scan.value()?)),
        _ => scan.value().map(|_| false),
    })
}

fn delta(scan: &mut Scanner<'_>) -> Result<bool, Fault> {
    any(scan, |key, scan| {
        let value = scan.value()?;
        Ok(match key {
            b"content" | b"reasoning_content" | b"reasoning" | b"refusal" | b"tool_calls"
            | b"function_call" | b"audio" => says(value),
            _ => false,
        })
    })
}

/// Whether a member of the object that comes next passes the test, which takes its value.
fn any<'a>(
    scan: &mut Scanner<'a>,
    mut test: impl FnMut(&[u8], &mut Scanner<'a>) -> Result<bool, Fault>,
) -> Result<bool, Fault> {
    if scan.peek() != Some(b'{') {
        return scan.value().map(|_| false);
    }
    let mut found = false;
    scan.object::<Fault>(|scan, key| {
        found |= test(&key.bytes(), scan)?;
        Ok(())
    })?;
    Ok(found)
}
