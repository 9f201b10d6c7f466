//! The input of the Responses API: a text, or items of several kinds.

use super::chat::Message;
use super::frame::{CLOSE, MESSAGE, OPEN};
use super::{Talk, part, room};
use crate::api::facts::Stop;
use crate::api::json::{Fault, Scanner, Value};

const EXPECTED: &str = "a string or an array of items";

/// Reads `input`; none for `null`.
pub(super) fn input(scan: &mut Scanner<'_>) -> Result<Option<Talk>, Stop> {
    let mut talk = Talk { bytes: Vec::with_capacity(room(scan)), users: 0 };
    match scan.peek() {
        Some(b'[') => scan.array::<Stop>(|scan| item(scan.value()?, &mut talk))?,
        _ => match scan.value()? {
            Value::Null => return Ok(None),
            text @ Value::Text(_) => Message::plain(user()?, text).write(&mut talk),
            _ => return Err(Stop::wrong("input", EXPECTED)),
        },
    }
    Ok(Some(talk))
}

fn user() -> Result<Value<'static>, Fault> {
    Scanner::within(br#""user""#).value()
}

/// The members of an item that matter.
#[derive(Default)]
struct Item<'a> {
    kind: Value<'a>,
    role: Value<'a>,
    content: Value<'a>,
    summary: Value<'a>,
    encrypted: Value<'a>,
    name: Value<'a>,
    arguments: Value<'a>,
    call_id: Value<'a>,
    output: Value<'a>,
}

fn item(value: Value<'_>, talk: &mut Talk) -> Result<(), Stop> {
    let Value::Object(raw) = value else {
        return Err(Stop::wrong("input", EXPECTED));
    };
    let mut item = Item::default();
    Scanner::within(raw).object::<Fault>(|scan, key| {
        let value = scan.value()?;
        match &*key.bytes() {
            b"type" => item.kind = value,
            b"role" => item.role = value,
            b"content" => item.content = value,
            b"summary" => item.summary = value,
            b"encrypted_content" => item.encrypted = value,
            b"name" => item.name = value,
            b"arguments" | b"input" => item.arguments = value,
            b"call_id" => item.call_id = value,
            b"output" => item.output = value,
            _ => {}
        }
        Ok(())
    })?;
    let kind = item.kind.text().map(|kind| kind.bytes()).unwrap_or_default();
    if kind.is_empty() || *kind == *b"message" {
        Message::plain(item.role, item.content).write(talk);
        return Ok(());
    }
    let out = &mut talk.bytes;
    out.extend_from_slice(&[MESSAGE, OPEN]);
    out.extend_from_slice(&kind);
    out.push(CLOSE);
    match &*kind {
        b"function_call" | b"custom_tool_call" => part::call(item.name, item.arguments, item.call_id, out),
        b"function_call_output" | b"custom_tool_call_output" => part::result(item.call_id, item.output, out),
        b"reasoning" => {
            part::content(item.summary, out);
            part::content(item.content, out);
            part::id(item.encrypted, out);
        }
        _ => part::other(value, out),
    }
    Ok(())
}
