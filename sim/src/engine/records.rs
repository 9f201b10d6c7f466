//! What was asked of the engine, for whoever tests a router against it.

use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::VecDeque;
use xxhash_rust::xxh3::xxh3_64;

/// Longest body kept as text, in bytes.
const BODY_LIMIT: usize = 64 << 10;

/// One request to an inference path.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Record {
    /// Counts from 0.
    pub(super) number: u64,
    /// Milliseconds from the engine's start.
    pub(super) at_ms: u64,
    pub(super) method: String,
    pub(super) path: String,
    /// A header that came twice has both values, joined by a comma.
    pub(super) headers: Map<String, Value>,
    pub(super) body_bytes: usize,
    /// XXH3 of the body, as 16 hex digits.
    pub(super) body_hash: String,
    /// The body as it came; absent when longer than 64 KiB or no UTF-8.
    pub(super) body: Option<String>,
    pub(super) model: Option<String>,
    pub(super) stream: bool,
    pub(super) prompt_tokens: usize,
    pub(super) cached_tokens: usize,
    pub(super) output_tokens: usize,
    pub(super) kv_transfer_params: Option<Value>,
    /// `running`, `finished`, `aborted`, `fault`, or `error` and the status.
    pub(super) outcome: String,
}

/// The last requests.
#[derive(Debug)]
pub(super) struct Records {
    kept: VecDeque<Record>,
    keep: usize,
    received: u64,
}

impl Records {
    pub(super) const fn new(keep: usize) -> Self {
        Self { kept: VecDeque::new(), keep, received: 0 }
    }

    /// Notes a request and returns its number.
    pub(super) fn add(&mut self, at_ms: u64, head: &http::request::Parts, body: &[u8]) -> u64 {
        let number = self.received;
        self.received += 1;
        let mut headers: Map<String, Value> = Map::new();
        for (name, value) in &head.headers {
            let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
            match headers.get_mut(name.as_str()) {
                Some(Value::String(known)) => {
                    known.push_str(", ");
                    known.push_str(&text);
                }
                _ => {
                    headers.insert(name.as_str().to_owned(), Value::String(text));
                }
            }
        }
        if self.kept.len() >= self.keep {
            self.kept.pop_front();
        }
        let kept_body = if body.len() <= BODY_LIMIT { std::str::from_utf8(body).ok() } else { None };
        self.kept.push_back(Record {
            number,
            at_ms,
            method: head.method.to_string(),
            path: head.uri.path_and_query().map_or_else(String::new, ToString::to_string),
            headers,
            body_bytes: body.len(),
            body_hash: format!("{:016x}", xxh3_64(body)),
            body: kept_body.map(str::to_owned),
            model: None,
            stream: false,
            prompt_tokens: 0,
            cached_tokens: 0,
            output_tokens: 0,
            kv_transfer_params: None,
            outcome: "running".into(),
        });
        number
    }

    /// Changes the record of that number, if it is still kept.
    pub(super) fn update(&mut self, number: u64, change: impl FnOnce(&mut Record)) {
        let first = self.kept.front().map_or(0, |record| record.number);
        let at = usize::try_from(number.wrapping_sub(first)).unwrap_or(usize::MAX);
        if let Some(record) = self.kept.get_mut(at) {
            change(record);
        }
    }

    pub(super) const fn received(&self) -> u64 {
        self.received
    }

    pub(super) const fn kept(&self) -> &VecDeque<Record> {
        &self.kept
    }

    /// Forgets all requests, but goes on counting.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
    }
}
