//! `tojson`, as transformers defines it: `json.dumps` with the letters of all languages as they are.

use std::fmt::Write as _;

use minijinja::Error;
use minijinja::value::{Kwargs, Value, ValueKind};

use super::{not_known, number};

/// How JSON is laid out.
struct Layout {
    indent: Option<usize>,
    between: String,
    colon: String,
}

/// The filter. What it is not known to do as Python does is an error.
pub(super) fn filter(value: &Value, positional: Option<Value>, options: Kwargs) -> Result<Value, Error> {
    if positional.is_some() || options.get::<Option<bool>>("sort_keys")? == Some(true) {
        return Err(not_known());
    }
    if options.get::<Option<bool>>("ensure_ascii")? == Some(true) {
        return Err(not_known());
    }
    let indent = options.get::<Option<usize>>("indent")?;
    let separators = options.get::<Option<Value>>("separators")?.filter(|value| !value.is_none());
    let (between, colon) = match separators {
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
        Some(pair) => {
            let part = |at: usize| {
                pair.get_item(&Value::from(at)).ok().and_then(|part| part.as_str().map(str::to_owned))
            };
            part(0).zip(part(1)).ok_or_else(not_known)?
        }
    };
    options.assert_all_used()?;
    let mut out = String::new();
    write(value, &Layout { indent, between, colon }, 0, &mut out)?;
    Ok(Value::from(out))
}

fn write(value: &Value, layout: &Layout, depth: usize, out: &mut String) -> Result<(), Error> {
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push_str(&number(value)?),
        ValueKind::String => string(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq | ValueKind::Iterable => {
            let mut list = List::open('[', layout, depth, out);
            for item in value.try_iter()? {
                list.next(out);
                write(&item, layout, depth + 1, out)?;
            }
            list.close(']', out);
        }
        ValueKind::Map => {
            let mut list = List::open('{', layout, depth, out);
            for key in value.try_iter()? {
                list.next(out);
                string(key.as_str().ok_or_else(not_known)?, out);
                out.push_str(&layout.colon);
                write(&value.get_item(&key)?, layout, depth + 1, out)?;
            }
            list.close('}', out);
        }
        _ => return Err(not_known()),
    }
    Ok(())
}

/// An array or object while it is written.
struct List<'l> {
    layout: &'l Layout,
    depth: usize,
    empty: bool,
}

impl<'l> List<'l> {
    fn open(bracket: char, layout: &'l Layout, depth: usize, out: &mut String) -> Self {
        out.push(bracket);
        Self { layout, depth, empty: true }
    }

    fn next(&mut self, out: &mut String) {
        if !self.empty {
            out.push_str(&self.layout.between);
        }
        self.empty = false;
        self.line(self.depth + 1, out);
    }

    fn close(&self, bracket: char, out: &mut String) {
        if !self.empty {
            self.line(self.depth, out);
        }
        out.push(bracket);
    }

    fn line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = self.layout.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent.saturating_mul(depth)));
        }
    }
}

fn string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\x1f' => _ = write!(out, "\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.push('"');
}
