use proptest::prelude::*;

use super::*;

fn facts(api: Api, body: &str) -> Facts {
    parse(api, body.as_bytes()).unwrap()
}

const CHAT: &str = r#"{"model":"m","stream":true,"messages":[{"role":"system","content":"s"},
  {"role":"user","content":"one"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",
  "function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c1","content":"42"},
  {"role":"user","content":[{"type":"text","text":"two"},{"type":"image_url","image_url":{"url":"data:x"}}]}],
  "max_tokens":7,"max_completion_tokens":9,"stream_options":{"include_usage":true},"cache_salt":"s4lt",
  "prompt_cache_key":"key","temperature":0.5,"tools":[{"type":"function","function":{"name":"f"}}]}"#;

const MESSAGES: &str = r#"{"model":"claude","max_tokens":64,"system":[{"type":"text","text":"be brief",
  "cache_control":{"type":"ephemeral"}}],"tools":[{"name":"t","input_schema":{"type":"object"}}],"messages":[
  {"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"x"},
  {"type":"tool_use","id":"t1","name":"t","input":{"q":1}}]},{"role":"user","content":[{"type":"tool_result",
  "tool_use_id":"t1","content":[{"type":"text","text":"r"}]}]}],"stream":false}"#;

const RESPONSES: &str = r#"{"model":"m","instructions":"be","input":[{"role":"user","content":[{"type":"input_text",
  "text":"a"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output",
  "call_id":"c","output":"o"},{"type":"message","role":"user","content":"b"}],"max_output_tokens":5,
  "previous_response_id":"resp_1","stream":true}"#;

#[test]
fn a_chat() {
    let facts = facts(Api::Chat, CHAT);
    assert_eq!(&*facts.model, "m");
    assert!(facts.stream && facts.include_usage && !facts.internal);
    assert_eq!(facts.max_output_tokens, Some(9));
    assert_eq!(facts.turn, 1);
    assert_eq!(facts.cache_salt.as_deref(), Some("s4lt"));
    assert_eq!(facts.session.as_deref(), Some("key"));
}

#[test]
fn messages_and_responses() {
    let messages = facts(Api::Messages, MESSAGES);
    assert_eq!((messages.turn, messages.max_output_tokens, messages.stream), (0, Some(64), false));
    let responses = facts(Api::Responses, RESPONSES);
    assert_eq!((responses.turn, responses.max_output_tokens), (1, Some(5)));
    assert_eq!(responses.session.as_deref(), Some("resp_1"));
    assert!(responses.include_usage);
    let text = facts(Api::Responses, r#"{"input":"hi","model":"m"}"#);
    let items = facts(Api::Responses, r#"{"model":"m","input":[{"role":"user","content":"hi"}]}"#);
    assert_eq!(text, items);
}

#[test]
fn prompts_that_are_no_conversation() {
    let prompt = |api, body| facts(api, body).prompt;
    let text = |text: &str| Some(Prompt::Text(text.into()));
    assert_eq!(prompt(Api::Completions, r#"{"prompt":"a\u00e9"}"#), text("aé"));
    assert_eq!(prompt(Api::Completions, r#"{"prompt":["a","b"]}"#), text("a"));
    assert_eq!(prompt(Api::Completions, r#"{"prompt":[1, 2,3]}"#), Some(Prompt::Tokens(vec![1, 2, 3])));
    assert_eq!(prompt(Api::Completions, r#"{"prompt":[[1,2],[3]]}"#), Some(Prompt::Tokens(vec![1, 2])));
    assert_eq!(prompt(Api::Completions, r#"{"prompt":[]}"#), text(""));
    assert_eq!(prompt(Api::Completions, r#"{"prompt_embeds":"AAAA"}"#), None);
    assert_eq!(prompt(Api::Embeddings, r#"{"input":[[1],[2,3]]}"#), Some(Prompt::Tokens(vec![1, 2, 3])));
    assert_eq!(prompt(Api::Embeddings, r#"{"input":["a","b"]}"#), Some(Prompt::Text(b"a\xFFb".to_vec())));
    let generate =
        facts(Api::Generate, r#"{"text":null,"input_ids":[5,6],"sampling_params":{"max_new_tokens":3}}"#);
    assert_eq!(generate.prompt, Some(Prompt::Tokens(vec![5, 6])));
    assert_eq!(generate.max_output_tokens, Some(3));
    let ids = facts(Api::Generate, r#"{"input_ids":[5,6],"text":null}"#);
    assert_eq!(ids.prompt, generate.prompt);
}

#[test]
fn the_last_duplicate_counts() {
    let body = r#"{"model":"a","messages":[{"role":"user","content":"x"}],"m\u006fdel":"b",
        "messages":[{"role":"user","content":"y","content":"z"}],"stream":true,"stream":false}"#;
    let facts = facts(Api::Chat, body);
    assert_eq!((&*facts.model, facts.stream), ("b", false));
    assert_eq!(facts.prompt, Some(Prompt::Text(b"\xFFuser\xFEtz".to_vec())));
}

#[test]
fn internal_fields_are_noticed_however_they_are_written() {
    assert!(facts(Api::Completions, r#"{"prompt":"a","kv_transfer_params":null}"#).internal);
    assert!(facts(Api::Completions, r#"{"prompt":"a","bootstrap\u005fhost":"x"}"#).internal);
    assert!(!facts(Api::Completions, r#"{"prompt":"kv_transfer_params"}"#).internal);
    let nested = r#"{"prompt":"a","vllm_xargs":{"a":1,"kv_transfer_params":{}}}"#;
    assert!(facts(Api::Completions, nested).internal);
    let nested = r#"{"token_ids":[1],"sampling_params":{"extra_args":{"kv_transfer_params":{}}}}"#;
    assert!(facts(Api::Generate, nested).internal);
    assert!(!facts(Api::Generate, r#"{"token_ids":[1],"sampling_params":{"extra_args":{"x":{}}}}"#).internal);
}

#[test]
fn errors_say_what_and_where() {
    let error = |api, body: &str| parse(api, body.as_bytes()).unwrap_err();
    assert_eq!(error(Api::Chat, "[]"), BodyError::NotAnObject);
    assert_eq!(error(Api::Chat, "{}"), BodyError::Missing { field: "messages" });
    assert_eq!(error(Api::Messages, r#"{"messages":null}"#), BodyError::Missing { field: "messages" });
    assert_eq!(error(Api::Responses, "{}"), BodyError::Missing { field: "input" });
    assert_eq!(error(Api::Embeddings, "{}"), BodyError::Missing { field: "input" });
    for (api, body, field) in [
        (Api::Chat, r#"{"model":1}"#, "model"),
        (Api::Chat, r#"{"messages":"hi"}"#, "messages"),
        (Api::Chat, r#"{"messages":["hi"]}"#, "messages"),
        (Api::Completions, r#"{"prompt":5}"#, "prompt"),
        (Api::Completions, r#"{"prompt":[-1]}"#, "prompt"),
        (Api::Completions, r#"{"prompt":[1.5]}"#, "prompt"),
        (Api::Completions, r#"{"prompt":[4294967296]}"#, "prompt"),
        (Api::Completions, r#"{"prompt":[null]}"#, "prompt"),
        (Api::Responses, r#"{"input":3}"#, "input"),
    ] {
        assert_eq!(error(api, body).field(), Some(field), "{body}");
    }
    assert_eq!(
        error(Api::Chat, "{\"model\":\"m\",\n \"messages\":[,]}").to_string(),
        "the body is not valid JSON: expected a value at line 2, column 14"
    );
    assert!(matches!(error(Api::Chat, ""), BodyError::NotJson { line: 1, column: 1, .. }));
    assert!(matches!(error(Api::Chat, "\0"), BodyError::NotJson { .. }));
    assert!(matches!(error(Api::Chat, "{\"model\":\"a\0\"}"), BodyError::NotJson { column: 12, .. }));
}

#[test]
fn odd_values_are_no_facts() {
    let body =
        r#"{"prompt":"a","stream":"yes","max_tokens":-3,"stream_options":7,"cache_salt":[],"model":null}"#;
    let facts = facts(Api::Completions, body);
    assert_eq!((facts.stream, facts.max_output_tokens, facts.include_usage), (false, None, false));
    assert_eq!((&*facts.model, facts.cache_salt), ("", None));
    assert_eq!(parse(Api::Other, b"whatever").unwrap().prompt, None);
    let huge = super::parse(Api::Completions, br#"{"prompt":"a","max_tokens":1e999}"#).unwrap();
    assert_eq!(huge.max_output_tokens.unwrap_or(u32::MAX), u32::MAX);
    let deep = format!(r#"{{"prompt":"a","x":{}}}"#, "[".repeat(100_000));
    assert!(parse(Api::Completions, deep.as_bytes()).is_err());
    let lone =
        super::parse(Api::Chat, br#"{"model":"\ud800","messages":[{"role":"user","content":"\udfff"}]}"#);
    assert_eq!(&*lone.unwrap().model, "\u{fffd}\u{fffd}\u{fffd}");
}

const ALL: [Api; 7] =
    [Api::Chat, Api::Completions, Api::Responses, Api::Messages, Api::Embeddings, Api::Generate, Api::Other];

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for api in ALL {
            let _ = parse(api, &bytes);
        }
    }

    #[test]
    fn mutated_bodies_never_panic(
        which in 0_usize..3,
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..4), 1..6),
        pieces in any::<prop::sample::Index>(),
    ) {
        let mut body = [CHAT, MESSAGES, RESPONSES][which].as_bytes().to_vec();
        let tokens: [&[u8]; 8] = [b"null", b"{}", b"[]", b"\"x\"", b"[[1]]", b"\\ud800", b"1e999", b"}]"];
        for (at, byte, how) in edits {
            let at = at.index(body.len());
            match how {
                0 => body[at] = byte,
                1 => drop(body.remove(at)),
                2 => body.insert(at, byte),
                _ => drop(body.splice(at..at, tokens[pieces.index(tokens.len())].iter().copied())),
            }
        }
        for api in ALL {
            let parsed = parse(api, &body);
            let json = serde_json::from_slice::<serde::de::IgnoredAny>(&body).is_ok();
            if parsed.is_ok() && api != Api::Other {
                prop_assert!(json, "{}", String::from_utf8_lossy(&body));
            }
        }
    }

    #[test]
    fn values_replaced_by_others_never_panic(
        key in prop::sample::select(vec!["model", "messages", "tools", "input", "system", "prompt", "text",
            "stream_options", "sampling_params", "instructions", "cache_salt", "input_ids"]),
        value in prop::sample::select(vec!["null", "1", "\"s\"", "[]", "{}", "[null]", "[{}]", "[[]]", "[[{}]]",
            r#"[{"role":1,"content":{"a":[]}}]"#, r#"[{"content":[1,null,{"type":"tool_result","content":[{"type":"tool_result"}]}]}]"#,
            r#"[{"type":"function_call"}]"#, r#"[{"tool_calls":[1,{"function":3}]}]"#, "[1,\"a\"]", "[\"a\",1]", "[[1],2]"]),
    ) {
        let body = format!(r#"{{"{key}":{value}}}"#);
        for api in ALL {
            let _ = parse(api, body.as_bytes());
        }
    }
}

#[test]
fn what_bodies_were_kept_from_fuzzing_are_read_again() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/regressions/prompt");
    let apis = [Api::Chat, Api::Completions, Api::Responses, Api::Messages, Api::Embeddings, Api::Generate];
    let mut prompts = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let (api, body) = bytes.split_first().unwrap();
        let found = parse(apis[usize::from(*api) % apis.len()], body);
        prompts += usize::from(found.is_ok_and(|facts| facts.prompt.is_some()));
    }
    assert!(prompts >= 5, "{prompts}");
}
