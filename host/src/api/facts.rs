//! The facts of a request body, found in one scan.
//!
//! Where a key occurs twice the last one counts, as in the parsers of the engines. A body is refused only
//! for what routing cannot do without: it is JSON, an object, and its prompt has a shape that some engine
//! takes. Anything else that is odd (a `stream` that is no boolean, a negative `max_tokens`) is no fact,
//! and the engine's to refuse, in its own words.

use thiserror::Error;

use super::json::{Fault, Scanner, Value};
use super::prompt::{self, Draft};
use super::splice;
use crate::types::{Api, Prompt};

/// What routing knows of a body.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Facts {
    /// The model asked for; empty where the body names none.
    pub model: Box<str>,
    /// Whether a stream is asked for.
    pub stream: bool,
    /// The limit on output tokens, cut off at `u32::MAX`.
    pub max_output_tokens: Option<u32>,
    /// The canonical prompt; none where the body carries no text or tokens (`prompt_embeds`).
    pub prompt: Option<Prompt>,
    /// User messages before the last one; 0 on the first. Results of tools are no user messages.
    pub turn: u32,
    /// What keeps this request's cache apart from others'.
    pub cache_salt: Option<Box<str>>,
    /// `prompt_cache_key`, else `previous_response_id`.
    pub session: Option<Box<str>>,
    /// `previous_response_id`: an answer that the engine has kept and that this request continues.
    pub continues: Option<Box<str>>,
    /// Whether the end of the stream will carry usage: asked for, or always so in this API.
    pub include_usage: bool,
    /// Whether the body holds what [`splice::strip`] removes.
    pub internal: bool,
}

/// Why a body has no facts. Always the client's mistake.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BodyError {
    /// It is not JSON.
    #[error("the body is not valid JSON: {message} at line {line}, column {column}")]
    NotJson {
        /// Line, from one.
        line: usize,
        /// Column in characters, from one.
        column: usize,
        /// What was expected, or what is wrong.
        message: &'static str,
    },
    /// It is JSON, but not an object.
    #[error("the body must be a JSON object")]
    NotAnObject,
    /// A field that this API cannot do without.
    #[error("`{field}` is missing")]
    Missing {
        /// The field's name.
        field: &'static str,
    },
    /// A field of a type that no engine takes.
    #[error("`{field}` must be {expected}")]
    Wrong {
        /// The field's name.
        field: &'static str,
        /// What it must be, with its article.
        expected: &'static str,
    },
}

impl BodyError {
    /// The error of a fault in `body`.
    pub(super) fn of(fault: Fault, body: &[u8]) -> Self {
        let (line, column) = fault.place(body);
        Self::NotJson { line, column, message: fault.why }
    }

    /// The field that is at fault, where it is one.
    #[must_use]
    pub fn field(&self) -> Option<&'static str> {
        match self {
            Self::Missing { field } | Self::Wrong { field, .. } => Some(field),
            Self::NotJson { .. } | Self::NotAnObject => None,
        }
    }
}

/// Why a scan stopped, before the place of a fault is worked out.
#[derive(Debug)]
pub(super) enum Stop {
    Fault(Fault),
    Error(BodyError),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Stop {
    pub(super) fn wrong(field: &'static str, expected: &'static str) -> Self {
        Self::Error(BodyError::Wrong { field, expected })
    }
}

/// Reads the facts of a body of `api`.
///
/// Of [`Api::Other`] nothing is known and nothing is read: the facts are empty.
///
/// # Errors
///
/// See [`BodyError`].
pub fn parse(api: Api, body: &[u8]) -> Result<Facts, BodyError> {
    let mut found = Found::default();
    if api != Api::Other {
        scan(api, body, &mut found).map_err(|stop| match stop {
            Stop::Fault(fault) => BodyError::of(fault, body),
            Stop::Error(error) => error,
        })?;
    }
    found.into_facts(api)
}

fn scan<'a>(api: Api, body: &'a [u8], found: &mut Found<'a>) -> Result<(), Stop> {
    let mut scan = Scanner::new(body)?;
    if scan.peek() != Some(b'{') {
        scan.value()?;
        scan.end()?;
        return Err(Stop::Error(BodyError::NotAnObject));
    }
    scan.object::<Stop>(|scan, key| {
        let key = key.bytes();
        if let Some(taken) = found.draft.take(api, &key, scan) {
            return taken;
        }
        let value = scan.value()?;
        found.note(api, &key, value)
    })?;
    Ok(scan.end()?)
}

/// What a scan has met so far.
#[derive(Default)]
struct Found<'a> {
    model: Option<Box<str>>,
    stream: bool,
    usage: bool,
    /// The limits of output, the one that counts most first.
    limits: [Option<u32>; 3],
    cache_salt: Option<Box<str>>,
    cache_key: Option<Box<str>>,
    previous: Option<Box<str>>,
    internal: bool,
    draft: Draft<'a>,
}

impl<'a> Found<'a> {
    fn note(&mut self, api: Api, key: &[u8], value: Value<'a>) -> Result<(), Stop> {
        let [first, second, third] = &mut self.limits;
        match key {
            b"model" => {
                self.model = owned(value);
                if self.model.is_none() && !value.is_null() {
                    return Err(Stop::wrong("model", "a string"));
                }
            }
            b"stream" => self.stream = matches!(value, Value::Bool(true)),
            b"stream_options" => self.usage = member(value, b"include_usage").is_some_and(is_true),
            b"max_completion_tokens" => *first = value.count(),
            b"max_output_tokens" => *second = value.count(),
            b"max_tokens" => *third = value.count(),
            b"vllm_xargs" => self.internal |= holds_internal(value),
            b"sampling_params" => {
                self.internal |= member(value, b"extra_args").is_some_and(holds_internal);
                if api != Api::Generate {
                    return Ok(());
                }
                let limit = member(value, b"max_new_tokens").or_else(|| member(value, b"max_tokens"));
                *first = limit.and_then(Value::count);
            }
            b"cache_salt" => self.cache_salt = owned(value),
            b"prompt_cache_key" => self.cache_key = owned(value),
            b"previous_response_id" => {
                self.previous = owned(value);
                self.draft.note(api, key, value);
            }
            _ if splice::is_internal(key) => self.internal = true,
            _ => self.draft.note(api, key, value),
        }
        Ok(())
    }

    fn into_facts(self, api: Api) -> Result<Facts, BodyError> {
        let prompt::Finished { prompt, turn } = self.draft.finish(api)?;
        let [first, second, third] = self.limits;
        let always = matches!(api, Api::Responses | Api::Messages);
        Ok(Facts {
            model: self.model.unwrap_or_default(),
            stream: self.stream,
            max_output_tokens: first.or(second).or(third),
            prompt,
            turn,
            cache_salt: self.cache_salt,
            session: self.cache_key.or_else(|| self.previous.clone()),
            continues: self.previous,
            include_usage: always || self.usage,
            internal: self.internal,
        })
    }
}

/// A string that is not empty.
fn owned(value: Value<'_>) -> Option<Box<str>> {
    value.text().filter(|text| !text.is_empty()).map(|text| text.to_str().into())
}

fn holds_internal(value: Value<'_>) -> bool {
    splice::INTERNAL.iter().any(|key| member(value, key.as_bytes()).is_some())
}

fn is_true(value: Value<'_>) -> bool {
    matches!(value, Value::Bool(true))
}

/// The last member of that name, where `value` is an object.
pub(super) fn member<'a>(value: Value<'a>, name: &[u8]) -> Option<Value<'a>> {
    let Value::Object(raw) = value else { return None };
    let mut found = None;
    let walked = Scanner::within(raw).object::<Fault>(|scan, key| {
        let value = scan.value()?;
        if *key.bytes() == *name {
            found = Some(value);
        }
        Ok(())
    });
    walked.ok().and(found)
}

#[cfg(test)]
#[path = "facts_tests.rs"]
mod tests;
