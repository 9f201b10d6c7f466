//! Prefill at one endpoint and decode at another, in each dialect, against engines that check every field.

use sluicegate_tests::{
    Engine, PluginDir, Reply, Router, RouterBuilder, SimEngine, Value, digest, guest, json,
};

const SPEED: [&str; 4] = ["--speed-up", "50", "--block-size", "16"];

async fn engine(connector: &str, role: &str, more: &[&str]) -> SimEngine {
    SimEngine::with(&[&SPEED[..], &["--connector", connector, "--role", role], more].concat()).await
}

/// A pool that always splits.
fn splitting(dialect: &str, prefill: &SimEngine, decode: &SimEngine) -> RouterBuilder {
    let endpoint = |engine: &SimEngine, role: &str| {
        let port = engine.id().rsplit(':').next().unwrap().to_owned();
        format!("{{ url = \"{}\", role = \"{role}\", bootstrap_port = {port} }}", engine.url())
    };
    Router::with(format!(
        "[[plugin]]\nname = \"pd-split\"\nconfig = {{ mode = \"always\" }}\n[[pool]]\nname = \"p\"\nmodels = [\"tiny\"]\n\
         dialect = \"{dialect}\"\nendpoints = [{}, {}]\n",
        endpoint(prefill, "prefill"),
        endpoint(decode, "decode")
    ))
}

fn prompt() -> String {
    "a document with many words that has to be read before anything can be said about it ".repeat(40)
}

fn chat() -> String {
    json!({"model": "tiny", "max_tokens": 12, "messages": [{"role": "user", "content": prompt()}]})
        .to_string()
}

fn said(answer: &Value) -> String {
    let choice = &answer["choices"][0];
    let text = choice["message"]["content"].as_str().or(choice["text"].as_str());
    text.unwrap_or_default().to_owned()
}

fn streamed(events: &[String]) -> String {
    let pieces = events.iter().filter_map(|event| serde_json::from_str::<Value>(event).ok());
    pieces.filter_map(|event| event["choices"][0]["delta"]["content"].as_str().map(str::to_owned)).collect()
}

/// Every kind of client, and what the engines say afterwards.
async fn speaks(dialect: &str, more: &[&str]) {
    let (prefill, decode) = (engine(dialect, "prefill", more).await, engine(dialect, "decode", more).await);
    let alone = SimEngine::with(&SPEED).await;
    let router = splitting(dialect, &prefill, &decode).start().await;
    let whole = sluicegate_tests::post(format!("{}/v1/chat/completions", alone.url()), chat());
    let expected = said(&whole.send().await.expect(200).await.json().await);
    assert!(!expected.is_empty());

    let request = router.post("/v1/chat/completions", chat()).header("x-request-id", "split");
    let answer = request.send().await.expect(200).await;
    assert_eq!(answer.endpoint(), decode.id());
    assert_eq!(said(&answer.json().await), expected);
    let decision = router.decision("split").await;
    assert_eq!(decision["prefill"], prefill.id(), "{decision:#}");
    assert_eq!(
        (&decision["split"]["outcome"], &decision["split"]["dialect"]),
        (&json!("split"), &json!(dialect))
    );

    let stream = router.post("/v1/chat/completions", chat()).streamed().send().await.expect(200).await;
    assert_eq!(streamed(&stream.events().await), expected);

    let completion = json!({"model": "tiny", "prompt": prompt(), "max_tokens": 9}).to_string();
    let split = router.post("/v1/completions", completion.clone()).send().await.expect(200).await;
    let whole = sluicegate_tests::post(format!("{}/v1/completions", alone.url()), completion).send().await;
    assert_eq!(said(&split.json().await), said(&whole.expect(200).await.json().await));

    let state = decode.state().await;
    assert!(state["cache"]["external_tokens"].as_u64().unwrap() > 500, "{state:#}");
    sluicegate_tests::wait::until("nothing is kept", async || prefill.state().await["leases"]["held"] == 0)
        .await;
    assert_eq!(prefill.state().await["leases"]["expired"], 0);
    assert!(router.metric("sluicegate_splits_total", &[("outcome", "split")]).await >= 3.0);
    assert!(router.metric("sluicegate_split_leases", &[]).await.abs() < 0.5);
    assert!(router.metric("sluicegate_split_faults_total", &[]).await.abs() < 0.5);
}

#[tokio::test]
async fn nixl_is_spoken_end_to_end() {
    speaks("nixl", &[]).await;
}

#[tokio::test]
async fn mooncake_is_spoken_end_to_end() {
    speaks("mooncake", &[]).await;
}

#[tokio::test]
async fn offloading_is_spoken_end_to_end() {
    speaks("offloading", &[]).await;
}

#[tokio::test]
async fn sglang_is_spoken_end_to_end() {
    speaks("sglang", &[]).await;
}

#[tokio::test]
async fn a_shared_store_needs_no_words() {
    let store = tempfile::tempdir().unwrap();
    speaks("storage", &["--store", store.path().to_str().unwrap()]).await;
}

#[tokio::test]
async fn a_batch_of_prompts_has_a_room_for_each_in_sglang() {
    let (prefill, decode) = (engine("sglang", "prefill", &[]).await, engine("sglang", "decode", &[]).await);
    let alone = SimEngine::with(&SPEED).await;
    let router = splitting("sglang", &prefill, &decode).start().await;
    let body =
        json!({"model": "tiny", "prompt": ["one prompt", "another prompt"], "max_tokens": 5}).to_string();
    let split = router.post("/v1/completions", body.clone()).send().await.expect(200).await.json().await;
    let whole = sluicegate_tests::post(format!("{}/v1/completions", alone.url()), body).send().await;
    let whole = whole.expect(200).await.json().await;
    assert_eq!(split["choices"][0]["text"], whole["choices"][0]["text"]);
    assert_eq!(split["choices"][1]["text"], whole["choices"][1]["text"]);
}

#[tokio::test]
async fn engines_that_do_nothing_but_split_are_never_asked_for_the_whole() {
    let (prefill, decode) = (engine("sglang", "prefill", &[]).await, engine("sglang", "decode", &[]).await);
    let config = format!(
        "[[plugin]]\nname = \"pd-split\"\nconfig = {{ mode = \"never\" }}\n[[pool]]\nname = \"p\"\nmodels = [\"tiny\"]\n\
         engine = \"sglang\"\nendpoints = [{{ url = \"{}\", role = \"prefill\", bootstrap_port = {} }}, \
         {{ url = \"{}\", role = \"decode\" }}]\n",
        prefill.url(),
        prefill.id().rsplit(':').next().unwrap(),
        decode.url()
    );
    let router = Router::with(config).start().await;
    for body in [
        chat(),
        json!({"model": "tiny", "n": 2, "max_tokens": 3, "messages": [{"role": "user", "content": "hi"}]})
            .to_string(),
    ] {
        let answer = router.post("/v1/chat/completions", body).send().await.expect(200).await;
        assert_eq!(answer.endpoint(), decode.id());
        answer.bytes().await;
    }
}

#[tokio::test]
async fn what_would_be_answered_otherwise_is_not_split() {
    let (prefill, decode) = (engine("nixl", "prefill", &[]).await, engine("nixl", "decode", &[]).await);
    let router = splitting("nixl", &prefill, &decode).start().await;
    for (path, body, outcome) in [
        ("/v1/completions", json!({"model": "tiny", "prompt": prompt(), "max_tokens": 4, "n": 2}), "choices"),
        ("/v1/completions", json!({"model": "tiny", "prompt": ["a b", "c d"], "max_tokens": 4}), "batch"),
        (
            "/v1/completions",
            json!({"model": "tiny", "prompt": "x", "max_tokens": 4, "echo": true}),
            "prompt_wanted",
        ),
        ("/v1/embeddings", json!({"model": "tiny", "input": prompt()}), "api"),
        (
            "/v1/completions",
            json!({"model": "tiny", "prompt": "x", "max_tokens": 4, "use_beam_search": true}),
            "beam_search",
        ),
        ("/v1/completions", json!({"model": "tiny", "prompt": prompt(), "max_tokens": 1}), "one_token"),
        (
            "/v1/chat/completions",
            json!({"model": "tiny", "max_tokens": 4, "messages": [{"role": "user", "content": "x"}],
                "tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "required"}),
            "tool_choice",
        ),
    ] {
        let request = router.post(path, body.to_string()).header("x-request-id", outcome);
        let answer = request.send().await.expect(200).await;
        assert_eq!(answer.endpoint(), decode.id());
        answer.bytes().await;
        assert_eq!(router.decision(outcome).await["split"]["outcome"], outcome);
        let counted = router.metric("sluicegate_splits_total", &[("outcome", outcome)]).await;
        assert!((counted - 1.0).abs() < 0.1, "{outcome}: {counted}");
    }
    assert_eq!(prefill.state().await["received"], 0);
    // These are, and come out right.
    for more in [
        json!({"logprobs": true}),
        json!({"response_format": {"type": "text"}}),
        json!({"response_format": {"type": "json_object"}}),
        json!({"guided_json": {"type": "object"}}),
        json!({"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "auto"}),
        json!({"n": 1, "best_of": 1, "echo": false, "prompt_logprobs": null}),
    ] {
        let mut body: Value = serde_json::from_str(&chat()).unwrap();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let request = router.post("/v1/chat/completions", body.to_string()).header("x-request-id", "right");
        request.send().await.expect(200).await.bytes().await;
        assert_eq!(router.decision("right").await["split"]["outcome"], "split", "{more}");
    }
}

#[tokio::test]
async fn what_a_client_says_of_hand_overs_is_removed_and_counted() {
    let (prefill, decode) = (engine("nixl", "prefill", &[]).await, engine("nixl", "decode", &[]).await);
    let router = splitting("nixl", &prefill, &decode).start().await;
    let request = router
        .post("/v1/chat/completions", chat())
        .with("kv_transfer_params", json!({"do_remote_prefill": true, "remote_host": "10.0.0.9"}))
        .with("bootstrap_room", 7)
        .with("disaggregated_params", json!({"request_type": "context_only"}))
        .header("x-prefiller-host-port", "10.0.0.9:1")
        .header("x-request-id", "___prefill_addr_10.0.0.9:1___decode_addr_10.0.0.9:2_1");
    let answer = request.send().await.expect(200).await;
    assert!(!answer.request_id().contains("_addr_"));
    answer.bytes().await;
    for place in ["body", "header", "request_id"] {
        let counted = router.metric("sluicegate_internal_fields_removed_total", &[("place", place)]).await;
        assert!((counted - 1.0).abs() < 0.1, "{place}: {counted}");
    }
}

#[tokio::test]
async fn log_probabilities_of_the_prompt_come_from_prefill() {
    let (prefill, decode) = (Engine::start().await, Engine::start().await);
    let config = format!(
        "[[plugin]]\nname = \"pd-split\"\nconfig = {{ mode = \"always\" }}\n[[pool]]\nname = \"p\"\nmodels = [\"tiny\"]\n\
         dialect = \"sglang\"\nendpoints = [{{ url = \"{}\", role = \"prefill\" }}, {{ url = \"{}\", role = \"decode\" }}]\n",
        prefill.url(),
        decode.url()
    );
    let router = Router::with(config).start().await;
    prefill.next(Reply::plain(
        200,
        r#"{"text":"","meta_info":{"input_token_logprobs":[[null,1,null],[-0.5,2,null]]}}"#,
    ));
    decode.next(Reply::plain(200, r#"{"text":"so","meta_info":{"id":"x","input_token_logprobs":[]}}"#));
    let body = json!({"model": "tiny", "text": "hello there", "return_logprob": true,
        "sampling_params": {"max_new_tokens": 4}});
    let answer = router.post("/generate", body.to_string()).send().await.expect(200).await;
    assert_eq!(answer.endpoint(), decode.id());
    let answer = answer.text().await;
    assert_eq!(
        answer,
        r#"{"text":"so","meta_info":{"id":"x","input_token_logprobs":[[null,1,null],[-0.5,2,null]]}}"#
    );
    assert_eq!(prefill.only().body, decode.only().body);
}

#[tokio::test]
async fn encode_legs_run_first() {
    let folder = PluginDir::new();
    folder.put("encode-first", &guest("encode-first"));
    let mut engines = Vec::new();
    for _ in 0..3 {
        engines.push(Engine::start().await);
    }
    engines[1].always(Reply::plain(200, r#"{"kv_transfer_params":{"do_remote_prefill":true}}"#));
    let roles = ["decode", "prefill", "prefill"];
    let list = engines
        .iter()
        .zip(roles)
        .map(|(engine, role)| format!("{{ url = \"{}\", role = \"{role}\" }}", engine.url()));
    let list: Vec<_> = list.collect();
    let config = format!(
        "[[chain]]\nname = \"c\"\nplugins = [\"encode-first\"]\n[[pool]]\nname = \"p\"\nchain = \"c\"\nmodels = [\"tiny\"]\n\
         engine = \"vllm\"\nendpoints = [{}]\n",
        list.join(", ")
    );
    let router = Router::with(config).plugins(&folder).start().await;
    router.plugin_runs("encode-first", &digest(&guest("encode-first"))).await;
    router.chat("what is in the picture").send().await.expect(200).await.bytes().await;
    let (encoded, prefilled) = (engines[2].only(), engines[1].only());
    assert!(String::from_utf8_lossy(&encoded.body).contains("\"max_tokens\":1"));
    assert!(!String::from_utf8_lossy(&encoded.body).contains("kv_transfer_params"));
    assert!(String::from_utf8_lossy(&prefilled.body).contains("do_remote_decode"));
    assert!(String::from_utf8_lossy(&engines[0].only().body).contains("do_remote_prefill\":true"));
    let legs = router.metric("sluicegate_leg_seconds_count", &[("stage", "encode")]).await;
    assert!((legs - 1.0).abs() < 0.1);
}
