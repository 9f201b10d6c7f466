//! TensorRT-LLM.
//!
//! The context leg answers with the first token and an opaque state in `choices[0].disaggregated_params`; the
//! generation leg gets that object back, and the prompt's ids, so that the text is not tokenized twice.

use serde_json::Value;
use serde_json::json;

use super::{Ask, DialectError, Leg, one_token};
use crate::api::{SpliceError, splice};
use crate::types::Api;
use bytes::Bytes;

const PARAMS: &str = "disaggregated_params";

/// Ids of a router begin here; those below are the engines' own.
///
/// Source: AIBrix, whose ids have 41 bits of time above 22 others and must reach 2^42.
const FIRST_ID: u64 = 1 << 42;

pub(super) fn prefill(ask: Ask<'_>) -> Result<Leg, DialectError> {
    if !matches!(ask.api, Api::Chat | Api::Completions) {
        return Err(DialectError::Api);
    }
    let params = json!({"request_type": "context_only", "disagg_request_id": FIRST_ID | ask.pair.room});
    let params = params.to_string();
    let fields = [(PARAMS, params.as_str()), ("stream", "false")];
    splice::edit(ask.body, &fields, &["stream_options"]).map(Leg::of).map_err(DialectError::Body)
}

pub(super) fn decode(ask: Ask<'_>, answer: &[u8]) -> Result<Leg, DialectError> {
    let choice = first_choice(answer)?;
    let reason: Option<Value> =
        member(choice, "finish_reason")?.and_then(|raw| serde_json::from_str(raw).ok());
    if let Some(reason) = reason.as_ref().and_then(Value::as_str)
        && !matches!(reason, "length" | "not_finished")
    {
        return Err(DialectError::Ended(reason.into()));
    }
    let params = member(choice, PARAMS)?.filter(|raw| raw.starts_with('{'));
    let params = Bytes::copy_from_slice(params.ok_or(DialectError::NothingHandedOver(PARAMS))?.as_bytes());
    let usage =
        splice::get(answer, "usage").map_err(DialectError::Answer)?.filter(|raw| raw.starts_with('{'));
    let mut own = vec![("request_type", r#""generation_only""#)];
    own.extend(usage.map(|usage| ("ctx_usage", usage)));
    let params = splice::set(&params, &own).map_err(DialectError::Answer)?;
    let mut fields = vec![(PARAMS, std::str::from_utf8(&params).unwrap_or("{}"))];
    let ids = splice::get(answer, "prompt_token_ids").map_err(DialectError::Answer)?;
    if let Some(ids) = ids.filter(|raw| raw.starts_with('[')) {
        fields.push((if ask.api == Api::Chat { "prompt_token_ids" } else { "prompt" }, ids));
    }
    one_token::with(ask, &fields).map(Leg::of)
}

/// The raw JSON of the first item of the answer's `choices`.
fn first_choice(answer: &[u8]) -> Result<&str, DialectError> {
    let missing = DialectError::NothingHandedOver("choices");
    let choices = splice::get(answer, "choices").map_err(DialectError::Answer)?.ok_or(missing.clone())?;
    let choices: Vec<&serde_json::value::RawValue> =
        serde_json::from_str(choices).map_err(|_| missing.clone())?;
    choices.first().map(|choice| choice.get()).filter(|raw| raw.starts_with('{')).ok_or(missing)
}

fn member<'a>(object: &'a str, key: &str) -> Result<Option<&'a str>, DialectError> {
    splice::get(object.as_bytes(), key).map_err(|error: SpliceError| DialectError::Answer(error))
}

#[cfg(test)]
#[path = "trtllm_tests.rs"]
mod tests;
