use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::disagg::{decode, fixtures, prefill};
use crate::types::{Api, Dialect};

fn prefill_of(api: Api, body: &str) -> Value {
    let body = fixtures::body(body);
    let leg = prefill(Dialect::Nixl, fixtures::ask(api, &body, &fixtures::pair())).unwrap();
    serde_json::from_slice(&leg.body).unwrap()
}

#[test]
fn a_prefill_leg_makes_one_token_and_no_stream() {
    let body = prefill_of(
        Api::Chat,
        r#"{"model":"m","messages":[],"stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":50,"min_tokens":9}"#,
    );
    let keep: Value = serde_json::from_str(KEEP).unwrap();
    assert_eq!(
        body,
        json!({"model":"m","messages":[],"stream":false,"max_tokens":1,"max_completion_tokens":1,
            "kv_transfer_params":keep})
    );
    let body = prefill_of(Api::Completions, r#"{"prompt":[1,2],"max_tokens":5}"#);
    assert_eq!(body, json!({"prompt":[1,2],"max_tokens":1,"stream":false,"kv_transfer_params":keep}));
    let body = prefill_of(Api::Responses, r#"{"input":"x","background":true}"#);
    assert_eq!(
        body,
        json!({"input":"x","max_output_tokens":1,"store":false,"stream":false,"kv_transfer_params":keep})
    );
    let body =
        prefill_of(Api::Generate, r#"{"token_ids":[1],"sampling_params":{"max_tokens":9,"temperature":0}}"#);
    assert_eq!(body["sampling_params"], json!({"max_tokens":1,"temperature":0}));
    let body = prefill_of(Api::Generate, r#"{"token_ids":[1]}"#);
    assert_eq!(body["sampling_params"], json!({"max_tokens":1}));
}

#[test]
fn a_decode_leg_is_the_clients_body_and_what_was_handed_over() {
    let body = fixtures::body(r#"{"model":"m", "seed":12345678901234567890, "stream" : true}"#);
    let answer = br#"{"id":"x","kv_transfer_params":{"do_remote_prefill":true, "remote_block_ids":[[1,2]],"new":1e400}}"#;
    let leg = decode(Dialect::Nixl, fixtures::ask(Api::Chat, &body, &fixtures::pair()), answer).unwrap();
    assert_eq!(
        std::str::from_utf8(&leg.body).unwrap(),
        r#"{"kv_transfer_params":{"do_remote_prefill":true, "remote_block_ids":[[1,2]],"new":1e400},"model":"m", "seed":12345678901234567890, "stream" : true}"#
    );
}

#[test]
fn what_cannot_be_split_says_why() {
    let pair = fixtures::pair();
    let body = fixtures::body("{}");
    let ask = |api| fixtures::ask(api, &body, &pair);
    let decode = |answer: &[u8]| decode(Dialect::Nixl, ask(Api::Chat), answer).unwrap_err();
    assert_eq!(decode(b"{}"), DialectError::NothingHandedOver(PARAMS));
    assert_eq!(decode(br#"{"kv_transfer_params":null}"#), DialectError::NothingHandedOver(PARAMS));
    assert!(matches!(decode(b"oops"), DialectError::Answer(_)));
    assert_eq!(prefill(Dialect::Nixl, ask(Api::Embeddings)), Err(DialectError::Api));
    let list = Bytes::from_static(b"[]");
    let ask = fixtures::ask(Api::Chat, &list, &pair);
    assert!(matches!(prefill(Dialect::Nixl, ask), Err(DialectError::Body(_))));
}
