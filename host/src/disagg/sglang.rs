//! SGLang.
//!
//! Both engines get the same body at once and meet in a room at the prefill engine's bootstrap server. A body with
//! several prompts has a room for each, as lists of equal length.

use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Ask, DialectError, Leg, Pair};
use crate::api::splice;
use crate::types::Api;

const META: &str = "meta_info";
const LOGPROBS: &str = "input_token_logprobs";

pub(super) fn both(ask: Ask<'_>) -> Result<Leg, DialectError> {
    if matches!(ask.api, Api::Embeddings | Api::Other) {
        return Err(DialectError::Api);
    }
    let Pair { prefill_host, prefill_port, room, .. } = ask.pair;
    let host = Value::from(&**prefill_host).to_string();
    let (host, port, room) = match prompts(ask)? {
        None => (host, prefill_port.to_string(), room.to_string()),
        Some(count) => (
            list(count, |_| host.clone()),
            list(count, |_| prefill_port.to_string()),
            list(count, |at| (room.wrapping_add(at) & (u64::MAX >> 1)).to_string()),
        ),
    };
    let fields = [
        ("bootstrap_host", host.as_str()),
        ("bootstrap_port", port.as_str()),
        ("bootstrap_room", room.as_str()),
    ];
    splice::set(ask.body, &fields).map(Leg::of).map_err(DialectError::Body)
}

/// How many prompts a batch has; none for a request of a single one.
fn prompts(ask: Ask<'_>) -> Result<Option<u64>, DialectError> {
    let keys: &[&str] = match ask.api {
        Api::Completions => &["prompt"],
        Api::Generate => &["text", "input_ids"],
        _ => &[],
    };
    for key in keys {
        let value = splice::get(ask.body, key).map_err(DialectError::Body)?;
        let Some(list) = value.filter(|value| value.starts_with('[')) else { continue };
        // A list of numbers is one prompt.
        let inner = list.get(1..).unwrap_or_default().trim_start();
        if inner.starts_with('"') || inner.starts_with('[') {
            let prompts: Vec<serde::de::IgnoredAny> = serde_json::from_str(list).unwrap_or_default();
            return Ok(Some(prompts.len() as u64));
        }
    }
    Ok(None)
}

/// Whether the answer of a request needs what prefill says of the prompt's log-probabilities: the decode engine has not
/// computed the prompt. Pieces of a stream are left as they are.
pub(super) fn wants_prompt(ask: Ask<'_>) -> bool {
    let is = |key: &str, wanted: fn(&str) -> bool| matches!(splice::get(ask.body, key), Ok(Some(raw)) if wanted(raw));
    ask.api == Api::Generate
        && is("return_logprob", |raw| raw.contains("true"))
        && !is("stream", |raw| raw == "true")
}

/// The answer of decode with the prompt's log-probabilities of prefill's before its own, for each item of a batch.
/// None when either is not what it should be; then decode's answer stands as it is.
pub(super) fn merged(decode: &Bytes, prefill: &Bytes) -> Option<Bytes> {
    let [decode_items, prefill_items] = [items(decode)?, items(prefill)?];
    if decode_items.len() != prefill_items.len() {
        return None;
    }
    let merged =
        decode_items.iter().zip(&prefill_items).map(|(decode, prefill)| merged_item(decode, prefill));
    let merged = merged.collect::<Option<Vec<_>>>()?;
    if !decode.trim_ascii_start().starts_with(b"[") {
        return merged.into_iter().next();
    }
    let mut out = vec![b'['];
    for (at, item) in merged.iter().enumerate() {
        out.extend_from_slice(if at > 0 { b"," } else { b"" });
        out.extend_from_slice(item);
    }
    out.push(b']');
    Some(out.into())
}

/// The objects of an answer: one, or those of a batch.
fn items(answer: &Bytes) -> Option<Vec<Bytes>> {
    if !answer.trim_ascii_start().starts_with(b"[") {
        return Some(vec![answer.clone()]);
    }
    let items: Vec<&RawValue> = serde_json::from_slice(answer).ok()?;
    Some(items.into_iter().map(|item| Bytes::copy_from_slice(item.get().as_bytes())).collect())
}

fn merged_item(decode: &Bytes, prefill: &Bytes) -> Option<Bytes> {
    let meta = |answer: &Bytes| {
        let raw = splice::get(answer, META).ok()?.filter(|raw| raw.starts_with('{'))?;
        Some(Bytes::copy_from_slice(raw.as_bytes()))
    };
    let (decode_meta, prefill_meta) = (meta(decode)?, meta(prefill)?);
    let list = |meta: &Bytes| {
        let raw = splice::get(meta, LOGPROBS).ok()?.unwrap_or("[]");
        let inner = raw.strip_prefix('[')?.strip_suffix(']')?.trim();
        Some(inner.to_owned())
    };
    let parts = [list(&prefill_meta)?, list(&decode_meta)?];
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    let all = format!("[{}]", parts.join(","));
    let meta = splice::set(&decode_meta, &[(LOGPROBS, &all)]).ok()?;
    splice::set(decode, &[(META, std::str::from_utf8(&meta).ok()?)]).ok()
}

fn list(count: u64, item: impl Fn(u64) -> String) -> String {
    let mut out = String::from("[");
    for at in 0..count {
        let comma = if at > 0 { "," } else { "" };
        // Writing to a String cannot fail.
        let _ = write!(out, "{comma}{}", item(at));
    }
    out.push(']');
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::disagg::{decode, fixtures, prefill};
    use crate::types::{Api, Dialect};

    fn leg(api: Api, body: &str) -> String {
        let body = fixtures::body(body);
        let pair = fixtures::pair();
        let ask = fixtures::ask(api, &body, &pair);
        let leg = prefill(Dialect::Sglang, ask).unwrap();
        assert_eq!(decode(Dialect::Sglang, ask, b"").unwrap(), leg);
        String::from_utf8(leg.body.to_vec()).unwrap()
    }

    #[test]
    fn both_legs_are_the_clients_body_and_a_room() {
        assert_eq!(
            leg(Api::Chat, r#"{"model":"m", "messages":[],"stream":true, "max_tokens":50}"#),
            r#"{"bootstrap_host":"10.0.0.1","bootstrap_port":8998,"bootstrap_room":42,"model":"m", "messages":[],"stream":true, "max_tokens":50}"#
        );
    }

    #[test]
    fn what_prefill_says_of_the_prompt_comes_before_what_decode_says() {
        let body = |text: &str| fixtures::body(text);
        let decode =
            body(r#"{"text":"a", "meta_info":{"id":"x","input_token_logprobs":[[-1,7,null]],"n":1}}"#);
        let prefill =
            body(r#"{"text":"","meta_info":{"input_token_logprobs":[[null,5,null],[-2.5,6,null]]}}"#);
        assert_eq!(
            super::merged(&decode, &prefill).unwrap(),
            r#"{"text":"a", "meta_info":{"id":"x","input_token_logprobs":[[null,5,null],[-2.5,6,null],[-1,7,null]],"n":1}}"#
        );
        let (many, before) = (
            body(r#"[{"meta_info":{}},{"meta_info":{}}]"#),
            body(r#"[{"meta_info":{"input_token_logprobs":[1]}}, {"meta_info":{}}]"#),
        );
        assert_eq!(
            super::merged(&many, &before).unwrap(),
            r#"[{"meta_info":{"input_token_logprobs":[1]}},{"meta_info":{"input_token_logprobs":[]}}]"#
        );
        for nonsense in ["", "[]", "{}", "[{},{}]", "oops"] {
            assert_eq!(super::merged(&decode, &body(nonsense)), None, "{nonsense}");
        }
    }

    #[test]
    fn every_prompt_of_a_batch_has_its_room() {
        let batch: Value =
            serde_json::from_str(&leg(Api::Completions, r#"{"prompt":["a","b", "c"]}"#)).unwrap();
        assert_eq!(
            batch,
            json!({"prompt":["a","b","c"],"bootstrap_host":["10.0.0.1","10.0.0.1","10.0.0.1"],
                "bootstrap_port":[8998,8998,8998],"bootstrap_room":[42,43,44]})
        );
        let ids: Value = serde_json::from_str(&leg(Api::Generate, r#"{"input_ids":[ [1,2],[3]]}"#)).unwrap();
        assert_eq!(ids["bootstrap_room"], json!([42, 43]));
        for one in [r#"{"prompt":"a"}"#, r#"{"prompt":[1,2,3]}"#] {
            let one: Value = serde_json::from_str(&leg(Api::Completions, one)).unwrap();
            assert_eq!(one["bootstrap_room"], json!(42));
        }
    }
}
