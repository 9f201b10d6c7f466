//! HTTP/2 that no client would send: the connection ends, its client is told why in the protocol's way, and nobody else
//! notices.

use std::time::Duration;

use sluicegate_tests::{Engine, Router, wait};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

/// `GET /v1/models`, in HPACK's static table where it has it.
fn head(more: &[u8]) -> Vec<u8> {
    let path = b"\x04\x0a/v1/models";
    [&[0x82, 0x86][..], path, b"\x41\x01x", more].concat()
}

/// A header whose name is not in the table.
fn field(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()][..], text.as_bytes()].concat();
    [vec![0], text(name), text(value)].concat()
}

async fn connect(router: &Router) -> TcpStream {
    TcpStream::connect(router.url("").strip_prefix("http://").unwrap()).await.unwrap()
}

/// Sends this after a good beginning; all that comes back until the connection ends.
async fn ends(router: &Router, bytes: &[u8]) -> Vec<u8> {
    let (mut read, mut write) = connect(router).await.into_split();
    let bytes = [PREFACE, SETTINGS, bytes].concat();
    let sending = tokio::spawn(async move {
        let _ = write.write_all(&bytes).await;
        // Held open: it is for the router to close.
        write
    });
    let mut answer = Vec::new();
    let _ = wait::patiently("the end of the connection", read.read_to_end(&mut answer)).await;
    sending.abort();
    answer
}

/// The kinds of the frames in an answer, with the last four bytes of each GOAWAY's fixed part: its code.
fn frames(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    while bytes.len() >= 9 {
        let length = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize;
        let end = (9 + length).min(bytes.len());
        frames.push((bytes[3], bytes[9..end].to_vec()));
        bytes = &bytes[end..];
    }
    frames
}

#[tokio::test]
async fn a_connection_that_breaks_the_rules_is_ended_with_the_reason() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;
    let wrong: [(&str, Vec<u8>); 14] = [
        ("settings of a wrong length", frame(4, 0, 0, &[0; 5])),
        ("settings of a stream", frame(4, 0, 1, &[])),
        ("an acknowledgement with content", frame(4, 1, 0, &[0; 6])),
        ("a window beyond all bounds", frame(4, 0, 0, &[0, 4, 0xff, 0xff, 0xff, 0xff])),
        ("data before a head", frame(0, 0, 1, b"hello")),
        ("data of no stream", frame(0, 0, 0, b"hello")),
        ("a head of no stream", frame(1, 5, 0, &head(b""))),
        ("a head of the server's stream", frame(1, 5, 2, &head(b""))),
        ("a head that cannot be decoded", frame(1, 5, 1, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff])),
        ("a ping of a wrong length", frame(6, 0, 0, &[0; 7])),
        ("a reset of a stream that never was", frame(3, 0, 7, &[0; 4])),
        ("a window that grows by nothing", frame(8, 0, 0, &[0; 4])),
        ("a continuation of nothing", frame(9, 4, 1, &head(b""))),
        ("a frame over the bound", frame(0, 0, 1, &vec![0; 1 << 17])),
    ];
    for (what, bytes) in wrong {
        let answer = ends(&router, &bytes).await;
        let frames = frames(&answer);
        assert!(frames.iter().any(|(kind, payload)| *kind == 7 && payload.len() >= 8), "{what}: {frames:?}");
    }
    router.chat("still there").send().await.expect(200).await;
    assert_eq!(engine.received().len(), 1);
}

/// What is wrong with one request is no matter of the others: its stream is reset. Of what cannot be decoded nothing that
/// follows can be, and the connection ends.
#[tokio::test]
async fn a_request_that_breaks_the_rules_is_refused_alone() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;
    let wrong: [(&str, bool, Vec<u8>); 5] = [
        ("a header of one connection", true, head(&field("connection", "close"))),
        ("an encoding of HTTP/1.1", true, head(&field("transfer-encoding", "chunked"))),
        ("a name in capitals", false, head(&field("X-Loud", "1"))),
        ("a pseudo-header behind others", true, [head(&field("x", "1")), field(":path", "/")].concat()),
        ("an unknown pseudo-header", false, [vec![0x82, 0x86], field(":nonsense", "1")].concat()),
    ];
    for (what, alone, bytes) in wrong {
        let (mut read, mut write) = connect(&router).await.into_split();
        let bad = frame(1, 5, 1, &bytes);
        let good = frame(1, 5, 3, &head(b""));
        write.write_all(&[PREFACE, SETTINGS, &bad, &good].concat()).await.unwrap();
        let mut answer = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let count = wait::patiently(what, read.read(&mut buffer)).await.unwrap_or(0);
            answer.extend_from_slice(&buffer[..count]);
            let kinds: Vec<_> = frames(&answer).iter().map(|(kind, _)| *kind).collect();
            let served = String::from_utf8_lossy(&answer).contains("\"list\"");
            assert!(!alone || !kinds.contains(&7), "{what}: {kinds:?}");
            if (alone && kinds.contains(&3) && served) || (!alone && kinds.contains(&7)) {
                break;
            }
            assert!(count > 0, "{what}: {kinds:?}");
        }
    }
    assert!(engine.received().is_empty());
}

/// Floods that have brought down other servers: none may cost more than its connection.
#[tokio::test]
async fn floods_end_or_are_borne() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;
    let before = router.resident();
    let open = frame(1, 4, 1, &head(b""));
    let rapid_resets: Vec<u8> = (0..20_000_u32)
        .flat_map(|n| [frame(1, 5, 2 * n + 1, &head(b"")), frame(3, 0, 2 * n + 1, &[0, 0, 0, 8])].concat())
        .collect();
    let floods: [(&str, Vec<u8>); 4] = [
        ("resets", rapid_resets),
        ("pings", frame(6, 0, 0, &[0; 8]).repeat(50_000)),
        ("empty data", [open.clone(), frame(0, 0, 1, &[]).repeat(50_000)].concat()),
        (
            "continuations",
            [frame(1, 1, 1, &head(b"")), frame(9, 0, 1, &field("x", "y")).repeat(50_000)].concat(),
        ),
    ];
    for (what, bytes) in floods {
        let (mut read, mut write) = connect(&router).await.into_split();
        let sending = tokio::spawn(async move {
            let _ = write.write_all(PREFACE).await;
            let _ = write.write_all(SETTINGS).await;
            let _ = write.write_all(&bytes).await;
        });
        let reading = tokio::spawn(async move {
            let mut buffer = vec![0; 1 << 16];
            while matches!(read.read(&mut buffer).await, Ok(1..)) {}
        });
        router.chat(what).send().await.expect(200).await.bytes().await;
        let _ = wait::patiently(what, sending).await;
        reading.abort();
    }
    router.chat("still there").send().await.expect(200).await;
    let grown = router.resident().saturating_sub(before);
    assert!(grown < 200 << 20, "{grown} bytes more");
}

#[tokio::test]
async fn connections_that_do_nothing_are_let_go() {
    let engine = Engine::start().await;
    let config = format!(
        "[limits]\nheader_timeout_ms = 200\n[[pool]]\nname = \"default\"\nendpoints = [{:?}]\n",
        engine.url()
    );
    let router = Router::with(config).start().await;
    for sent in [&PREFACE[..14], PREFACE, &[PREFACE, SETTINGS].concat()] {
        let mut client = connect(&router).await;
        client.write_all(sent).await.unwrap();
        let mut answer = Vec::new();
        let _ = wait::patiently("its end", client.read_to_end(&mut answer)).await;
    }
    wait::until("none is left", async || router.metric("sluicegate_connections", &[]).await == 0.0).await;
    tokio::time::timeout(Duration::from_secs(60), async {
        router.chat("hello").send().await.expect(200).await
    })
    .await
    .unwrap();
}
