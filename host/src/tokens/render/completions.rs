//! Prompts that are no conversation.

use minijinja::value::{Value, ValueKind};

use super::Prompt;
use crate::tokens::NoTokens;
use crate::tokens::value::{flag, items, member};

/// The prompt in the first of these fields that is there.
pub(super) fn prompt(body: &Value, fields: &[&str]) -> Result<Prompt, NoTokens> {
    let embeds = ["prompt_embeds", "input_embeds", "image_data", "multi_modal_data"];
    if embeds.iter().any(|field| member(body, field).is_some()) {
        return Err(NoTokens::Embeddings);
    }
    if member(body, "truncate_prompt_tokens").is_some() || member(body, "truncation_side").is_some() {
        return Err(NoTokens::Truncated);
    }
    let found = fields.iter().find_map(|field| member(body, field)).ok_or(NoTokens::NoPrompt)?;
    let special = flag(body, "add_special_tokens", true).ok_or(NoTokens::Refused)?;
    one(&found, special)
}

/// A text, token ids, or a list that holds one of them.
fn one(value: &Value, special: bool) -> Result<Prompt, NoTokens> {
    if let Some(text) = value.as_str() {
        return Ok(Prompt::Text { text: text.to_owned(), special });
    }
    let list: Vec<Value> = items(value).ok_or(NoTokens::Unknown)?.collect();
    match list.as_slice() {
        [] => Err(NoTokens::Refused),
        [first, ..] if first.kind() == ValueKind::Number => {
            let ids = list.iter().map(|id| u32::try_from(id.clone()).map_err(|_| NoTokens::Refused));
            ids.collect::<Result<_, _>>().map(Prompt::Ids)
        }
        [only] if only.as_str().is_some() || only.kind() == ValueKind::Seq => one(only, special),
        [_] => Err(NoTokens::Unknown),
        _ => Err(NoTokens::Several),
    }
}
