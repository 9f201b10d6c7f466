//! A configuration as a file, and the list of keys.

use std::fmt::Write;

use serde_json::{Value, json};

use super::Config;
use super::keys::{Kind, Otherwise, ROOT, Section};

/// The configuration in force as a file that reads back as the same, every default written out. It holds no
/// secrets, because it says no more of them than where they lie.
#[must_use]
pub fn print(config: &Config) -> String {
    let mut out = String::new();
    if let Ok(Value::Object(values)) = serde_json::to_value(config) {
        for key in ROOT.keys {
            match (key.kind, values.get(key.name).filter(|value| !value.is_null())) {
                (Kind::Table(section), Some(value)) => table(&mut out, section, value),
                (Kind::Tables(section), Some(Value::Array(values))) => {
                    values.iter().for_each(|value| table(&mut out, section, value));
                }
                (_, Some(value)) => line(&mut out, key.name, value),
                (_, None) => {}
            }
        }
    }
    out
}

fn table(out: &mut String, section: &Section, value: &Value) {
    out.push('\n');
    out.push_str(section.title);
    out.push('\n');
    for key in section.keys {
        if let Some(value) = value.get(key.name) {
            line(out, key.name, value);
        }
    }
}

fn line(out: &mut String, name: &str, value: &Value) {
    if !value.is_null() {
        out.push_str(name);
        out.push_str(" = ");
        literal(out, value);
        out.push('\n');
    }
}

fn literal(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => quoted(out, text),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                literal(out, item);
            }
            out.push(']');
        }
        Value::Object(entries) => {
            out.push('{');
            for (i, (key, item)) in entries.iter().filter(|(_, item)| !item.is_null()).enumerate() {
                out.push_str(if i > 0 { ", " } else { " " });
                let bare = !key.is_empty()
                    && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
                if bare {
                    out.push_str(key)
                } else {
                    quoted(out, key)
                }
                out.push_str(" = ");
                literal(out, item);
            }
            out.push_str(if entries.is_empty() { "}" } else { " }" });
        }
        // Numbers and truth values are written alike in JSON and TOML.
        other => _ = write!(out, "{other}"),
    }
}

fn quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => _ = write!(out, "\\u{:04X}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Every key, with type, default and what it does.
#[must_use]
pub fn schema() -> Value {
    let mut keys = Vec::new();
    list(&mut keys, "", &ROOT);
    Value::Array(keys)
}

fn list(keys: &mut Vec<Value>, path: &str, section: &Section) {
    for key in section.keys {
        let mut path = format!("{path}{}", key.name);
        let default = match key.otherwise {
            Otherwise::Is(default) => Value::from(default),
            Otherwise::Required | Otherwise::Nothing => Value::Null,
        };
        let required = matches!(key.otherwise, Otherwise::Required);
        keys.push(json!({
            "key": path, "type": kind(key.kind), "default": default, "required": required, "doc": key.doc,
        }));
        if let Some(below) = key.section() {
            path.push_str(if matches!(key.kind, Kind::Table(_) | Kind::Short(_) | Kind::Mode(..)) {
                "."
            } else {
                "[]."
            });
            list(keys, &path, below);
        }
    }
}

fn kind(kind: Kind) -> String {
    let words =
        |words: &[&str]| words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" | ");
    match kind {
        Kind::Text => "text".into(),
        Kind::Listen => "HOST:PORT".into(),
        Kind::Flag => "true | false".into(),
        Kind::Integer(min, max) => format!("whole number, {min} to {max}"),
        Kind::Signed(min, max) => format!("whole number, {min} to {max}"),
        Kind::Number(min, max) => format!("number, {min} to {max}"),
        Kind::Bytes(min, max) => format!("bytes, {min} to {max}; text such as \"64 MiB\" too"),
        Kind::Word(known) => words(known),
        Kind::Words(known) => format!("list of {}", words(known)),
        Kind::Mode(known, section) => {
            let keys: Vec<_> = section.keys.iter().map(|key| key.name).collect();
            format!("{}, or a table with one of {}", words(known), keys.join(", "))
        }
        Kind::Texts => "list of texts".into(),
        Kind::Map => "table of texts".into(),
        Kind::Json => "table".into(),
        Kind::Table(section) => format!("table {}", section.title),
        Kind::Tables(section) => format!("tables {}", section.title),
        Kind::Short(section) => {
            format!("`{}` or a table", section.keys.first().map_or("", |key| key.name))
        }
        Kind::Items(section) => {
            format!("list of `{}` or tables", section.keys.first().map_or("", |key| key.name))
        }
    }
}
