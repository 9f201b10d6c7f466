//! Engines that do what no engine should: what the client gets, and what is left behind.

use sluicegate_tests::{Act, Engine, RawConnection, RawEngine, Router, wait};

const CHAT: &str = r#"{"model":"tiny","messages":[{"role":"user","content":"hello"}]}"#;

fn long(start: &str, filler: &str, times: usize) -> Vec<u8> {
    [start.as_bytes(), filler.repeat(times).as_bytes()].concat()
}

/// What is no answer is told as a failure of the endpoint, in the API's shape.
#[tokio::test]
async fn what_is_no_answer_is_a_failure_of_the_endpoint() {
    let garbage = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 this is TLS".to_vec(),
        b"HTTP/2.0 200 OK\r\n\r\n".to_vec(),
        b"HTTP/1.1 two hundred\r\n\r\n".to_vec(),
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n".to_vec(),
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello".to_vec(),
        b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\nhello".to_vec(),
        b"HTTP/1.1 200 OK\r\ncontent-le".to_vec(),
        long("HTTP/1.1 200 OK\r\n", "x-more: and more\r\n", 200),
        long("HTTP/1.1 200 OK\r\nx-long: ", "y", 1 << 20),
        Vec::new(),
    ];
    let engine = RawEngine::start(Act::Say(Vec::new())).await;
    let config = format!(
        "[[pool]]\nname = \"default\"\nendpoints = [{:?}]\n[pool.health]\neject_after = 0\n",
        engine.url()
    );
    let router = Router::with(config).unready().start().await;
    for bytes in garbage {
        let shown = bytes.iter().take(60).copied().collect::<Vec<_>>();
        engine.will(Act::Say(bytes));
        let answer = router.post("/v1/chat/completions", CHAT).send().await;
        assert_eq!(answer.status(), 502, "{}", shown.escape_ascii());
        assert_eq!(answer.json().await["error"]["code"], "endpoint_failed", "{}", shown.escape_ascii());
    }
    let endpoint = router.endpoint(&engine.id()).await;
    assert!(endpoint["success_ratio"].as_f64().unwrap() < 0.1, "{endpoint:#}");
    assert_eq!(endpoint["load"]["requests"], 0);
}

#[tokio::test]
async fn a_head_without_end_is_cut_off() {
    let engine =
        RawEngine::start(Act::Repeat(b"HTTP/1.1 200 OK\r\n".to_vec(), b"x-more: and more\r\n".to_vec()))
            .await;
    let router = Router::to_urls(&[engine.url()]).unready().start().await;
    assert_eq!(router.post("/v1/chat/completions", CHAT).send().await.status(), 502);
    assert_eq!(router.endpoint(&engine.id()).await["load"]["requests"], 0);
}

/// A length that is not kept must not look like a whole answer.
#[tokio::test]
async fn an_answer_that_is_shorter_than_it_says_is_not_taken_for_whole() {
    let engine = RawEngine::start(Act::Say(Vec::new())).await;
    let router = Router::to_urls(&[engine.url()]).unready().start().await;
    for short in [
        &b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"a\":1}"[..],
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n",
    ] {
        engine.will(Act::Say(short.to_vec()));
        let mut answer = router.post("/v1/chat/completions", CHAT).send().await.expect(200).await;
        let broken = answer.read().await.expect_err("a broken answer looks whole");
        assert!(broken.read.starts_with(b"{\"a\"") || broken.read.starts_with(b"hello"), "{broken:?}");
    }
    // In a stream of events there is a way to say so.
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    engine.will(Act::Say(format!("{head}c\r\ndata: {{}}\n\nda\r\n").into_bytes()));
    let events = router.post("/v1/chat/completions", CHAT).send().await.expect(200).await.events().await;
    assert!(events.last().unwrap().contains("endpoint_failed"), "{events:?}");
}

/// What follows an answer is never taken for the next one's.
#[tokio::test]
async fn an_answer_that_is_longer_than_it_says_spoils_no_other() {
    let engine = RawEngine::start(Act::Hold(
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nstolen"
            .to_vec(),
    ))
    .await;
    let router = Router::to_urls(&[engine.url()]).unready().start().await;
    for _ in 0..5 {
        assert_eq!(
            router.post("/v1/chat/completions", CHAT).send().await.expect(200).await.text().await,
            "{}"
        );
    }
    assert_eq!(engine.heads().len(), 5);
}

#[tokio::test]
async fn interim_answers_are_not_the_answer() {
    let engine = RawEngine::start(Act::Say(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_vec(),
    ))
    .await;
    let router = Router::to_urls(&[engine.url()]).unready().start().await;
    assert_eq!(router.post("/v1/chat/completions", CHAT).send().await.expect(200).await.text().await, "{}");
}

/// An engine may answer, and close, while the client still sends.
#[tokio::test]
async fn an_engine_that_answers_before_the_request_ends_is_heard() {
    let engine = RawEngine::start(Act::Hold(
        b"HTTP/1.1 413 Payload Too Large\r\ncontent-length: 8\r\n\r\ntoo long".to_vec(),
    ))
    .await;
    let router = Router::to_urls(&[engine.url()]).unready().start().await;
    let mut client = RawConnection::open(&router.url("")).await;
    client.write("POST /files HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\nthe beginning").await;
    let answer = client.read_until("too long").await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    drop(client);
    wait::until("nothing is left of it", async || {
        router.endpoint(&engine.id()).await["load"]["requests"] == 0
    })
    .await;
}

/// A client that closes its sending side waits for its answer all the same; one that resets is gone.
#[tokio::test]
async fn clients_that_go_at_any_point_leave_nothing_behind() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{CHAT}",
        CHAT.len()
    );
    for end in (0..=request.len()).step_by(7) {
        let mut client = RawConnection::open(&router.url("")).await;
        client.write(&request[..end]).await;
        client.reset();
    }
    wait::until("nothing is left of them", async || {
        let held = ["connections", "requests_in_flight", "buffered_bytes"];
        let mut sum = router.endpoint(&engine.id()).await["load"]["requests"].as_f64().unwrap();
        for name in held {
            sum += router.metric(&format!("sluicegate_{name}"), &[]).await;
        }
        sum == 0.0
    })
    .await;
    router.chat("still there").send().await.expect(200).await;
}
