//! The parts of a message's content, in the words of all APIs: they differ in names, hardly in kinds.

use xxhash_rust::xxh3::xxh3_128;

use super::frame::{self, CLOSE, FIELD, OPEN, PART};
use crate::api::json::{Fault, Scanner, Value};

const TEXT: u8 = b't';
const MEDIA: u8 = b'm';
const CALL: u8 = b'c';
const RESULT: u8 = b'r';
const THOUGHT: u8 = b'h';
const OTHER: u8 = b'x';
const ID: u8 = b'i';
const REFUSAL: u8 = b'f';

/// How often the digest of an image or a sound is repeated, so that it weighs about what it costs an
/// engine: 32 bytes, taken for 8 tokens, 28 times.
///
/// Source: llm-d counts an image as 1,024 pixels a token and takes 640 × 360 where it does not know.
const MEDIA_REPEATS: usize = 28;

/// Writes a message's content, a string or a list of parts, and tells whether it holds anything but
/// results of tools.
pub(super) fn content(content: Value<'_>, out: &mut Vec<u8>) -> bool {
    parts(content, true, out)
}

/// A text; nothing at all for an empty one, which clients send or leave out as they like.
pub(super) fn text(value: Value<'_>, out: &mut Vec<u8>) {
    labelled(TEXT, value, out);
}

/// What a model thought before it answered.
pub(super) fn thought(value: Value<'_>, out: &mut Vec<u8>) {
    labelled(THOUGHT, value, out);
}

/// What a model answered instead of an answer.
pub(super) fn refusal(value: Value<'_>, out: &mut Vec<u8>) {
    labelled(REFUSAL, value, out);
}

/// An id that a message refers to.
pub(super) fn id(value: Value<'_>, out: &mut Vec<u8>) {
    labelled(ID, value, out);
}

fn labelled(kind: u8, value: Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Null => {}
        Value::Text(text) if text.is_empty() => {}
        Value::Text(text) => {
            out.extend_from_slice(&[PART, kind]);
            text.append_to(out);
        }
        other_value => other(other_value, out),
    }
}

/// A call of a tool.
pub(super) fn call(name: Value<'_>, arguments: Value<'_>, id: Value<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&[PART, CALL]);
    field(name, out);
    out.push(FIELD);
    field(arguments, out);
    out.push(FIELD);
    field(id, out);
}

/// What a tool answered.
pub(super) fn result(id: Value<'_>, content: Value<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&[PART, RESULT]);
    field(id, out);
    out.push(OPEN);
    // One level: a result within a result is an unknown part, so that the work stays linear.
    parts(content, false, out);
    out.push(CLOSE);
}

/// A part that is not known: all of it.
pub(super) fn other(value: Value<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&[PART, OTHER]);
    frame::definition(value, out);
}

fn field(value: Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Null => {}
        Value::Text(text) => text.append_to(out),
        value => {
            out.push(OPEN);
            frame::json(value, out);
            out.push(CLOSE);
        }
    }
}

fn parts(content: Value<'_>, outer: bool, out: &mut Vec<u8>) -> bool {
    let Value::Array(raw) = content else {
        text(content, out);
        return !content.is_null();
    };
    let mut said = false;
    // The slice has been scanned before: there is no fault to meet.
    let _ = Scanner::within(raw).array::<Fault>(|scan| {
        said |= part(scan.value()?, outer, out);
        Ok(())
    });
    said
}

/// The members of a part that matter.
#[derive(Default)]
struct Part<'a> {
    kind: Value<'a>,
    text: Value<'a>,
    thinking: Value<'a>,
    refusal: Value<'a>,
    id: Value<'a>,
    name: Value<'a>,
    input: Value<'a>,
    tool_use_id: Value<'a>,
    content: Value<'a>,
    media: Value<'a>,
}

/// Writes one part and tells whether it is anything but a result of a tool.
fn part(value: Value<'_>, outer: bool, out: &mut Vec<u8>) -> bool {
    let Value::Object(raw) = value else {
        text(value, out);
        return true;
    };
    let mut found = Part::default();
    let _ = Scanner::within(raw).object::<Fault>(|scan, key| {
        let value = scan.value()?;
        match &*key.bytes() {
            b"type" => found.kind = value,
            b"text" => found.text = value,
            b"thinking" => found.thinking = value,
            b"refusal" => found.refusal = value,
            b"id" => found.id = value,
            b"name" => found.name = value,
            b"input" => found.input = value,
            b"tool_use_id" => found.tool_use_id = value,
            b"content" => found.content = value,
            b"image_url" | b"input_audio" | b"audio_url" | b"video_url" | b"source" | b"file"
            | b"file_id" | b"file_data" | b"file_url" | b"image"
                if !value.is_null() =>
            {
                found.media = value;
            }
            _ => {}
        }
        Ok(())
    });
    let kind = found.kind.text().map(|kind| kind.bytes());
    match kind.as_deref() {
        Some(b"text" | b"input_text" | b"output_text" | b"summary_text" | b"reasoning_text") => {
            text(found.text, out);
        }
        Some(b"refusal") => refusal(found.refusal, out),
        Some(b"thinking") => thought(found.thinking, out),
        Some(b"tool_use") => call(found.name, found.input, found.id, out),
        Some(b"tool_result") if outer => {
            result(found.tool_use_id, found.content, out);
            return false;
        }
        None if found.media.is_null() && found.text.text().is_some() => text(found.text, out),
        kind if !found.media.is_null() => media(kind.unwrap_or_default(), found.media, out),
        _ => other(value, out),
    }
    true
}

/// An image, a sound or a file, by the digest of its data or address.
fn media(kind: &[u8], value: Value<'_>, out: &mut Vec<u8>) {
    let digest = match value {
        Value::Text(text) => xxh3_128(&text.bytes()),
        Value::Object(raw) => {
            let mut data = None;
            let _ = Scanner::within(raw).object::<Fault>(|scan, key| {
                let value = scan.value()?;
                if matches!(&*key.bytes(), b"url" | b"data" | b"file_id" | b"file_data") {
                    data = value.text().or(data);
                }
                Ok(())
            });
            data.map_or_else(|| xxh3_128(raw), |text| xxh3_128(&text.bytes()))
        }
        Value::Array(raw) | Value::Number(raw) => xxh3_128(raw),
        Value::Null | Value::Bool(_) => 0,
    };
    let digits = format!("{digest:032x}");
    out.extend_from_slice(&[PART, MEDIA]);
    out.extend_from_slice(kind);
    out.push(FIELD);
    for _ in 0..MEDIA_REPEATS {
        out.extend_from_slice(digits.as_bytes());
    }
}
