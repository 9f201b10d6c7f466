//! Edits of a body's top-level members that leave every other byte as the client sent it.
//!
//! Unknown fields, their order, duplicates and white space survive. A key counts however it is written
//! (`"mod\u0065l"` is `model`): what a policy or a protocol must not be told by a client cannot hide
//! behind an escape.

use bytes::Bytes;
use thiserror::Error;

use super::json::{Fault, Scanner};

/// Top-level members by which engines are steered from inside; they are never taken from a client.
pub const INTERNAL: &[&str] = &[
    "kv_transfer_params",
    "ec_transfer_params",
    "bootstrap_host",
    "bootstrap_port",
    "bootstrap_room",
    "bootstrap_pair_key",
    "disagg_prefill_dp_rank",
    "decode_tp_size",
    "data_parallel_rank",
    "routed_dp_rank",
    "disaggregated_params",
];

/// Whether a decoded key is one of [`INTERNAL`].
pub(super) fn is_internal(key: &[u8]) -> bool {
    INTERNAL.iter().any(|internal| internal.as_bytes() == key)
}

/// Why a body cannot be edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SpliceError {
    /// It is not JSON.
    #[error("not valid JSON at byte {at}: {message}")]
    NotJson {
        /// Byte offset of the fault.
        at: usize,
        /// What was expected, or what is wrong.
        message: &'static str,
    },
    /// It is JSON, but not an object.
    #[error("not a JSON object")]
    NotAnObject,
    /// A value to be set is no JSON itself.
    #[error("a value to be set is not valid JSON")]
    BadValue,
}

impl From<Fault> for SpliceError {
    fn from(fault: Fault) -> Self {
        Self::NotJson { at: fault.at, message: fault.why }
    }
}

/// Sets top-level members to raw JSON values.
///
/// The first member of a name keeps its place and gets the new value, further ones of that name go; a name
/// that the body does not have is inserted after the opening brace, in the order given.
///
/// # Errors
///
/// When the body is no JSON object, or a value is no JSON.
pub fn set(body: &Bytes, fields: &[(&str, &str)]) -> Result<Bytes, SpliceError> {
    edit(body, fields, &[])
}

/// Removes top-level members, all of each name. A body that has none of them is returned as it is.
///
/// # Errors
///
/// When the body is no JSON object.
pub fn remove(body: &Bytes, keys: &[&str]) -> Result<Bytes, SpliceError> {
    edit(body, &[], keys)
}

/// Removes everything by which engines are steered from inside: [`INTERNAL`] members, and those of the same names that
/// vLLM takes from `vllm_xargs` and from `sampling_params.extra_args`.
///
/// # Errors
///
/// When the body is no JSON object.
pub fn strip(body: &Bytes) -> Result<Bytes, SpliceError> {
    let own = |inner: &Bytes| remove(inner, INTERNAL);
    let body = within(&own(body)?, "vllm_xargs", own)?;
    within(&body, "sampling_params", |params| within(params, "extra_args", own))
}

/// Edits the object that is the value of a member.
fn within(
    body: &Bytes,
    key: &str,
    edit: impl Fn(&Bytes) -> Result<Bytes, SpliceError>,
) -> Result<Bytes, SpliceError> {
    let Some(raw) = get(body, key)?.filter(|raw| raw.starts_with('{')) else { return Ok(body.clone()) };
    let raw = Bytes::copy_from_slice(raw.as_bytes());
    let edited = edit(&raw)?;
    if edited == raw {
        return Ok(body.clone());
    }
    let edited = std::str::from_utf8(&edited).map_err(|_| SpliceError::BadValue)?;
    set(body, &[(key, edited)])
}

/// [`set`] and [`remove`] in one pass; a name in both is set.
///
/// # Errors
///
/// When the body is no JSON object, or a value is no JSON.
pub fn edit(body: &Bytes, fields: &[(&str, &str)], keys: &[&str]) -> Result<Bytes, SpliceError> {
    for (_, value) in fields {
        let mut scan = Scanner::new(value.as_bytes()).map_err(|_| SpliceError::BadValue)?;
        scan.value().and_then(|_| scan.end()).map_err(|_| SpliceError::BadValue)?;
    }
    let mut edit = Edit::new(body, fields, keys);
    let rest = walk(body, |key, at| edit.member(key, at))?;
    Ok(if edit.changed || !fields.is_empty() { edit.finish(rest).into() } else { body.clone() })
}

/// The raw JSON of a top-level member, the last one of that name.
///
/// # Errors
///
/// When the body is no JSON object.
pub fn get<'a>(body: &'a [u8], key: &str) -> Result<Option<&'a str>, SpliceError> {
    let mut found = None;
    walk(body, |name, at| {
        if name == key.as_bytes() {
            found = Some((at.value, at.end));
        }
    })?;
    // The scanner has seen that all of it is UTF-8, and values begin and end at ASCII.
    Ok(found.and_then(|(start, end)| std::str::from_utf8(body.get(start..end)?).ok()))
}

/// The raw JSON of several top-level members in one pass, in the order of `keys`; the last one of each name.
///
/// # Errors
///
/// When the body is no JSON object.
pub fn members<'a>(body: &'a [u8], keys: &[&str]) -> Result<Vec<Option<&'a str>>, SpliceError> {
    let mut found = vec![None; keys.len()];
    walk(body, |name, at| {
        for (key, place) in keys.iter().zip(&mut found) {
            if name == key.as_bytes() {
                *place = Some((at.value, at.end));
            }
        }
    })?;
    let text = |(start, end)| std::str::from_utf8(body.get(start..end)?).ok();
    Ok(found.into_iter().map(|place| place.and_then(text)).collect())
}

/// Where a member stands: its key, its value, and the first byte after it.
#[derive(Debug, Clone, Copy)]
struct At {
    key: usize,
    value: usize,
    end: usize,
}

/// Shows every top-level member and returns the offset after the opening brace.
fn walk(body: &[u8], mut member: impl FnMut(&[u8], At)) -> Result<usize, SpliceError> {
    let mut scan = Scanner::new(body)?;
    if scan.peek() != Some(b'{') {
        scan.value()?;
        scan.end()?;
        return Err(SpliceError::NotAnObject);
    }
    let open = scan.at() + 1;
    scan.object::<Fault>(|scan, key| {
        let (start, value) = (scan.key_start(), scan.at());
        scan.value()?;
        member(&key.bytes(), At { key: start, value, end: scan.at() });
        Ok(())
    })?;
    scan.end()?;
    Ok(open)
}

/// A piece of the edited body.
#[derive(Debug, Clone, Copy)]
enum Piece<'a> {
    /// These bytes of the body.
    Body(usize, usize),
    Value(&'a str),
}

/// An edit while the members go by. What stands between two kept members is what stood before the second.
struct Edit<'a> {
    body: &'a [u8],
    fields: &'a [(&'a str, &'a str)],
    keys: &'a [&'a str],
    /// Which fields have found their member.
    done: Vec<bool>,
    /// The members that are kept, each with what precedes it.
    pieces: Vec<Piece<'a>>,
    /// Up to where the body has been kept or dropped.
    passed: usize,
    /// Where the first key of the body stands.
    first: Option<usize>,
    changed: bool,
}

impl<'a> Edit<'a> {
    fn new(body: &'a [u8], fields: &'a [(&'a str, &'a str)], keys: &'a [&'a str]) -> Self {
        let done = vec![false; fields.len()];
        Self { body, fields, keys, done, pieces: Vec::new(), passed: 0, first: None, changed: false }
    }

    fn member(&mut self, name: &[u8], at: At) {
        self.first.get_or_insert(at.key);
        let field = self.fields.iter().zip(&mut self.done).find(|((key, _), _)| key.as_bytes() == name);
        let (keep, value) = match field {
            Some(((_, value), done)) => (!std::mem::replace(done, true), Some(*value)),
            None => (!self.keys.iter().any(|key| key.as_bytes() == name), None),
        };
        if keep {
            // The comma and the space before it go along, unless it is now the first.
            let start = if self.pieces.is_empty() { at.key } else { self.passed };
            self.keep(start, if value.is_some() { at.value } else { at.end });
            self.pieces.extend(value.map(Piece::Value));
        }
        self.changed |= !keep;
        self.passed = at.end;
    }

    fn keep(&mut self, start: usize, end: usize) {
        match self.pieces.last_mut() {
            Some(Piece::Body(_, last)) if *last == start => *last = end,
            _ => self.pieces.push(Piece::Body(start, end)),
        }
    }

    fn finish(self, open: usize) -> Vec<u8> {
        let slice = |start: usize, end: usize| self.body.get(start..end).unwrap_or_default();
        let added: usize = self.fields.iter().map(|(key, value)| key.len() + value.len() + 8).sum();
        let mut out = Vec::with_capacity(self.body.len() + added);
        out.extend_from_slice(slice(0, open));
        let new = self.fields.iter().zip(&self.done).filter(|(_, done)| !**done);
        let mut separate = false;
        for ((key, value), _) in new {
            if separate {
                out.push(b',');
            }
            write_key(key, &mut out);
            out.extend_from_slice(value.as_bytes());
            separate = true;
        }
        if separate && !self.pieces.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(slice(open, self.first.unwrap_or(open)));
        for piece in &self.pieces {
            out.extend_from_slice(match *piece {
                Piece::Body(start, end) => slice(start, end),
                Piece::Value(value) => value.as_bytes(),
            });
        }
        out.extend_from_slice(slice(self.passed.max(open), self.body.len()));
        out
    }
}

fn write_key(key: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in key.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.extend_from_slice(b"\":");
}

#[cfg(test)]
#[path = "splice_tests.rs"]
mod tests;
