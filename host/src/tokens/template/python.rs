//! Where Jinja in Python differs from minijinja, and what transformers adds to it.

mod json;
mod time;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Value, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State};

use crate::tokens::NoTokens;

/// Marks an error that is ours: what comes out of Python is not known, and so nothing is rendered.
const NOT_KNOWN: &str = "sluicegate cannot render this as Python does";

/// An environment with the settings, filters, tests and functions of transformers.
pub(super) fn environment() -> Environment<'static> {
    let mut env = bare();
    env.add_filter("tojson", json::filter);
    env.add_function("raise_exception", raise);
    env.add_function("strftime_now", |format: String| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        time::strftime(&format, now).ok_or_else(not_known)
    });
    env
}

/// An environment with Jinja's own filters, tests and functions.
pub(super) fn bare() -> Environment<'static> {
    let mut env = Environment::new();
    env.set_syntax(syntax());
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_formatter(format);
    env.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    env.add_test("sequence", several);
    env.add_test("iterable", several);
    // In Python truth values are numbers.
    env.add_test("number", |value: &Value| matches!(value.kind(), ValueKind::Number | ValueKind::Bool));
    env
}

/// Whether a value can be gone through. In Python text can, and nothing cannot.
fn several(value: &Value) -> bool {
    use ValueKind::{Iterable, Map, Seq, String, Undefined};
    matches!(value.kind(), Seq | Iterable | Map | String | Undefined)
}

/// The syntax of templates: lines that hold nothing but a block leave nothing behind.
pub(super) fn syntax() -> SyntaxConfig {
    SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().unwrap_or_default()
}

/// The error of what cannot be rendered faithfully.
fn not_known() -> Error {
    Error::new(ErrorKind::InvalidOperation, NOT_KNOWN)
}

/// What an error of rendering means for the request.
pub(super) fn reason(error: &Error) -> NoTokens {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.to_string().contains(NOT_KNOWN) {
            return NoTokens::Unknown;
        }
        cause = error.source();
    }
    NoTokens::Refused
}

fn raise(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

/// Writes a value as `str()` does.
fn format(out: &mut Output<'_>, _: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let written = match value.kind() {
        ValueKind::Undefined => Ok(()),
        ValueKind::String => out.write_str(value.as_str().unwrap_or_default()),
        ValueKind::Number | ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
            let mut text = String::new();
            repr(value, &mut text)?;
            out.write_str(&text)
        }
        _ => write!(out, "{value}"),
    };
    written.map_err(Error::from)
}

/// Writes a value as `repr()` does.
fn repr(value: &Value, out: &mut String) -> Result<(), Error> {
    match value.kind() {
        ValueKind::String => quoted(value.as_str().unwrap_or_default(), out),
        ValueKind::Number => {
            out.push_str(&number(value)?);
            Ok(())
        }
        // Slices of lists are iterables here, and lists in Python. What is no list there is written with its address:
        // no template does.
        ValueKind::Seq | ValueKind::Iterable => {
            if value.downcast_object_ref::<minijinja::value::Tuple>().is_some() {
                return Err(not_known());
            }
            out.push('[');
            for (at, item) in value.try_iter()?.enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                repr(&item, out)?;
            }
            out.push(']');
            Ok(())
        }
        ValueKind::Map => {
            out.push('{');
            for (at, key) in value.try_iter()?.enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                repr(&key, out)?;
                out.push_str(": ");
                repr(&value.get_item(&key)?, out)?;
            }
            out.push('}');
            Ok(())
        }
        ValueKind::None | ValueKind::Bool => {
            let _ = write!(out, "{value}");
            Ok(())
        }
        _ => Err(not_known()),
    }
}

fn quoted(text: &str, out: &mut String) -> Result<(), Error> {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            '\0'..='\x1f' | '\x7f' => _ = write!(out, "\\x{:02x}", u32::from(c)),
            ' '..='~' => out.push(c),
            // What Python takes for printable beyond ASCII follows its version's tables.
            c if c.is_alphanumeric() => out.push(c),
            _ => return Err(not_known()),
        }
    }
    out.push(quote);
    Ok(())
}

/// A number as Python writes it.
fn number(value: &Value) -> Result<String, Error> {
    if value.is_integer() {
        return Ok(value.to_string());
    }
    let float = f64::try_from(value.clone())?;
    // A whole number that was too large to be read as one, and a zero that may have been one.
    if float.abs() >= 1.8e19 && float.is_finite() || (float == 0.0 && float.is_sign_negative()) {
        return Err(not_known());
    }
    Ok(match float {
        float if float.is_nan() => "NaN".into(),
        float if float.is_infinite() => if float > 0.0 { "Infinity" } else { "-Infinity" }.into(),
        float => written(float),
    })
}

/// The shortest digits that read back as the same number; with an exponent below 1e-4 and from 1e16 on.
fn written(float: f64) -> String {
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(power @ (..=-5 | 16..)) => {
            let sign = if power < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", power.unsigned_abs())
        }
        _ => format!("{float:?}"),
    }
}

/// A template without the marks that tell training what the assistant said: nothing of them is rendered.
///
/// What they enclose has a scope of its own, as in Python.
pub(super) fn without_marks(source: &str) -> String {
    let mut out = Cow::Borrowed(source);
    for (mark, instead) in [("generation", "with"), ("endgeneration", "endwith")] {
        out = Cow::Owned(replaced(&out, mark, instead));
    }
    out.into_owned()
}

fn replaced(source: &str, mark: &str, instead: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, tag)) = rest.split_once("{%") {
        out.push_str(before);
        out.push_str("{%");
        rest = tag;
        let Some((inside, after)) = tag.split_once("%}") else { break };
        if inside.trim_matches(['-', '+', ' ', '\t', '\n', '\r']) == mark {
            out.push_str(&inside.replace(mark, instead));
            out.push_str("%}");
            rest = after;
        }
    }
    out.push_str(rest);
    out
}
