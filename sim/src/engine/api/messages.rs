//! `POST /v1/messages`: Anthropic's API.

use super::super::error::ApiError;
use super::{Choice, Meta, Shape, event};
use crate::scheduler::{Finish, Usage};
use serde_json::{Value, json};

/// Writes messages.
pub(super) struct Messages {
    meta: Meta,
    begun: bool,
    finish: Finish,
}

impl Messages {
    pub(super) const fn new(meta: Meta) -> Self {
        Self { meta, begun: false, finish: Finish::Length }
    }

    fn message(&self, content: &Value, stop: Option<&str>, usage: &Value) -> Value {
        json!({"id": self.meta.id, "type": "message", "role": "assistant", "model": self.meta.model,
            "content": content, "stop_reason": stop, "stop_sequence": null, "usage": usage})
    }
}

const fn stop_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "end_turn",
        Finish::Length => "max_tokens",
    }
}

/// Anthropic counts what was read from the cache apart from the rest of the input.
fn usage_json(usage: &Usage) -> Value {
    json!({"input_tokens": usage.prompt - usage.cached, "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": 0, "output_tokens": usage.output})
}

impl Shape for Messages {
    fn delta(&mut self, _: usize, text: &str, out: &mut String) {
        if !self.begun {
            self.begun = true;
            let usage = json!({"input_tokens": self.meta.prompt_tokens, "output_tokens": 0});
            let message = self.message(&json!([]), None, &usage);
            event("message_start", &json!({"type": "message_start", "message": message}), out);
            event(
                "content_block_start",
                &json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                out,
            );
        }
        let delta = json!({"type": "text_delta", "text": text});
        event(
            "content_block_delta",
            &json!({"type": "content_block_delta", "index": 0, "delta": delta}),
            out,
        );
    }

    fn end(&mut self, _: usize, finish: Finish, out: &mut String) {
        self.finish = finish;
        event("content_block_stop", &json!({"type": "content_block_stop", "index": 0}), out);
    }

    fn close(&mut self, usage: &Usage, out: &mut String) {
        let delta = json!({"stop_reason": stop_reason(self.finish), "stop_sequence": null});
        event(
            "message_delta",
            &json!({"type": "message_delta", "delta": delta, "usage": usage_json(usage)}),
            out,
        );
        event("message_stop", &json!({"type": "message_stop"}), out);
    }

    fn failure(&self, error: &ApiError, out: &mut String) {
        event("error", &error.anthropic(), out);
    }

    fn whole(&self, choices: &[Choice], usage: &Usage, handover: Option<Value>) -> String {
        let choice = choices.first();
        let content = json!([{"type": "text", "text": choice.map_or("", |c| c.text.as_str())}]);
        let mut answer = self.message(&content, choice.map(|c| stop_reason(c.finish)), &usage_json(usage));
        if let (Some(map), Some(handover)) = (answer.as_object_mut(), handover) {
            map.insert("kv_transfer_params".into(), handover);
        }
        answer.to_string()
    }
}
