//! `POST /v1/chat/completions`.

use super::super::error::ApiError;
use super::{Choice, Meta, Shape, data, head, usage_json};
use crate::scheduler::{Finish, Usage};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Writes chat completions.
pub(super) struct Chat {
    meta: Meta,
    /// What every chunk begins with.
    chunk: String,
    /// Choices whose role has been said.
    begun: BTreeSet<usize>,
}

impl Chat {
    pub(super) fn new(meta: Meta) -> Self {
        let chunk = format!("data: {},\"choices\":[", head(&meta, "chat.completion.chunk"));
        Self { meta, chunk, begun: BTreeSet::new() }
    }

    fn chunk(&self, choice: usize, delta: &str, finish: &str, out: &mut String) {
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "{}{{\"index\":{choice},\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{finish}}}]}}\n\n",
            self.chunk
        );
    }
}

impl Shape for Chat {
    fn delta(&mut self, choice: usize, text: &str, out: &mut String) {
        if self.begun.insert(choice) {
            self.chunk(choice, "{\"role\":\"assistant\",\"content\":\"\"}", "null", out);
        }
        // Answers are letters and blanks: nothing to escape.
        let _ = write!(
            out,
            "{}{{\"index\":{choice},\"delta\":{{\"content\":\"{text}\"}},\"logprobs\":null,\
             \"finish_reason\":null}}]}}\n\n",
            self.chunk
        );
    }

    fn end(&mut self, choice: usize, finish: Finish, out: &mut String) {
        self.chunk(choice, "{}", &format!("\"{}\"", finish.as_str()), out);
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
        let choices: Vec<String> = choices
            .iter()
            .enumerate()
            .map(|(index, choice)| {
                format!(
                    "{{\"index\":{index},\"message\":{{\"role\":\"assistant\",\"content\":\"{}\"}},\
                     \"logprobs\":null,\"finish_reason\":\"{}\",\"stop_reason\":null}}",
                    choice.text,
                    choice.finish.as_str()
                )
            })
            .collect();
        format!(
            "{},\"choices\":[{}],\"usage\":{},\"kv_transfer_params\":{}}}",
            head(&self.meta, "chat.completion"),
            choices.join(","),
            usage_json(usage),
            handover.unwrap_or(Value::Null)
        )
    }
}
