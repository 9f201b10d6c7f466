//! The messages of chat completions and of Anthropic's API: a role, and content of one shape or another.

use super::frame::{FIELD, MESSAGE};
use super::{Talk, part, room};
use crate::api::facts::Stop;
use crate::api::json::{Fault, Scanner, Value};

const EXPECTED: &str = "an array of messages";

/// Reads `messages`; none for `null`.
pub(super) fn messages(scan: &mut Scanner<'_>) -> Result<Option<Talk>, Stop> {
    if scan.peek() != Some(b'[') {
        let value = scan.value()?;
        return if value.is_null() { Ok(None) } else { Err(Stop::wrong("messages", EXPECTED)) };
    }
    let mut talk = Talk { bytes: Vec::with_capacity(room(scan)), users: 0 };
    scan.array::<Stop>(|scan| {
        if scan.peek() != Some(b'{') {
            scan.value()?;
            return Err(Stop::wrong("messages", EXPECTED));
        }
        Message::read(scan)?.write(&mut talk);
        Ok(())
    })?;
    Ok(Some(talk))
}

/// The members of a message that matter, wherever they stand in it.
#[derive(Default)]
pub(super) struct Message<'a> {
    role: Value<'a>,
    name: Value<'a>,
    content: Value<'a>,
    thought: Value<'a>,
    refusal: Value<'a>,
    tool_call_id: Value<'a>,
    tool_calls: Value<'a>,
    function_call: Value<'a>,
}

impl<'a> Message<'a> {
    fn read(scan: &mut Scanner<'a>) -> Result<Self, Fault> {
        let mut message = Self::default();
        scan.object::<Fault>(|scan, key| {
            let value = scan.value()?;
            match &*key.bytes() {
                b"role" => message.role = value,
                b"name" => message.name = value,
                b"content" => message.content = value,
                b"reasoning_content" | b"reasoning" if !value.is_null() => message.thought = value,
                b"refusal" => message.refusal = value,
                b"tool_call_id" => message.tool_call_id = value,
                b"tool_calls" => message.tool_calls = value,
                b"function_call" => message.function_call = value,
                _ => {}
            }
            Ok(())
        })?;
        Ok(message)
    }

    /// A message with nothing but a role and its content.
    pub(super) fn plain(role: Value<'a>, content: Value<'a>) -> Self {
        Self { role, content, ..Self::default() }
    }

    /// Appends the message.
    pub(super) fn write(&self, talk: &mut Talk) {
        let out = &mut talk.bytes;
        out.push(MESSAGE);
        let role = self.role.text().map(|role| role.bytes()).unwrap_or_default();
        out.extend_from_slice(&role);
        if let Some(name) = self.name.text() {
            out.push(FIELD);
            name.append_to(out);
        }
        part::id(self.tool_call_id, out);
        part::thought(self.thought, out);
        let said = part::content(self.content, out);
        part::refusal(self.refusal, out);
        if let Value::Array(raw) = self.tool_calls {
            let _ = Scanner::within(raw).array::<Fault>(|scan| {
                tool_call(scan.value()?, out);
                Ok(())
            });
        }
        if !self.function_call.is_null() {
            tool_call(self.function_call, out);
        }
        if *role == *b"user" && said {
            talk.users = talk.users.saturating_add(1);
        }
    }
}

/// `{id, function: {name, arguments}}`, or `{name, arguments}` as it was before tools.
fn tool_call(call: Value<'_>, out: &mut Vec<u8>) {
    let Value::Object(raw) = call else {
        return part::other(call, out);
    };
    let (mut id, mut function) = (Value::Null, Value::Null);
    let (mut name, mut arguments) = (Value::Null, Value::Null);
    let _ = Scanner::within(raw).object::<Fault>(|scan, key| {
        let value = scan.value()?;
        match &*key.bytes() {
            b"id" => id = value,
            b"function" => function = value,
            b"name" => name = value,
            b"arguments" => arguments = value,
            _ => {}
        }
        Ok(())
    });
    if let Value::Object(raw) = function {
        let _ = Scanner::within(raw).object::<Fault>(|scan, key| {
            let value = scan.value()?;
            match &*key.bytes() {
                b"name" => name = value,
                b"arguments" => arguments = value,
                _ => {}
            }
            Ok(())
        });
    }
    part::call(name, arguments, id, out);
}
