use serde_json::{Value, json};

use crate::disagg::{DialectError, decode, fixtures, prefill};
use crate::types::{Api, Dialect};

const ANSWER: &str = r#"{"id":"c","prompt_token_ids":[5,6,7],"usage":{"prompt_tokens":3},
    "choices":[{"index":0,"finish_reason":"length","disaggregated_params":{"request_type":"context_only",
    "first_gen_tokens":[9],"ctx_request_id":77,"encoded_opaque_state":"AAAA","draft_tokens":null,
    "disagg_request_id":4398046511146,"ctx_dp_rank":0}}]}"#;

fn generation(api: Api, body: &str, answer: &str) -> Result<Value, DialectError> {
    let body = fixtures::body(body);
    let pair = fixtures::pair();
    let leg = decode(Dialect::Trtllm, fixtures::ask(api, &body, &pair), answer.as_bytes())?;
    Ok(serde_json::from_slice(&leg.body).unwrap())
}

#[test]
fn the_context_leg_has_an_id_of_the_routers() {
    let body = fixtures::body(r#"{"messages":[],"stream":true,"stream_options":{},"max_tokens":9}"#);
    let pair = fixtures::pair();
    let leg = prefill(Dialect::Trtllm, fixtures::ask(Api::Chat, &body, &pair)).unwrap();
    let sent: Value = serde_json::from_slice(&leg.body).unwrap();
    assert_eq!(
        sent,
        json!({"messages":[],"stream":false,"max_tokens":9,
            "disaggregated_params":{"request_type":"context_only","disagg_request_id":4_398_046_511_146_u64}})
    );
}

#[test]
fn the_generation_leg_gets_the_state_back_and_the_prompts_ids() {
    let sent = generation(Api::Chat, r#"{"messages":[],"stream":true}"#, ANSWER).unwrap();
    assert_eq!(
        sent,
        json!({"messages":[],"stream":true,"prompt_token_ids":[5,6,7],
            "disaggregated_params":{"request_type":"generation_only","ctx_usage":{"prompt_tokens":3},
                "first_gen_tokens":[9],"ctx_request_id":77,"encoded_opaque_state":"AAAA","draft_tokens":null,
                "disagg_request_id":4_398_046_511_146_u64,"ctx_dp_rank":0}})
    );
    let sent = generation(Api::Completions, r#"{"prompt":"x"}"#, ANSWER).unwrap();
    assert_eq!(sent["prompt"], json!([5, 6, 7]));
}

#[test]
fn an_answer_that_is_complete_needs_no_generation() {
    let ended = ANSWER.replace("\"length\"", "\"stop\"");
    assert_eq!(generation(Api::Chat, "{}", &ended), Err(DialectError::Ended("stop".into())));
    for nothing in
        [r#"{"choices":[]}"#, r#"{"choices":[{"finish_reason":"length"}]}"#, "{}", r#"{"choices":3}"#]
    {
        let error = generation(Api::Chat, "{}", nothing).unwrap_err();
        assert!(matches!(error, DialectError::NothingHandedOver(_)), "{nothing}: {error}");
    }
    let body = fixtures::body("{}");
    let pair = fixtures::pair();
    let ask = fixtures::ask(Api::Messages, &body, &pair);
    assert_eq!(prefill(Dialect::Trtllm, ask), Err(DialectError::Api));
}
