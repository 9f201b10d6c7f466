//! What the tests of all dialects begin with.

use bytes::Bytes;

use super::{Ask, Pair};
use crate::types::Api;

pub(super) fn body(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

pub(super) fn pair() -> Pair {
    Pair {
        prefill_host: "10.0.0.1".into(),
        prefill_port: 8_998,
        decode_host: "10.0.0.2".into(),
        decode_port: 8_999,
        room: 42,
        engine_id: "engine-1".into(),
    }
}

pub(super) fn ask<'a>(api: Api, body: &'a Bytes, pair: &'a Pair) -> Ask<'a> {
    Ask { api, body, pair }
}
