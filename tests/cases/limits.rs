//! What clients may take up, each with a status and a count of its own.

use std::time::Duration;

use sluicegate_tests::{Act, Engine, Over, RawAnswer, RawConnection, RawEngine, Reply, Router, wait};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn router(url: &str, limits: &str) -> Router {
    let config = format!("[limits]\n{limits}\n[[pool]]\nname = \"default\"\nendpoints = [{url:?}]\n");
    Router::with(config).unready().start().await
}

async fn hits(router: &Router, limit: &str) -> f64 {
    router.metric("sluicegate_limit_hits_total", &[("limit", limit)]).await
}

/// The only answer to what no request was sent for.
async fn told(router: &Router) -> RawAnswer {
    let mut connection = RawConnection::open(&router.url("")).await;
    let read = connection.read_to_end().await;
    RawAnswer::all(&read).remove(0)
}

#[tokio::test]
async fn one_connection_too_many_is_told_so() {
    let engine = Engine::start().await;
    let router = router(&engine.url(), "connections = 2").await;
    let mut held = RawConnection::open(&router.url("")).await;
    let other = RawConnection::open(&router.url("")).await;
    wait::until("both are counted", async || router.metric("sluicegate_connections", &[]).await == 2.0).await;
    let answer = told(&router).await;
    assert_eq!((answer.status, &answer.json["error"]["code"]), (503, &"overloaded".into()), "{answer:?}");
    assert_eq!((answer.header("retry-after"), answer.header("connection")), (Some("1"), Some("close")));
    assert_eq!(hits(&router, "connections").await, 1.0);
    held.write("GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(held.read_until("\"list\"").await.starts_with("HTTP/1.1 200"));
    drop(other);
    wait::until("there is room again", async || {
        router.get("/v1/models").try_send().await.is_ok_and(|answer| answer.status() == 200)
    })
    .await;
}

#[tokio::test]
async fn one_request_too_many_is_told_so() {
    let engine = Engine::start().await;
    let router = router(&engine.url(), "requests = 1").await;
    let live = engine.next_live();
    let mut first = router.chat("hello").streamed().send().await.expect(200).await;
    live.event(r#"{"choices":[{"index":0,"delta":{"content":"a"}}]}"#).await;
    first.event().await.unwrap();
    let answer = router.post("/v1/messages", r#"{"model":"tiny"}"#).send().await.expect(503).await;
    assert_eq!(answer.header("x-llm-d-request-dropped-reason"), Some("rejected-saturated"));
    let error = answer.json().await;
    assert_eq!((&error["type"], error["error"]["message"].is_string()), (&"error".into(), true), "{error}");
    assert_eq!(hits(&router, "requests").await, 1.0);
    drop(live);
    first.bytes().await;
    router.chat("hello").send().await.expect(200).await;
}

#[tokio::test]
async fn bodies_are_bounded_together_and_let_go_of_with_their_requests() {
    let engine = Engine::start().await;
    let router = router(&engine.url(), "buffered_bytes = 20000").await;
    engine.always(Reply::hang());
    let long = "x".repeat(12_000);
    let first = tokio::spawn(router.chat(&long).try_send());
    engine.received_at_least(1).await;
    assert!(router.metric("sluicegate_buffered_bytes", &[]).await >= 12_000.0);
    let answer = router.chat(&long).send().await.expect(503).await;
    assert_eq!(answer.json().await["error"]["code"], "overloaded");
    assert_eq!(hits(&router, "buffered_bytes").await, 1.0);
    first.abort();
    let _ = first.await;
    wait::until("nothing is held", async || router.metric("sluicegate_buffered_bytes", &[]).await == 0.0)
        .await;
    engine.always(Reply::says("fine"));
    router.chat(&long).send().await.expect(200).await.bytes().await;
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_given_up() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n".to_vec();
    let event = format!("data: {}\n\n", "y".repeat(60_000));
    let engine = RawEngine::start(Act::Repeat(head, event.into_bytes())).await;
    let router = router(&engine.url(), "write_timeout_ms = 300").await;
    let body = r#"{"model":"tiny","stream":true,"messages":[{"role":"user","content":"hello"}]}"#;
    let length = body.len();
    let mut one = RawConnection::open(&router.url("")).await;
    one.write(format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}"
    ))
    .await;
    wait::until("it is given up", async || hits(&router, "write_timeout_ms").await >= 1.0).await;

    // The same of one answer in a connection whose client is there, but leaves its window shut.
    let stream = TcpStream::connect(router.url("").strip_prefix("http://").unwrap()).await.unwrap();
    let mut two = Over::two(stream).await;
    let answer = two.send(router.post("/v1/chat/completions", body)).await.expect(200).await;
    wait::until("it is given up", async || hits(&router, "write_timeout_ms").await >= 2.0).await;
    wait::until("nothing is left of either", async || {
        let endpoint = router.endpoint(&engine.id()).await;
        endpoint["load"]["requests"] == 0 && router.metric("sluicegate_requests_in_flight", &[]).await == 0.0
    })
    .await;
    drop((one, answer));
}

#[tokio::test]
async fn what_drips_is_given_up() {
    let engine = Engine::start().await;
    let router = router(&engine.url(), "header_timeout_ms = 400\nbody_timeout_ms = 400").await;
    // A byte now and then keeps neither a head nor a body waiting.
    for (start, limit) in [
        ("GET / HTTP/1.1\r\nx-drip: ", "header_timeout_ms"),
        ("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 5000\r\n\r\n", "body_timeout_ms"),
    ] {
        let stream = TcpStream::connect(router.url("").strip_prefix("http://").unwrap()).await.unwrap();
        let (mut read, mut write) = stream.into_split();
        write.write_all(start.as_bytes()).await.unwrap();
        let dripping = tokio::spawn(async move {
            while write.write_all(b"a").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(40)).await;
            }
        });
        let mut answer = Vec::new();
        let _ = wait::patiently("an answer", read.read_to_end(&mut answer)).await;
        assert!(answer.starts_with(b"HTTP/1.1 408"), "{}", answer.escape_ascii());
        assert_eq!(hits(&router, limit).await, 1.0, "{limit}");
        dripping.abort();
    }
    assert!(engine.received().is_empty());
}
