//! `POST /v1/completions`.

use super::super::error::ApiError;
use super::{Choice, Meta, Shape, data, head, usage_json};
use crate::scheduler::{Finish, Usage};
use serde_json::Value;
use std::fmt::Write;

/// Writes text completions.
pub(super) struct Completions {
    meta: Meta,
    /// What every chunk begins with.
    chunk: String,
}

impl Completions {
    pub(super) fn new(meta: Meta) -> Self {
        let chunk = format!("data: {},\"choices\":[", head(&meta, "text_completion"));
        Self { meta, chunk }
    }
}

/// One choice. Answers are letters and blanks: nothing to escape.
fn write_choice(index: usize, text: &str, finish: Option<Finish>, out: &mut String) {
    let quote = if finish.is_some() { "\"" } else { "" };
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "{{\"index\":{index},\"text\":\"{text}\",\"logprobs\":null,\"finish_reason\":{quote}{}{quote},\
         \"stop_reason\":null}}",
        finish.map_or("null", Finish::as_str)
    );
}

impl Shape for Completions {
    fn delta(&mut self, choice: usize, text: &str, out: &mut String) {
        out.push_str(&self.chunk);
        write_choice(choice, text, None, out);
        out.push_str("]}\n\n");
    }

    fn end(&mut self, choice: usize, finish: Finish, out: &mut String) {
        out.push_str(&self.chunk);
        write_choice(choice, "", Some(finish), out);
        out.push_str("]}\n\n");
    }

    fn close(&mut self, usage: &Usage, out: &mut String) {
        if self.meta.include_usage {
            let _ = write!(out, "{}],\"usage\":{}}}\n\n", self.chunk, usage_json(usage));
        }
        out.push_str("data: [DONE]\n\n");
    }

    fn failure(&self, error: &ApiError, out: &mut String) {
        data(&error.openai(), out);
        out.push_str("data: [DONE]\n\n");
    }

    fn whole(&self, choices: &[Choice], usage: &Usage, handover: Option<Value>) -> String {
        let mut out = format!("{},\"choices\":[", head(&self.meta, "text_completion"));
        for (index, choice) in choices.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            write_choice(index, &choice.text, Some(choice.finish), &mut out);
        }
        let _ = write!(
            out,
            "],\"usage\":{},\"kv_transfer_params\":{}}}",
            usage_json(usage),
            handover.unwrap_or(Value::Null)
        );
        out
    }
}
