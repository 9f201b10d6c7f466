//! Clients that send what is no HTTP, or could be read in two ways, or never ends: each is told what is wrong.

use sluicegate_tests::{Engine, RawAnswer, RawConnection, Router};

const CHAT: &str = "{\"model\":\"tiny\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";

/// What is wrong with a message: its bytes, and the status and code that they get.
type Wrong = (&'static str, u16, &'static str);

async fn router(engine: &Engine, limits: &str) -> Router {
    let pool = format!("[[pool]]\nname = \"p\"\nendpoints = [\"{}\"]\n", engine.url());
    Router::with(format!("[limits]\n{limits}\n{pool}")).start().await
}

/// A whole request that is in order.
fn good() -> String {
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length";
    format!("{head}: {}\r\n\r\n{CHAT}", CHAT.len())
}

/// Holds that a refusal says what is wrong and ends the connection.
fn hold(answer: &RawAnswer, status: u16, code: &str) {
    assert_eq!((answer.status, &answer.json["error"]["code"]), (status, &code.into()), "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/json"), "{answer:?}");
    assert_eq!(answer.header("connection"), Some("close"), "{answer:?}");
    assert!(answer.header("x-request-id").is_some_and(|id| !id.is_empty()), "{answer:?}");
    assert!(answer.json["error"]["message"].as_str().is_some_and(|words| words.len() > 20), "{answer:?}");
    assert!(answer.json["error"]["type"].is_string(), "{answer:?}");
}

/// Sends bytes on a connection of its own and reads until the router closes it.
async fn exchange(router: &Router, bytes: impl AsRef<[u8]>) -> Vec<RawAnswer> {
    let mut connection = RawConnection::open(&router.url("")).await;
    connection.write(bytes).await;
    RawAnswer::all(&connection.read_to_end().await)
}

#[tokio::test]
async fn what_is_no_http_is_told_what_is_wrong() {
    const WRONG: [Wrong; 9] = [
        ("h\u{1b}[31m(llo\r\n\r\n", 400, "invalid_request_line"),
        ("GET /\u{1} HTTP/1.1\r\n\r\n", 400, "invalid_request_line"),
        ("GET / HTTP/9.9\r\n\r\n", 505, "http_version_not_supported"),
        ("GET / HTTP/1.1\r\nhost: x\r\nno colon\r\n\r\n", 400, "invalid_header"),
        ("GET / HTTP/1.1\r\nhost: x\r\na b: c\r\n\r\n", 400, "invalid_header"),
        ("GET / HTTP/1.1\r\nhost: x\r\na: \u{1b}[31m\r\n\r\n", 400, "invalid_header"),
        ("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n", 400, "invalid_content_length"),
        ("POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip\r\n\r\n", 400, "invalid_transfer_encoding"),
        ("POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400, "invalid_transfer_encoding"),
    ];
    let engine = Engine::start().await;
    let router = router(&engine, "").await;
    for (bytes, status, code) in WRONG {
        let answers = exchange(&router, bytes).await;
        assert_eq!(answers.len(), 1, "{bytes:?}");
        hold(&answers[0], status, code);
        assert!(!format!("{answers:?}").contains("[31m"), "{answers:?}");
    }
    let line = exchange(&router, "GET / HTTP/1.1\r\nhost: x\r\nno colon\r\n\r\n").await;
    assert!(line[0].json["error"]["message"].as_str().unwrap().contains("line 3"), "{line:?}");
    for (code, count) in [("400", 9.0), ("505", 1.0)] {
        let counted = router.metric("sluicegate_requests_total", &[("pool", "none"), ("code", code)]).await;
        assert_eq!(counted, count, "{code}");
    }
    router.chat("still there").send().await.expect(200).await;
    assert_eq!(engine.received().len(), 1);
}

#[tokio::test]
async fn a_request_whose_end_is_not_certain_is_refused() {
    const WRONG: [Wrong; 7] = [
        ("content-length: 5\r\nTransfer-Encoding: chunked", 400, "ambiguous_length"),
        ("transfer-encoding: chunked\r\ncontent-length: 5", 400, "ambiguous_length"),
        ("content-length: 5\r\ncontent-length: 5", 400, "ambiguous_length"),
        ("content-length: 5\r\ncontent-length: 6", 400, "invalid_content_length"),
        ("content-length: 5, 5", 400, "invalid_content_length"),
        ("transfer-encoding: gzip, chunked", 400, "invalid_transfer_encoding"),
        ("transfer-encoding: chunked\r\ntransfer-encoding: chunked", 400, "invalid_transfer_encoding"),
    ];
    let engine = Engine::start().await;
    let router = router(&engine, "").await;
    for path in ["/v1/chat/completions", "/tokenize"] {
        for (framing, status, code) in WRONG {
            let smuggled = "GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n";
            let bytes = format!("POST {path} HTTP/1.1\r\nhost: x\r\n{framing}\r\n\r\n0\r\n\r\n{smuggled}");
            let answers = exchange(&router, bytes).await;
            assert_eq!(answers.len(), 1, "{path} {framing:?}");
            hold(&answers[0], status, code);
        }
    }
    assert!(engine.received().is_empty());
}

#[tokio::test]
async fn a_request_behind_another_is_refused_where_its_end_is_not_certain() {
    let engine = Engine::start().await;
    let router = router(&engine, "").await;
    let both = "POST /tokenize HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    let (start, rest) = both.split_at(60);

    // In one piece with the request before it, and with its head cut in two where nobody can see where it began.
    let together = exchange(&router, good() + both).await;
    assert_eq!(together.len(), 2, "{together:?}");
    hold(&together[1], 400, "ambiguous_length");
    let mut connection = RawConnection::open(&router.url("")).await;
    connection.write(good() + start).await;
    let first = connection.read_until("\"usage\"").await;
    assert!(first.starts_with("HTTP/1.1 200"), "{first}");
    connection.write(rest).await;
    let cut = connection.read_to_end().await;
    assert!(cut.contains("ambiguous_length"), "{cut}");
    assert!(engine.received().iter().all(|received| received.path == "/v1/chat/completions"));
}

#[tokio::test]
async fn chunks_and_lengths_take_turns_on_one_connection() {
    let engine = Engine::start().await;
    let router = router(&engine, "").await;
    let chunked = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{CHAT}\r\n0\r\n\r\n",
        CHAT.len()
    );
    let mut connection = RawConnection::open(&router.url("")).await;
    for request in [&chunked, &good(), &chunked, &chunked] {
        connection.write(request).await;
        let answer = connection.read_until("\"usage\"").await;
        assert!(answer.contains("HTTP/1.1 200"), "{answer}");
    }
    assert_eq!(engine.received().len(), 4);
}

#[tokio::test]
async fn a_bad_request_after_good_ones_is_told_what_is_wrong() {
    let engine = Engine::start().await;
    let router = router(&engine, "").await;
    let answers = exchange(&router, good() + &good() + "nonsense\r\n\r\n").await;
    assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [200, 200, 400]);
    hold(&answers[2], 400, "invalid_request_line");
}

#[tokio::test]
async fn a_head_over_a_bound_is_told_the_bound() {
    let engine = Engine::start().await;
    let router = router(&engine, "header_bytes = 8192").await;
    let start = "GET / HTTP/1.1\r\nhost: x\r\n";
    for (bytes, status, code, words) in [
        (format!("{start}a: {}", "y".repeat(20_000)), 431, "head_too_large", "8192 bytes"),
        (format!("{start}{}", "a: b\r\n".repeat(200)), 431, "head_too_large", "100 header lines"),
        (format!("GET /{}", "y".repeat(20_000)), 414, "uri_too_long", "8192 bytes"),
    ] {
        let answers = exchange(&router, bytes).await;
        hold(&answers[0], status, code);
        assert!(answers[0].json["error"]["message"].as_str().unwrap().contains(words), "{answers:?}");
    }
    assert_eq!(router.metric("sluicegate_requests_total", &[("code", "431")]).await, 2.0);
}

#[tokio::test]
async fn an_endless_head_is_cut_off() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;
    let mut connection = RawConnection::open(&router.url("")).await;
    connection.write("GET / HTTP/1.1\r\nhost: x\r\n").await;
    let line = format!("x-more: {}\r\n", "y".repeat(8_000));
    let mut taken = true;
    for _ in 0..2_000 {
        taken = taken && connection.write(&line).await;
    }
    assert!(!taken, "sixteen megabytes of head were taken");
    router.chat("still there").send().await.expect(200).await;
}

#[tokio::test]
async fn a_head_that_does_not_come_in_time_or_to_its_end_is_told_so() {
    let engine = Engine::start().await;
    let router = router(&engine, "header_timeout_ms = 200").await;
    let late = exchange(&router, "GET / HTTP/1.1\r\nhost:").await;
    hold(&late[0], 408, "request_timeout");
    assert!(late[0].json["error"]["message"].as_str().unwrap().contains("200 ms"), "{late:?}");

    let mut connection = RawConnection::open(&router.url("")).await;
    connection.write("GET / HTTP/1.1\r\nhost:").await;
    connection.finish().await;
    hold(&RawAnswer::all(&connection.read_to_end().await)[0], 400, "incomplete_head");

    // A connection that waits for its next request is closed without a word: one might cross that request.
    let mut connection = RawConnection::open(&router.url("")).await;
    connection.write(good()).await;
    let answers = RawAnswer::all(&connection.read_to_end().await);
    assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [200]);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_the_clients_fault_alone() {
    const WRONG: [Wrong; 3] = [
        ("zz\r\n", 400, "invalid_chunk"),
        ("5\r\nhello world\r\n", 400, "invalid_chunk"),
        ("5\r\nhel", 400, "incomplete_body"),
    ];
    let engine = Engine::start().await;
    let router = router(&engine, "").await;
    for path in ["/v1/chat/completions", "/tokenize"] {
        for (body, status, code) in WRONG {
            let mut connection = RawConnection::open(&router.url("")).await;
            let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
            connection.write(head + body).await;
            if code == "incomplete_body" {
                connection.finish().await;
            }
            hold(&RawAnswer::all(&connection.read_to_end().await)[0], status, code);
        }
    }
    let endpoint = router.endpoint(&engine.id()).await;
    assert_eq!((&endpoint["status"], &endpoint["last_error"]), (&"up".into(), &"".into()), "{endpoint:#}");
    router.chat("still there").send().await.expect(200).await;
}

#[tokio::test]
async fn a_body_without_end_is_told_the_bound() {
    let engine = Engine::start().await;
    let router = router(&engine, "body_bytes = 10000").await;
    let mut connection = RawConnection::open(&router.url("")).await;
    connection
        .write("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        .await;
    let chunk = format!("3e8\r\n{}\r\n", "y".repeat(1_000));
    for _ in 0..50 {
        connection.write(&chunk).await;
    }
    let answers = RawAnswer::all(&connection.read_to_end().await);
    hold(&answers[0], 413, "request_too_large");
    assert!(answers[0].json["error"]["message"].as_str().unwrap().contains("10000 bytes"), "{answers:?}");
    assert!(engine.received().is_empty());
}

#[tokio::test]
async fn a_body_that_stops_coming_is_told_so() {
    let engine = Engine::start().await;
    let router = router(&engine, "body_timeout_ms = 200").await;
    for path in ["/v1/chat/completions", "/tokenize"] {
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{{");
        let answers = exchange(&router, head).await;
        hold(&answers[0], 408, "request_timeout");
    }
    assert_eq!(router.endpoint(&engine.id()).await["last_error"], "");
}

/// A small generator: the test has to do the same in every run.
fn scramble(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*state >> 33).unwrap()
}

#[tokio::test]
async fn whatever_a_client_sends_the_answer_is_http() {
    let engine = Engine::start().await;
    let router = router(&engine, "header_timeout_ms = 200\nbody_timeout_ms = 200").await;
    let mut state = 1;
    for _ in 0..200 {
        let mut bytes = good().replace("host: x", "connection: close").into_bytes();
        for _ in 0..=scramble(&mut state) % 3 {
            let at = scramble(&mut state) % bytes.len();
            bytes[at] = u8::try_from(scramble(&mut state) % 256).unwrap();
        }
        let answers = exchange(&router, &bytes).await;
        let fine = |answer: &RawAnswer| answer.status == 200 || answer.json["error"]["message"].is_string();
        assert!(!answers.is_empty() && answers.iter().all(fine), "{}: {answers:?}", bytes.escape_ascii());
    }
    router.chat("still there").send().await.expect(200).await;
}
