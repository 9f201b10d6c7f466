//! The marks of the canonical form, and JSON values in it.
//!
//! ```text
//! prompt  := head* message*
//! head    := HEAD kind (json | part*)
//! message := MESSAGE role (FIELD name)? part*  |  MESSAGE OPEN type CLOSE part*
//! part    := PART kind content (FIELD content)* (OPEN part* CLOSE)?
//! json    := the value without white space; a string is QUOTE decoded-bytes QUOTE
//! ```
//!
//! All marks are bytes that occur in no UTF-8 text, nor in the encoding of a lone surrogate.

use crate::api::json::{Scanner, Value};

/// Before a message: its role follows.
pub(super) const MESSAGE: u8 = 0xFF;
/// Before a part: its kind follows.
pub(super) const PART: u8 = 0xFE;
/// Before a further field.
pub(super) const FIELD: u8 = 0xFD;
/// Before and after a string within JSON.
const QUOTE: u8 = 0xFC;
/// Before nested parts.
pub(super) const OPEN: u8 = 0xFB;
/// After nested parts.
pub(super) const CLOSE: u8 = 0xFA;
/// Before what precedes all messages: its kind follows.
const HEAD: u8 = 0xF9;

/// A marker of caching, which clients move from message to message.
const CACHE_CONTROL: &[u8] = b"cache_control";

/// Begins a head.
pub(super) fn open_head(kind: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&[HEAD, kind]);
}

/// A head that is a JSON value; none for `null`.
pub(super) fn head(kind: u8, value: Value<'_>, out: &mut Vec<u8>) {
    if !value.is_null() {
        open_head(kind, out);
        json(value, out);
    }
}

/// A head that is a list of definitions; none for `null` and for an empty list.
pub(super) fn tools(kind: u8, value: Value<'_>, out: &mut Vec<u8>) {
    let Value::Array(raw) = value else {
        return head(kind, value, out);
    };
    let start = out.len();
    open_head(kind, out);
    let empty = out.len();
    // The slice has been scanned before: there is no fault to meet.
    let _ = Scanner::within(raw).array::<crate::api::json::Fault>(|scan| {
        out.push(FIELD);
        definition(scan.value()?, out);
        Ok(())
    });
    if out.len() == empty {
        out.truncate(start);
    }
}

/// A value as JSON, an object without its `cache_control`.
pub(super) fn definition(value: Value<'_>, out: &mut Vec<u8>) {
    let Value::Object(raw) = value else {
        return json(value, out);
    };
    out.push(b'{');
    let _ = Scanner::within(raw).object::<crate::api::json::Fault>(|scan, key| {
        let value = scan.value()?;
        if *key.bytes() != *CACHE_CONTROL {
            string(Value::Text(key), out);
            json(value, out);
        }
        Ok(())
    });
    out.push(b'}');
}

fn string(value: Value<'_>, out: &mut Vec<u8>) {
    if let Value::Text(text) = value {
        out.push(QUOTE);
        text.append_to(out);
        out.push(QUOTE);
    }
}

/// A value as canonical JSON.
pub(super) fn json(value: Value<'_>, out: &mut Vec<u8>) {
    let raw = match value {
        Value::Null => b"null".as_slice(),
        Value::Bool(true) => b"true",
        Value::Bool(false) => b"false",
        Value::Number(raw) | Value::Array(raw) | Value::Object(raw) => raw,
        Value::Text(_) => return string(value, out),
    };
    let mut rest = raw;
    while let Some(byte) = rest.first() {
        match byte {
            b'"' => {
                let mut scan = Scanner::within(rest);
                let Ok(value) = scan.value() else { return };
                string(value, out);
                rest = rest.get(scan.at()..).unwrap_or_default();
                continue;
            }
            b' ' | b'\n' | b'\r' | b'\t' => {}
            other => out.push(*other),
        }
        rest = rest.get(1..).unwrap_or_default();
    }
}
