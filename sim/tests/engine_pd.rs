//! Prefill and decode on two engines.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper that fails is a test that fails"
)]

mod support;

use serde_json::{Value, json};
use support::Engine;

const PATH: &str = "/v1/completions";

fn body(prompt: &str, max_tokens: u32, params: Option<Value>) -> Value {
    let mut body = json!({"model": "sim", "prompt": prompt, "max_tokens": max_tokens});
    if let Some(params) = params {
        body["kv_transfer_params"] = params;
    }
    body
}

fn prefill_params() -> Value {
    json!({"do_remote_decode": true, "do_remote_prefill": false, "remote_engine_id": null, "remote_block_ids": null,
        "remote_host": null, "remote_port": null})
}

fn pair(more: &str) -> (Engine, Engine) {
    let prefill = Engine::start(&format!("--role prefill --name p --speed-up 100 {more}"));
    let decode = Engine::start("--role decode --name d --speed-up 100");
    (prefill, decode)
}

#[test]
fn the_cache_is_handed_over() {
    let (prefill, decode) = pair("");
    let prompt = "abcd".repeat(500);
    let leg = prefill.post(PATH, &body(&prompt, 1, Some(prefill_params()))).json();
    let params = leg["kv_transfer_params"].clone();
    assert_eq!(params["remote_block_ids"][0].as_array().unwrap().len(), 32);
    assert_eq!(prefill.state()["leases"]["held"], 1);
    let answer = decode.post(PATH, &body(&prompt, 6, Some(params.clone()))).json();
    assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 500);
    // The same text as from one engine alone.
    let alone = prefill.post(PATH, &body(&prompt, 6, None)).json();
    assert_eq!(answer["choices"][0]["text"], alone["choices"][0]["text"]);
    let source = |name: &str| {
        decode.metric(&format!(
            "vllm:prompt_tokens_by_source_total{{engine=\"0\",model_name=\"sim\",source=\"{name}\"}}"
        ))
    };
    assert_eq!((source("external_kv_transfer"), source("local_compute")), (500.0, 0.0));
    prefill.wait("released", |state| state["leases"]["held"] == 0 && state["cache"]["usage"] == 0.0);
    let again = decode.post(PATH, &body(&prompt, 6, Some(params)));
    assert_eq!(again.status, 500);
    assert!(again.body.contains("fetched before"), "{}", again.body);
}

#[test]
fn what_a_router_alters_is_found_out() {
    let (prefill, decode) = pair("");
    let prompt = "abcd".repeat(100);
    let params =
        prefill.post(PATH, &body(&prompt, 1, Some(prefill_params()))).json()["kv_transfer_params"].clone();
    let with = |field: &str, value: Value| {
        let mut altered = params.clone();
        altered[field] = value;
        decode.post(PATH, &body(&prompt, 6, Some(altered)))
    };
    for (field, value) in [("remote_port", json!("1")), ("tp_size", json!(2)), ("extra", json!(1))] {
        let answer = with(field, value);
        assert_eq!(answer.status, 400);
        assert_eq!(answer.json()["error"]["param"], format!("kv_transfer_params.{field}"));
    }
    for (field, value, said) in [
        ("remote_request_id", json!("other"), "unknown"),
        ("remote_engine_id", json!("other"), "remote_engine_id"),
        ("remote_block_ids", json!([[1]]), "remote_block_ids"),
        ("remote_num_tokens", json!(7), "remote_num_tokens"),
    ] {
        let answer = with(field, value);
        assert!(answer.status == 500 && answer.body.contains(said), "{}", answer.body);
    }
    let other = decode.post(PATH, &body("another prompt", 6, Some(params)));
    assert!(other.status == 500 && other.body.contains("the prompt is not the one"), "{}", other.body);
}

#[test]
fn a_leg_is_taken_only_where_and_how_it_belongs() {
    let (prefill, decode) = pair("");
    let wrong_place = decode.post(PATH, &body("abcd", 1, Some(prefill_params())));
    assert_eq!(wrong_place.json()["error"]["param"], "kv_transfer_params.do_remote_decode");
    let long = prefill.post(PATH, &body("abcd", 2, Some(prefill_params())));
    assert_eq!((long.status, &long.json()["error"]["param"]), (400, &json!("max_tokens")));
    let mut streamed = body("abcd", 1, Some(prefill_params()));
    streamed["stream"] = json!(true);
    assert_eq!(prefill.post(PATH, &streamed).json()["error"]["param"], "stream");
}

#[test]
fn a_lease_that_ran_out_is_reported() {
    let (prefill, decode) = pair("--lease-s 0.01");
    let params =
        prefill.post(PATH, &body("abcd", 1, Some(prefill_params()))).json()["kv_transfer_params"].clone();
    prefill.wait("expired", |state| state["leases"]["expired"] == 1);
    let late = decode.post(PATH, &body("abcd", 6, Some(params)));
    assert!(late.status == 500 && late.body.contains("its lease ran out"), "{}", late.body);
}
