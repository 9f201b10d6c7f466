//! Errors in the shape of the API that was called.

use sluicegate_tests::{Answer, Engine, RawConnection, Router, Value, json};

async fn openai(answer: Answer) -> Value {
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert!(!answer.request_id().is_empty());
    let body = answer.json().await;
    assert!(body["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{body}");
    assert!(body["error"]["type"].is_string(), "{body}");
    body["error"].clone()
}

async fn anthropic(answer: Answer) -> Value {
    let body = answer.json().await;
    assert_eq!(body["type"], "error", "{body}");
    assert!(body["error"]["message"].is_string(), "{body}");
    body["error"].clone()
}

#[tokio::test]
async fn a_body_that_is_no_json_is_refused_and_never_sent() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;
    for body in ["", "{", "[]", "nonsense", "{\"model\":\"tiny\",}", "\u{0}"] {
        let error = openai(router.post("/v1/chat/completions", body).send().await.expect(400).await).await;
        assert_eq!(error["type"], "invalid_request_error", "{body}");
    }
    let error = anthropic(router.post("/v1/messages", "{").send().await.expect(400).await).await;
    assert_eq!(error["type"], "invalid_request_error");
    assert!(engine.received().is_empty());
}

#[tokio::test]
async fn an_unknown_model_is_not_found() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;

    let answer = router.chat("hello").with("model", "nobody-knows").send().await.expect(404).await;
    let error = openai(answer).await;
    assert_eq!(error["code"], "model_not_found");
    assert!(error["message"].as_str().unwrap().contains("nobody-knows"), "{error}");

    let body =
        json!({"model": "nobody-knows", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]});
    let error = anthropic(router.post("/v1/messages", body.to_string()).send().await.expect(404).await).await;
    assert_eq!(error["type"], "not_found_error");
    assert!(engine.received().is_empty());
}

#[tokio::test]
async fn a_body_over_the_limit_is_too_large() {
    let engine = Engine::start().await;
    let config =
        format!("[limits]\nbody_bytes = 10000\n[[pool]]\nname = \"p\"\nendpoints = [\"{}\"]\n", engine.url());
    let router = Router::with(config).start().await;

    let error = openai(router.chat(&"x".repeat(20_000)).send().await.expect(413).await).await;
    assert!(error["message"].as_str().unwrap().contains("10000"), "{error}");
    router.chat(&"x".repeat(5_000)).send().await.expect(200).await;
    assert_eq!(engine.received().len(), 1);
}

#[tokio::test]
async fn without_an_endpoint_that_is_up_it_is_unavailable() {
    let engine = Engine::start().await;
    let (url, _) = (engine.url(), engine.crash().await);
    let config = format!(
        "[[pool]]\nname = \"p\"\nmodels = [\"tiny\"]\nendpoints = [\"{url}\"]\nqueue = {{ empty_ttl_ms = 200 }}\n"
    );
    let router = Router::with(config).unready().start().await;

    let answer = router.chat("hello").send().await.expect(503).await;
    assert_eq!(answer.header("x-llm-d-request-dropped-reason"), Some("rejected-no-endpoints"));
    assert!(answer.header("retry-after").is_some());
    assert_eq!(openai(answer).await["code"], "no_endpoint_available");
}

#[tokio::test]
async fn a_path_with_odd_bytes_does_no_harm() {
    let engine = Engine::start().await;
    let mut router = Router::to(&[&engine]).start().await;
    for target in
        ["/%00%ff/..%2f", "/v1/%63hat/completions", "//v1//chat", "/\u{7f}", "*", "http://elsewhere/x"]
    {
        let mut connection = RawConnection::open(&router.url("")).await;
        connection.write(format!("GET {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).await;
        let answer = connection.read_to_end().await;
        assert!(answer.starts_with("HTTP/1.1 "), "{target}: {answer}");
    }
    assert!(router.running());
    router.chat("still there").send().await.expect(200).await;
}

#[tokio::test]
async fn an_error_of_the_engine_comes_back_as_it_is() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;
    let said = r#"{"error" : {"message":"too long","code":400}}"#;
    engine.next(sluicegate_tests::Reply::plain(400, said));
    assert_eq!(router.chat("hello").send().await.expect(400).await.text().await, said);
    assert_eq!(engine.received().len(), 1);
}
