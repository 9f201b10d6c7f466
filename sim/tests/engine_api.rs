//! The engine's APIs, as clients see them.

mod support;

use serde_json::{Value, json};
use support::{Engine, chat, chat_stream};

#[test]
fn chat_streams_what_it_answers_whole() {
    let engine = Engine::start("--speed-up 100");
    let whole =
        engine.call("POST", "/v1/chat/completions", "x-request-id: abc\r\n", &chat("hello", 5).to_string());
    let whole = whole.json();
    assert_eq!(whole["id"], "chatcmpl-abc");
    assert_eq!(whole["usage"]["completion_tokens"], 5);
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
    let stream = engine.post("/v1/chat/completions", &chat_stream("hello", 5));
    assert!(stream.whole && stream.head.contains("text/event-stream"));
    let mut events: Vec<String> = stream.events().into_iter().map(|(_, data)| data).collect();
    assert_eq!(events.pop().unwrap(), "[DONE]");
    let chunks: Vec<Value> = events.iter().map(|data| serde_json::from_str(data).unwrap()).collect();
    let text: String =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(whole["choices"][0]["message"]["content"], text);
    let last = chunks.last().unwrap();
    assert_eq!((&last["choices"], &last["usage"]["completion_tokens"]), (&json!([]), &json!(5)));
}

#[test]
fn completions_take_texts_and_token_ids() {
    let engine = Engine::start("--speed-up 100");
    for (prompt, choices, tokens) in [
        (json!("abcdefgh"), 2, 2),
        (json!(["abcd", "efgh", "ijkl"]), 6, 3),
        (json!([1, 2, 3]), 2, 3),
        (json!([[1, 2], [3]]), 4, 3),
    ] {
        let body = json!({"model": "sim", "prompt": prompt, "max_tokens": 2, "n": 2});
        let answer = engine.post("/v1/completions", &body).json();
        assert_eq!(answer["choices"].as_array().unwrap().len(), choices);
        assert_eq!(answer["usage"]["prompt_tokens"], tokens);
        assert!(answer["id"].as_str().unwrap().starts_with("cmpl-"));
    }
}

#[test]
fn responses_and_messages_have_their_event_names() {
    let engine = Engine::start("--speed-up 100");
    let names = |path: &str, body: &Value| -> Vec<String> {
        let answer = engine.post(path, body);
        for (name, data) in answer.events() {
            assert_eq!(serde_json::from_str::<Value>(&data).unwrap()["type"], name);
        }
        answer.events().into_iter().map(|(name, _)| name).collect()
    };
    let body = json!({"model": "sim", "input": "hi", "max_output_tokens": 1, "stream": true});
    assert_eq!(
        names("/v1/responses", &body),
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.incomplete",
        ]
    );
    let body = json!({"model": "sim", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1, "stream": true});
    assert_eq!(
        names("/v1/messages", &body),
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
    let whole = engine.post("/v1/responses", &json!({"model": "sim", "input": "hi"})).json();
    assert_eq!((&whole["object"], &whole["status"]), (&json!("response"), &json!("completed")));
    let whole = engine.post("/v1/messages", &chat("hi", 3)).json();
    assert_eq!((&whole["type"], &whole["stop_reason"]), (&json!("message"), &json!("max_tokens")));
}

#[test]
fn embeddings_only_prefill() {
    let engine = Engine::start("--speed-up 100");
    let answer = engine.post("/v1/embeddings", &json!({"model": "sim", "input": ["abcd", "efgh"]})).json();
    assert_eq!(answer["data"].as_array().unwrap().len(), 2);
    assert_eq!(engine.metric("vllm:generation_tokens_total"), 0.0);
}

#[test]
fn errors_have_the_shape_of_the_api() {
    let engine = Engine::start("--max-model-len 64");
    let post = |path: &str, body: Value| engine.post(path, &body);
    let unknown =
        post("/v1/chat/completions", json!({"model": "no", "messages": [{"role": "user", "content": "x"}]}));
    assert_eq!((unknown.status, &unknown.json()["error"]["param"]), (404, &json!("model")));
    let missing = post("/v1/chat/completions", json!({"model": "sim"}));
    assert_eq!((missing.status, &missing.json()["error"]["param"]), (400, &json!("messages")));
    let long = post("/v1/completions", json!({"model": "sim", "prompt": "x".repeat(400), "max_tokens": 1}));
    assert_eq!(long.status, 400);
    assert!(long.json()["error"]["message"].as_str().unwrap().contains("maximum context length is 64"));
    let anthropic =
        post("/v1/messages", json!({"model": "no", "max_tokens": 1, "messages": [{"role": "user"}]}));
    assert_eq!((anthropic.status, &anthropic.json()["error"]["type"]), (404, &json!("not_found_error")));
    assert_eq!(engine.call("POST", "/v1/completions", "", "{broken").status, 400);
    assert_eq!(engine.get("/nowhere").status, 404);
}

#[test]
fn models_health_and_metrics() {
    let engine = Engine::start("--model a --model b --lora c --block-size 32 --num-blocks 100");
    let models = engine.get("/v1/models").json();
    let ids: Vec<&str> =
        models["data"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    assert_eq!((engine.get("/health").status, engine.get("/version").status), (200, 200));
    let page = engine.get("/metrics").body;
    for series in [
        "vllm:num_requests_running{engine=\"0\",model_name=\"a\"} 0",
        "vllm:num_requests_waiting{engine=\"0\",model_name=\"a\"} 0",
        "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"a\"} 0",
        "vllm:prompt_tokens_by_source_total{engine=\"0\",model_name=\"a\",source=\"external_kv_transfer\"} 0",
        "vllm:lora_requests_info{max_lora=\"1\"",
        "vllm:time_to_first_token_seconds_bucket{engine=\"0\",model_name=\"a\",le=\"+Inf\"} 0",
    ] {
        assert!(page.contains(series), "{series}");
    }
    let info = page.lines().find(|line| line.starts_with("vllm:cache_config_info{")).unwrap();
    assert!(info.contains("block_size=\"32\"") && info.contains("num_gpu_blocks=\"100\""));
}

#[test]
fn a_shared_prefix_is_found_and_a_conversation_goes_on() {
    let engine = Engine::start("--speed-up 100");
    let system = "You are a helpful assistant. ".repeat(20);
    let ask = |messages: &Value| {
        let body = json!({"model": "sim", "messages": messages, "max_tokens": 40});
        engine.post("/v1/chat/completions", &body).json()
    };
    let mut messages = json!([{"role": "system", "content": system}, {"role": "user", "content": "one"}]);
    let first = ask(&messages);
    assert_eq!(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    messages.as_array_mut().unwrap().push(first["choices"][0]["message"].clone());
    messages.as_array_mut().unwrap().push(json!({"role": "user", "content": "two"}));
    let second = ask(&messages);
    let cached = second["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    let before = first["usage"]["total_tokens"].as_u64().unwrap();
    // The prompt and the answer of the first turn, down to a block of 16; its last token was never computed.
    assert_eq!(cached, (before - 1) / 16 * 16);
    assert_eq!(engine.metric("vllm:prefix_cache_hits_total"), cached as f64);
}
