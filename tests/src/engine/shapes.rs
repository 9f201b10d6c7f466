//! The same text in the shape of each API.

use serde_json::{Value, json};

/// An API's way to answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    Chat,
    Completions,
    Responses,
    Messages,
    Embeddings,
    Other,
}

impl Shape {
    pub(super) fn of(path: &str) -> Self {
        match path.split('?').next().unwrap_or_default() {
            "/v1/chat/completions" => Self::Chat,
            "/v1/completions" => Self::Completions,
            "/v1/responses" => Self::Responses,
            "/v1/messages" => Self::Messages,
            "/v1/embeddings" => Self::Embeddings,
            _ => Self::Other,
        }
    }

    /// The whole answer.
    pub(super) fn whole(self, model: &str, text: &str) -> Value {
        let tokens = text.split_whitespace().count();
        let usage = json!({"prompt_tokens": 7, "completion_tokens": tokens, "total_tokens": 7 + tokens});
        match self {
            Self::Chat => {
                json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model,
                "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
                "usage": usage})
            }
            Self::Completions => {
                json!({"id": "cmpl-1", "object": "text_completion", "created": 1, "model": model,
                "choices": [{"index": 0, "text": text, "finish_reason": "stop"}], "usage": usage})
            }
            Self::Responses => response(model, text, "completed"),
            Self::Messages => json!({"id": "msg_1", "type": "message", "role": "assistant", "model": model,
                "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "stop_sequence": null,
                "usage": {"input_tokens": 7, "output_tokens": tokens}}),
            Self::Embeddings => json!({"object": "list", "model": model, "usage": usage,
                "data": [{"object": "embedding", "index": 0, "embedding": [0.25, -0.5]}]}),
            Self::Other => json!({"said": text}),
        }
    }

    /// The events of a stream: an optional name and the data.
    pub(super) fn events(self, model: &str, text: &str) -> Vec<(Option<&'static str>, String)> {
        let words: Vec<&str> = text.split_inclusive(' ').collect();
        match self {
            Self::Messages => messages(model, &words),
            Self::Responses => responses(model, text, &words),
            Self::Completions => {
                let chunk = |text: &str, reason: Value| {
                    json!({"id": "cmpl-1", "object": "text_completion", "created": 1, "model": model,
                        "choices": [{"index": 0, "text": text, "finish_reason": reason}]})
                };
                let words = words.iter().map(|word| chunk(word, Value::Null));
                done(words.chain([chunk("", json!("stop"))]))
            }
            Self::Chat | Self::Embeddings | Self::Other => {
                let chunk = |delta: Value, reason: Value| {
                    json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model,
                        "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
                };
                let first = chunk(json!({"role": "assistant", "content": ""}), Value::Null);
                let words = words.iter().map(|word| chunk(json!({"content": word}), Value::Null));
                done([first].into_iter().chain(words).chain([chunk(json!({}), json!("stop"))]))
            }
        }
    }
}

fn done(chunks: impl Iterator<Item = Value>) -> Vec<(Option<&'static str>, String)> {
    chunks.map(|chunk| (None, chunk.to_string())).chain([(None, "[DONE]".to_owned())]).collect()
}

fn response(model: &str, text: &str, status: &str) -> Value {
    json!({"id": "resp_1", "object": "response", "created_at": 1, "model": model, "status": status,
        "output": [{"type": "message", "id": "msg_1", "role": "assistant", "status": status,
            "content": [{"type": "output_text", "text": text, "annotations": []}]}],
        "usage": {"input_tokens": 7, "output_tokens": 4, "total_tokens": 11}})
}

fn responses(model: &str, text: &str, words: &[&str]) -> Vec<(Option<&'static str>, String)> {
    let mut events =
        vec![json!({"type": "response.created", "response": response(model, "", "in_progress")})];
    events.extend(words.iter().map(|word| json!({"type": "response.output_text.delta", "delta": word})));
    events.push(json!({"type": "response.completed", "response": response(model, text, "completed")}));
    let names = ["response.created", "response.output_text.delta", "response.completed"];
    events
        .into_iter()
        .map(|event| (names.into_iter().find(|name| event["type"] == *name), event.to_string()))
        .collect()
}

fn messages(model: &str, words: &[&str]) -> Vec<(Option<&'static str>, String)> {
    let start = json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
        "model": model, "content": [], "stop_reason": null, "usage": {"input_tokens": 7, "output_tokens": 0}}});
    let block =
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}});
    let stop = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null},
        "usage": {"output_tokens": words.len()}});
    let mut events = vec![("message_start", start), ("content_block_start", block)];
    events.extend(words.iter().map(|word| {
        let delta = json!({"type": "text_delta", "text": word});
        ("content_block_delta", json!({"type": "content_block_delta", "index": 0, "delta": delta}))
    }));
    events.push(("content_block_stop", json!({"type": "content_block_stop", "index": 0})));
    events.push(("message_delta", stop));
    events.push(("message_stop", json!({"type": "message_stop"})));
    events.into_iter().map(|(name, event)| (Some(name), event.to_string())).collect()
}
