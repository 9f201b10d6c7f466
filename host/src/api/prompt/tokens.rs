//! Prompts that are no conversation: a text, texts, token ids, lists of token ids.

use super::frame::{self, MESSAGE};
use crate::api::facts::Stop;
use crate::api::json::{Scanner, Value};
use crate::types::Prompt;

const EXPECTED: &str = "a string, an array of strings, token ids or arrays of token ids";

/// The prompt, or the first of several; none for `null`.
pub(super) fn first(field: &'static str, scan: &mut Scanner<'_>) -> Result<Option<Prompt>, Stop> {
    read(field, scan, false)
}

/// All prompts, one after the other; none for `null`.
pub(super) fn all(field: &'static str, scan: &mut Scanner<'_>) -> Result<Option<Prompt>, Stop> {
    read(field, scan, true)
}

fn read(field: &'static str, scan: &mut Scanner<'_>, all: bool) -> Result<Option<Prompt>, Stop> {
    if scan.peek() != Some(b'[') {
        return match scan.value()? {
            Value::Null => Ok(None),
            Value::Text(text) => Ok(Some(Prompt::Text(text.bytes().into_owned()))),
            // A text with images beside it, as llama.cpp takes one.
            object @ Value::Object(_) => {
                let mut bytes = vec![MESSAGE];
                frame::json(object, &mut bytes);
                Ok(Some(Prompt::Text(bytes)))
            }
            _ => Err(Stop::wrong(field, EXPECTED)),
        };
    }
    let mut list = List { field, all, found: None, several: false };
    scan.array::<Stop>(|scan| list.item(scan))?;
    Ok(Some(list.found.unwrap_or(Prompt::Text(Vec::new()))))
}

/// A list while it is read.
struct List {
    field: &'static str,
    all: bool,
    found: Option<Prompt>,
    /// Whether the items are prompts, and not the tokens of one.
    several: bool,
}

impl List {
    fn item(&mut self, scan: &mut Scanner<'_>) -> Result<(), Stop> {
        if let Some(Prompt::Tokens(ids)) = &mut self.found
            && !self.several
            && let Some(id) = scan.small()
        {
            ids.push(id);
            return Ok(());
        }
        let nested = scan.peek() == Some(b'[');
        if nested && self.takes_more() {
            let mut ids = Vec::new();
            let field = self.field;
            scan.array::<Stop>(|scan| {
                ids.push(match scan.small() {
                    Some(id) => id,
                    None => id(field, scan.value()?)?,
                });
                Ok(())
            })?;
            match &mut self.found {
                Some(Prompt::Tokens(before)) => before.extend_from_slice(&ids),
                Some(Prompt::Text(_)) => return Err(Stop::wrong(field, EXPECTED)),
                None => self.found = Some(Prompt::Tokens(ids)),
            }
            self.several = true;
            return Ok(());
        }
        let value = scan.value()?;
        match (value, &mut self.found) {
            (Value::Number(_), Some(Prompt::Tokens(ids))) if !self.several => {
                ids.push(id(self.field, value)?)
            }
            (Value::Number(_), None) => {
                let mut ids = Vec::with_capacity(64);
                ids.push(id(self.field, value)?);
                self.found = Some(Prompt::Tokens(ids));
            }
            (Value::Text(text), None) => {
                self.found = Some(Prompt::Text(text.bytes().into_owned()));
                self.several = true;
            }
            (Value::Text(text), Some(Prompt::Text(bytes))) if self.all => {
                bytes.push(MESSAGE);
                text.append_to(bytes);
            }
            // The items after the first of several, and what only llama.cpp takes: texts among token ids.
            (Value::Text(_) | Value::Array(_) | Value::Object(_) | Value::Number(_), Some(_)) => {}
            (Value::Object(_), None) => {
                let mut bytes = vec![MESSAGE];
                frame::json(value, &mut bytes);
                self.found = Some(Prompt::Text(bytes));
                self.several = true;
            }
            _ => return Err(Stop::wrong(self.field, EXPECTED)),
        }
        Ok(())
    }

    fn takes_more(&self) -> bool {
        self.found.is_none() || self.all
    }
}

/// One token id.
fn id(field: &'static str, value: Value<'_>) -> Result<u32, Stop> {
    let Value::Number(digits) = value else { return Err(Stop::wrong(field, EXPECTED)) };
    let mut id: u64 = 0;
    for digit in digits {
        match digit {
            b'0'..=b'9' => id = (id * 10 + u64::from(digit - b'0')).min(u64::from(u32::MAX) + 1),
            _ => return Err(Stop::wrong(field, EXPECTED)),
        }
    }
    u32::try_from(id).map_err(|_| Stop::wrong(field, EXPECTED))
}
