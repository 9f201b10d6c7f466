use proptest::prelude::*;
use serde_json::{Value as Json, json};

use crate::api::facts;
use crate::types::{Api, Prompt};

fn bytes(api: Api, body: &Json) -> Vec<u8> {
    match facts::parse(api, body.to_string().as_bytes()).unwrap().prompt {
        Some(Prompt::Text(text)) => text,
        other => unreachable!("{other:?}"),
    }
}

fn chat(messages: Json) -> Vec<u8> {
    bytes(Api::Chat, &json!({"model": "m", "messages": messages}))
}

#[test]
fn roles_and_contents_cannot_run_into_each_other() {
    let all = [
        chat(json!([{"role": "user", "content": "ab"}])),
        chat(json!([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])),
        chat(json!([{"role": "user", "content": [{"type":"text","text":"a"},{"type":"text","text":"b"}]}])),
        chat(json!([{"role": "usera", "content": "b"}])),
        chat(json!([{"role": "user", "name": "ab"}])),
        chat(json!([{"role": "user", "name": "a", "content": "b"}])),
        chat(json!([{"role": "user", "refusal": "ab"}])),
        chat(json!([{"role": "user", "content": "\u{0}ab"}])),
        chat(json!([{"role": "user", "tool_calls": [{"function": {"name": "ab"}}]}])),
        chat(json!([{"role": "user", "tool_calls": [{"function": {"name": "a", "arguments": "b"}}]}])),
        chat(json!([{"role": "user", "tool_calls": [{"function": {"name": "a"}, "id": "b"}]}])),
    ];
    for (number, one) in all.iter().enumerate() {
        for other in &all[number + 1..] {
            assert_ne!(one, other);
        }
    }
}

#[test]
fn what_changes_no_prompt_changes_no_byte() {
    let plain = chat(json!([{"role": "user", "content": "a"}]));
    assert_eq!(plain, chat(json!([{"role": "user", "content": [{"type": "text", "text": "a"}]}])));
    let marked = json!([{"role": "user", "content": [
        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]}]);
    assert_eq!(plain, chat(marked));
    let raw = |body: &str| facts::parse(Api::Chat, body.as_bytes()).unwrap().prompt;
    assert_eq!(
        raw(r#"{"tools":[{"name":"é", "x" : [1, 2]}],"messages":[{"role":"user","content":"é"}]}"#),
        raw(r#"{"messages":[{"content":"\u00e9","role":"user"}],"tools":[{"name":"\u00e9","x":[1,2]}]}"#),
    );
}

#[test]
fn media_go_by_their_digest() {
    let image =
        |url: &str| chat(json!([{"role":"user","content":[{"type":"image_url","image_url":{"url":url}}]}]));
    let big = "A".repeat(1 << 20);
    assert!(image(&big).len() < 1200);
    assert_eq!(image(&big), image(&big));
    assert_ne!(image(&big), image("data:other"));
    assert!(image("x").len() / 4 > 200);
}

#[test]
fn responses_continue_what_they_name() {
    let of = |previous: &str| bytes(Api::Responses, &json!({"input": "a", "previous_response_id": previous}));
    assert_ne!(of("r1"), of("r2"));
}

#[test]
fn nested_results_stay_linear() {
    let mut nested = json!("x");
    for _ in 0..40 {
        nested = json!([{"type": "tool_result", "tool_use_id": "t", "content": nested}]);
    }
    let body = json!({"messages": [{"role": "user", "content": nested}]});
    let long = bytes(Api::Messages, &body).len();
    assert!(long < body.to_string().len() * 2);
}

/// A message of a chat, simple enough to compare and odd enough to matter.
fn message() -> impl Strategy<Value = Json> {
    let text = prop::sample::select(vec!["", "a", "ab", "b", "long ".repeat(20).leak(), "é\u{0}", "\"}"]);
    let role = prop::sample::select(vec!["user", "assistant", "system", "tool"]);
    (role, text, 0_u8..5).prop_map(|(role, text, shape)| match shape {
        0 => json!({"role": role, "content": text}),
        1 => json!({"content": [{"type": "text", "text": text}, {"type": "text", "text": "z"}], "role": role}),
        2 => json!({"role": role, "content": null, "tool_calls": [{"id": text, "function": {"name": "f", "arguments": text}}]}),
        3 => json!({"role": role, "content": [{"type": "tool_result", "tool_use_id": "i", "content": text}]}),
        _ => json!({"role": role, "content": [{"type": "image_url", "image_url": {"url": text}}]}),
    })
}

proptest! {
    #[test]
    fn a_conversation_that_goes_on_keeps_its_beginning(
        messages in proptest::collection::vec(message(), 1..8),
        tools in any::<bool>(),
        cut in any::<prop::sample::Index>(),
    ) {
        for api in [Api::Chat, Api::Messages] {
            let cut = cut.index(messages.len());
            let body = |messages: &[Json]| {
                let mut body = json!({"messages": messages, "system": "be brief"});
                if tools {
                    body["tools"] = json!([{"name": "t", "input_schema": {"a": [1, "x"]}}]);
                }
                bytes(api, &body)
            };
            prop_assert!(body(&messages).starts_with(&body(&messages[..cut])));
        }
    }

    #[test]
    fn two_conversations_share_what_they_begin_with_and_part_after_it(
        a in message(),
        b in message(),
        shared in proptest::collection::vec(message(), 0..6),
    ) {
        let with = |last: &Json| chat(Json::from([shared.clone(), vec![last.clone()]].concat()));
        let (one, other, both) = (with(&a), with(&b), chat(Json::from(shared.clone())));
        prop_assert!(one.starts_with(&both) && other.starts_with(&both));
        // An empty text is none: those alone may differ as JSON and not as a prompt.
        if !a.to_string().contains("\"\"") && !b.to_string().contains("\"\"") {
            prop_assert_eq!(one == other, a == b);
        }
    }
}
