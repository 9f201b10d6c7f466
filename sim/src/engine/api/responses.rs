//! `POST /v1/responses`.

use super::super::error::ApiError;
use super::{Choice, Meta, Shape, event};
use crate::scheduler::{Finish, Usage};
use serde_json::{Value, json};

/// Writes responses.
pub(super) struct Responses {
    meta: Meta,
    /// Numbers the events of a stream.
    sequence: u64,
    text: String,
    finish: Finish,
}

impl Responses {
    pub(super) const fn new(meta: Meta) -> Self {
        Self { meta, sequence: 0, text: String::new(), finish: Finish::Stop }
    }

    fn item_id(&self) -> String {
        format!("msg_{}", self.meta.id)
    }

    fn item(&self, status: &str, content: &Value) -> Value {
        json!({"id": self.item_id(), "type": "message", "role": "assistant", "status": status, "content": content})
    }

    fn response(&self, status: &str, output: &Value, usage: Option<&Usage>) -> Value {
        let incomplete = (status == "incomplete").then(|| json!({"reason": "max_output_tokens"}));
        json!({"id": self.meta.id, "object": "response", "created_at": self.meta.created, "model": self.meta.model,
            "status": status, "output": output, "incomplete_details": incomplete, "error": null,
            "parallel_tool_calls": true, "tool_choice": "auto", "tools": [],
            "usage": usage.map(usage_json)})
    }

    fn send(&mut self, name: &str, mut value: Value, out: &mut String) {
        if let Some(map) = value.as_object_mut() {
            map.insert("type".into(), json!(name));
            map.insert("sequence_number".into(), json!(self.sequence));
        }
        self.sequence += 1;
        event(name, &value, out);
    }
}

fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn usage_json(usage: &Usage) -> Value {
    json!({"input_tokens": usage.prompt, "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt + usage.output})
}

const fn status(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "completed",
        Finish::Length => "incomplete",
    }
}

impl Shape for Responses {
    fn delta(&mut self, _: usize, text: &str, out: &mut String) {
        if self.sequence == 0 {
            let response = self.response("in_progress", &json!([]), None);
            self.send("response.created", json!({"response": response}), out);
            self.send("response.in_progress", json!({"response": response}), out);
            let item = self.item("in_progress", &json!([]));
            self.send("response.output_item.added", json!({"output_index": 0, "item": item}), out);
            let added =
                json!({"item_id": self.item_id(), "output_index": 0, "content_index": 0, "part": part("")});
            self.send("response.content_part.added", added, out);
        }
        self.text.push_str(text);
        let delta = json!({"item_id": self.item_id(), "output_index": 0, "content_index": 0, "delta": text,
            "logprobs": []});
        self.send("response.output_text.delta", delta, out);
    }

    fn end(&mut self, _: usize, finish: Finish, out: &mut String) {
        self.finish = finish;
        let place = json!({"item_id": self.item_id(), "output_index": 0, "content_index": 0});
        let with = |key: &str, value: Value| {
            let mut place = place.clone();
            if let Some(map) = place.as_object_mut() {
                map.insert(key.into(), value);
            }
            place
        };
        let mut done = with("text", json!(self.text));
        if let Some(map) = done.as_object_mut() {
            map.insert("logprobs".into(), json!([]));
        }
        self.send("response.output_text.done", done, out);
        self.send("response.content_part.done", with("part", part(&self.text)), out);
        let item = self.item(status(finish), &json!([part(&self.text)]));
        self.send("response.output_item.done", json!({"output_index": 0, "item": item}), out);
    }

    fn close(&mut self, usage: &Usage, out: &mut String) {
        let status = status(self.finish);
        let output = json!([self.item(status, &json!([part(&self.text)]))]);
        let response = self.response(status, &output, Some(usage));
        self.send(&format!("response.{status}"), json!({"response": response}), out);
    }

    fn failure(&self, error: &ApiError, out: &mut String) {
        let value = json!({"type": "error", "code": "server_error", "message": error.message, "param": null,
            "sequence_number": self.sequence});
        event("error", &value, out);
    }

    fn whole(&self, choices: &[Choice], usage: &Usage, handover: Option<Value>) -> String {
        let (text, finish) = choices.first().map_or(("", Finish::Stop), |c| (c.text.as_str(), c.finish));
        let output = json!([self.item(status(finish), &json!([part(text)]))]);
        let mut answer = self.response(status(finish), &output, Some(usage));
        if let (Some(map), Some(handover)) = (answer.as_object_mut(), handover) {
            map.insert("kv_transfer_params".into(), handover);
        }
        answer.to_string()
    }
}
