//! What the client sent is what the engine gets.

use http::Method;
use sluicegate_tests::{Connection, Engine, Reply, Request, Router, json};

/// A body that no serialiser would write: spacing, duplicates, escapes, numbers and keys of our own.
const ODD: &str = "{ \"messages\" :[ {\"role\":\"user\",\"content\":\"caf\\u00e9 \\ud83d\\ude00\"} ],\n\t\"model\":\"tiny\",\
    \"temperature\":1.0e+0, \"temperature\": 0.70, \"seed\":12345678901234567890, \"x-unknown\":{\"b\":1,\"a\":[ ]},\r\n\
    \"max_tokens\" : 16 }\n";

#[tokio::test]
async fn a_body_arrives_byte_for_byte() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;

    router.post("/v1/chat/completions", ODD).send().await.expect(200).await;

    assert_eq!(engine.only().body, ODD);
}

#[tokio::test]
async fn every_api_arrives_byte_for_byte_and_its_answer_comes_back() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;
    for (path, body) in [
        (
            "/v1/chat/completions",
            r#"{"model":"tiny" , "messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}"#,
        ),
        ("/v1/completions", r#"{"model":"tiny","prompt":"hi"  }"#),
        ("/v1/completions", r#"{"model":"tiny","prompt":[5,6, 7]}"#),
        ("/v1/responses", r#"{"model":"tiny","input":"hi" }"#),
        ("/v1/messages", r#"{"model":"tiny","max_tokens":4,"messages":[ {"role":"user","content":"hi"}]}"#),
        ("/v1/embeddings", r#"{"model":"tiny","input":["hi","there" ]}"#),
    ] {
        engine.next(Reply::plain(200, r#"{ "odd" : 1.0 , "odd":2 }"#));
        let answer = router.post(path, body).send().await.expect(200).await;
        assert_eq!(answer.text().await, r#"{ "odd" : 1.0 , "odd":2 }"#, "{path}");
        let received = engine.received().pop().unwrap();
        assert_eq!((received.path.as_str(), &received.body[..]), (path, body.as_bytes()));
    }
}

#[tokio::test]
async fn paths_that_are_no_inference_api_pass_through() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;
    engine.always(Reply::plain(418, "short and stout").with("x-engine", "tea"));

    let url = router.url("/tokenize/a%20b?q=1&q=%2F");
    let request = Request::new(Method::PUT, &url, "no JSON at all \u{0}".into());
    let answer = request.header("x-custom", "kept").send().await;

    assert_eq!(answer.status(), 418);
    assert_eq!(answer.header("x-engine"), Some("tea"));
    assert_eq!(answer.endpoint(), engine.id());
    assert_eq!(answer.text().await, "short and stout");
    let received = engine.only();
    assert_eq!((received.method.as_str(), received.path.as_str()), ("PUT", "/tokenize/a%20b?q=1&q=%2F"));
    assert_eq!(received.body, "no JSON at all \u{0}");
    assert_eq!(received.header("x-custom"), Some("kept"));
}

#[tokio::test]
async fn answers_say_who_answered_and_under_which_id() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;

    let answer = router.chat("hello").header("x-request-id", "my-own-id").send().await.expect(200).await;
    assert_eq!(answer.request_id(), "my-own-id");
    assert_eq!(answer.endpoint(), engine.id());

    let [one, two] = [router.chat("hello").send().await, router.chat("hello").send().await];
    assert!(!one.request_id().is_empty());
    assert_ne!(one.request_id(), two.request_id());
}

#[tokio::test]
async fn what_steers_engines_from_within_is_not_taken_from_a_client() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;

    let request = router.chat("hello").with("kv_transfer_params", json!({"remote_host": "10.0.0.1"}));
    let request =
        request.header("x-prefiller-host-port", "10.0.0.1:80").header("x-request-id", "a_addr_10.0.0.1:80");
    let answer = request.send().await;

    if answer.status() == 200 {
        let received = engine.only();
        assert_eq!(received.header("x-prefiller-host-port"), None);
        assert!(!String::from_utf8_lossy(&received.body).contains("kv_transfer_params"));
        assert!(!received.header("x-request-id").unwrap_or_default().contains("10.0.0.1"));
    } else {
        assert_eq!(answer.status(), 400);
        assert!(engine.received().is_empty());
    }
}

/// Engines take such members on paths of theirs too.
#[tokio::test]
async fn nor_on_paths_that_are_no_inference_api() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;
    engine.always(Reply::plain(200, "ok"));
    let body =
        "{\"model\":\"tiny\", \"bootstrap_room\":7,\"kv_transfer_params\":{\"a\":1}, \"kept\" : [1.0]}";
    for path in ["/invocations", "/v1/completions/render", "/v1/rerank"] {
        let request = Request::new(Method::POST, &router.url(path), body.into());
        request.header("content-type", "application/json").send().await.expect(200).await;
        let received = engine.received().pop().unwrap();
        assert_eq!(received.path, path);
        assert_eq!(
            String::from_utf8_lossy(&received.body),
            "{\"model\":\"tiny\", \"kept\" : [1.0]}",
            "{path}"
        );
    }
    let request = Request::new(Method::POST, &router.url("/invocations"), "{\"bootstrap_room\":NaN}".into());
    request.header("content-type", "application/json").send().await.expect(400).await;
    Request::new(Method::POST, &router.url("/invocations"), body.into()).send().await.expect(200).await;
    let received = engine.received().pop().unwrap();
    assert_eq!(received.header("content-type"), Some("application/octet-stream"), "it is not taken for JSON");
}

/// Some servers take them for the path that they look like, and then none of what is done for it would be done.
#[tokio::test]
async fn other_ways_to_write_the_path_of_an_inference_api_are_refused() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;
    for path in ["/v1/chat/completion%73", "//v1/chat/completions", "/v1%2Fchat/completions"] {
        let answer =
            Request::new(Method::POST, &router.url(path), "{}".into()).send().await.expect(400).await;
        assert!(answer.text().await.contains("/v1/chat/completions"), "{path}");
    }
    assert!(engine.received().is_empty());
}

#[tokio::test]
async fn connections_are_reused_on_both_sides() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;

    let mut connection = Connection::open(&router.url("")).await;
    for turn in 0..20 {
        let answer = connection.send(router.chat(&format!("turn {turn}"))).await.expect(200).await;
        answer.bytes().await;
    }

    let mut used: Vec<usize> = engine.received().iter().map(|received| received.connection).collect();
    used.dedup();
    assert_eq!(used.len(), 1, "connections to the engine: {used:?}");
}

#[tokio::test]
async fn a_large_body_arrives_whole() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;
    let long = "many words ".repeat(200_000);

    router.chat(&long).send().await.expect(200).await;

    let received: sluicegate_tests::Value = serde_json::from_slice(&engine.only().body).unwrap();
    assert_eq!(received["messages"][0]["content"], long);
}
