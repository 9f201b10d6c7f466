//! HTTP/2, TLS, Unix sockets and other protocols, on both sides. A router behind a router is an endpoint that speaks
//! whatever the test needs.

use std::fs;

use rustls::pki_types::CertificateDer;
use sluicegate_tests::{
    Act, Engine, Over, RawConnection, RawEngine, Reply, Router, certificate, certificates, tls, unix, wait,
};
use tempfile::TempDir;
use tokio::net::TcpStream;

fn tcp(url: &str) -> &str {
    url.split_once("://").unwrap().1
}

fn pool(url: &str, more: &str) -> String {
    format!("[[pool]]\nname = \"default\"\nendpoints = [{url:?}]\n{more}\n")
}

fn served(more: &str) -> String {
    let (cert, key) = (certificate("server.pem"), certificate("server.key"));
    format!("[tls]\ncert = {cert:?}\nkey = {key:?}\n{more}\n")
}

#[tokio::test]
async fn http2_is_spoken_from_the_first_byte_on() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;
    let mut client = Over::two(TcpStream::connect(tcp(&router.url(""))).await.unwrap()).await;
    let answer = client.send(router.chat("hello").header("x-request-id", "mine")).await.expect(200).await;
    assert_eq!((answer.request_id(), answer.endpoint()), ("mine", &*engine.id()));
    assert!(answer.json().await["choices"].is_array());
    let received = engine.only();
    assert_eq!(received.header("x-forwarded-host"), Some("models.example"));
    assert_eq!(received.header("host"), Some(&*engine.id()));

    // Many at a time: the first is still under way when the others are done.
    let live = engine.next_live();
    let mut first = client.send(router.chat("long").streamed()).await.expect(200).await;
    live.event(r#"{"choices":[{"index":0,"delta":{"content":"a"}}]}"#).await;
    first.event().await.unwrap();
    for _ in 0..3 {
        client.send(router.chat("short")).await.expect(200).await.bytes().await;
    }
    // A request that is given up is given up at the engine, and the others go on.
    drop(first);
    live.gone().await;
    client.send(router.chat("short")).await.expect(200).await.bytes().await;
    let errors = client.send(router.post("/v1/chat/completions", "nonsense")).await.expect(400).await;
    assert_eq!(errors.json().await["error"]["code"], "invalid_json");
    wait::until("nothing is left of it", async || {
        router.endpoint(&engine.id()).await["load"]["requests"] == 0
            && router.metric("sluicegate_requests_in_flight", &[]).await == 0.0
    })
    .await;
}

#[tokio::test]
async fn tls_is_spoken_in_both_versions_and_its_certificate_read_again() {
    let engine = Engine::start().await;
    let folder = TempDir::new().unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let put = |name: &str| {
        fs::copy(certificate(&format!("{name}.key")), &key).unwrap();
        fs::copy(certificate(&format!("{name}.pem")), &cert).unwrap();
    };
    put("server");
    let config = format!("[tls]\ncert = {cert:?}\nkey = {key:?}\n{}", pool(&engine.url(), ""));
    let router = Router::with(config).start().await;
    let url = router.url("");
    assert!(url.starts_with("https://"), "{url}");

    let stream = tls(&url, &["h2", "http/1.1"], None).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    Over::two(stream).await.send(router.chat("hello")).await.expect(200).await.bytes().await;
    for alpn in [&["http/1.1"][..], &[]] {
        let stream = tls(&url, alpn, None).await.unwrap();
        Over::one(stream).await.send(router.chat("hello")).await.expect(200).await.bytes().await;
    }
    assert_eq!(engine.received()[0].header("x-forwarded-proto"), Some("https"));

    let shown = async || {
        let stream = tls(&url, &["h2"], None).await.unwrap();
        stream.get_ref().1.peer_certificates().map(<[CertificateDer<'_>]>::to_vec)
    };
    assert_eq!(shown().await, Some(certificates("server.pem")));
    put("renewed");
    wait::until("the new certificate is shown", async || shown().await == Some(certificates("renewed.pem")))
        .await;
    fs::write(&cert, "no certificate").unwrap();
    wait::until("the log says so", async || router.log().contains("the certificate in force stays")).await;
    assert_eq!(shown().await, Some(certificates("renewed.pem")));
    // Who speaks no TLS gets no answer, and does no harm.
    let mut plain = RawConnection::open(tcp(&url)).await;
    plain.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(!plain.read_to_end().await.contains("HTTP/1.1"));
}

#[tokio::test]
async fn clients_are_asked_for_certificates() {
    let engine = Engine::start().await;
    let config = served(&format!("client_ca = {:?}", certificate("ca.pem"))) + &pool(&engine.url(), "");
    let router = Router::with(config).start().await;
    let stream = tls(&router.url(""), &["h2"], Some("client")).await.unwrap();
    Over::two(stream).await.send(router.chat("hello")).await.expect(200).await.bytes().await;
    // TLS 1.3 lets a client believe that it is connected until it reads.
    if let Ok(mut stream) = tls(&router.url(""), &["http/1.1"], None).await {
        use tokio::io::AsyncReadExt;
        let mut read = Vec::new();
        assert!(stream.read_to_end(&mut read).await.is_err() || read.is_empty());
    }
    assert_eq!(engine.received().len(), 1);
}

/// A router between two others: its endpoint is a router, and what it is asked is answered by an engine.
async fn through(front: String, more: &str, behind: String, listen: &str) -> (Engine, Router, Router) {
    let engine = Engine::start().await;
    let last = Router::with(behind + &pool(&engine.url(), "")).listen(listen).start().await;
    let url = if front.is_empty() { last.url("") } else { front };
    let first = Router::with(pool(&url, more)).start().await;
    (engine, last, first)
}

async fn works(engine: &Engine, first: &Router) {
    first.chat("hello").send().await.expect(200).await.bytes().await;
    let events = first.chat("hello").streamed().send().await.expect(200).await.events().await;
    assert_eq!(events.last().map(String::as_str), Some("[DONE]"), "{events:?}");
    let live = engine.next_live();
    let mut answer = first.chat("given up").streamed().send().await.expect(200).await;
    live.event(r#"{"choices":[{"index":0,"delta":{"content":"a"}}]}"#).await;
    answer.event().await.unwrap();
    drop(answer);
    live.gone().await;
    let answers = (0..8).map(|turn| tokio::spawn(first.chat(&format!("at once {turn}")).send()));
    for answer in answers.collect::<Vec<_>>() {
        answer.await.unwrap().expect(200).await.bytes().await;
    }
}

#[tokio::test]
async fn an_https_endpoint_is_believed_by_its_certificate() {
    let ca = certificate("ca.pem");
    let (engine, last, first) =
        through(String::new(), &format!("tls = {{ ca = {ca:?} }}"), served(""), "127.0.0.1:0").await;
    works(&engine, &first).await;
    assert!(first.endpoint(tcp(&last.url(""))).await["url"].as_str().unwrap().starts_with("https://"));

    for version in ["1", "2"] {
        let more =
            format!("http_version = \"{version}\"\ntls = {{ ca = {ca:?}, server_name = \"localhost\" }}");
        let one = Router::with(pool(&last.url(""), &more)).start().await;
        one.chat("hello").send().await.expect(200).await.bytes().await;
    }
    let anybody = Router::with(pool(&last.url(""), "tls = { verify = false }")).start().await;
    anybody.chat("hello").send().await.expect(200).await.bytes().await;
    let nobody = Router::with(pool(&last.url(""), "")).unready().start().await;
    let id = tcp(&last.url("")).to_owned();
    wait::until("it is known to be down", async || nobody.endpoint(&id).await["status"] == "down").await;
    let reason = nobody.endpoint(&id).await["reason"].to_string();
    assert!(reason.contains("TLS") && reason.contains("certificate"), "{reason}");
}

#[tokio::test]
async fn an_endpoint_that_asks_for_a_certificate_is_shown_one() {
    let [ca, cert, key] = ["ca.pem", "client.pem", "client.key"].map(certificate);
    let asks = served(&format!("client_ca = {ca:?}"));
    let shows = format!("tls = {{ ca = {ca:?}, cert = {cert:?}, key = {key:?} }}");
    let (engine, _last, first) = through(String::new(), &shows, asks, "127.0.0.1:0").await;
    works(&engine, &first).await;
}

#[tokio::test]
async fn http2_is_spoken_to_an_endpoint_in_the_clear() {
    let (engine, _last, first) =
        through(String::new(), "http_version = \"2\"", String::new(), "127.0.0.1:0").await;
    works(&engine, &first).await;
}

#[tokio::test]
async fn unix_sockets_are_listened_on_and_connected_to() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("router.sock");
    // One that nobody listens on any more.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let listen = format!("unix:{}", path.display());
    let (engine, last, first) = through(listen.clone(), "", String::new(), &listen).await;
    works(&engine, &first).await;
    assert_eq!(engine.received()[0].header("x-forwarded-for"), Some("127.0.0.1, unix"));
    Over::one(unix(&listen).await).await.send(last.chat("hello")).await.expect(200).await.bytes().await;
    Over::two(unix(&listen).await).await.send(last.chat("hello")).await.expect(200).await.bytes().await;
    let answer = first.chat("hello").send().await.expect(200).await;
    assert_eq!(answer.endpoint(), listen);
    drop(answer);
    drop(last);
    wait::until("it is known to be down", async || first.endpoint(&listen).await["status"] == "down").await;
}

#[tokio::test]
async fn a_connection_becomes_the_protocol_that_the_engine_agrees_to() {
    const ASK: &str = "GET /realtime HTTP/1.1\r\nhost: x\r\nconnection: keep-alive, Upgrade\r\nupgrade: websocket\r\n\
                       sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n";
    const AGREE: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                           sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\nfirst";
    let engine = RawEngine::start(Act::Echo(AGREE.to_vec())).await;
    let router = Router::to_urls(&[engine.url()]).unready().start().await;
    let mut client = RawConnection::open(&router.url("")).await;
    // What comes with the request is the other protocol's too.
    client.write(format!("{ASK}early ")).await;
    let answer = client.read_until("early ").await;
    assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
    for header in
        ["sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "upgrade: websocket", "connection: upgrade"]
    {
        assert!(answer.to_ascii_lowercase().contains(&header.to_ascii_lowercase()), "{answer}");
    }
    assert!(answer.contains("first"), "{answer}");
    client.write("\0\u{1}and back").await;
    assert!(client.read_until("and back").await.ends_with("\0\u{1}and back"));
    let head = engine.heads().remove(0);
    assert!(head.contains("sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="), "{head}");
    assert_eq!(router.endpoint(&engine.id()).await["load"]["requests"], 1);
    drop(client);
    wait::until("nothing is left of it", async || {
        router.endpoint(&engine.id()).await["load"]["requests"] == 0
    })
    .await;
    assert_eq!(router.metric("sluicegate_requests_total", &[("code", "101")]).await, 1.0);

    // An engine that does not agree answers as ever, and the connection goes on.
    engine.will(Act::Say(b"HTTP/1.1 426 Upgrade Required\r\ncontent-length: 2\r\n\r\nno".to_vec()));
    let mut client = RawConnection::open(&router.url("")).await;
    client.write(ASK).await;
    let answer = client.read_until("no").await;
    assert!(answer.starts_with("HTTP/1.1 426"), "{answer}");
    client.write("GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(client.read_until("\"list\"").await.contains("200 OK"));
    // Nobody asked for this.
    engine.will(Act::Echo(AGREE.to_vec()));
    assert_eq!(router.get("/realtime").send().await.status(), 502);
}

#[tokio::test]
async fn a_client_that_waits_to_be_told_to_go_on_is_told() {
    let engine = Engine::start().await;
    let router =
        Router::with(format!("[limits]\nbody_bytes = 5000\n{}", pool(&engine.url(), ""))).start().await;
    const BODY: &str = r#"{"model":"tiny","messages":[{"role":"user","content":"hello"}]}"#;
    let head = |length: usize| {
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
        )
    };
    let mut client = RawConnection::open(&router.url("")).await;
    client.write(head(BODY.len())).await;
    assert_eq!(client.read_until("\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    client.write(BODY).await;
    assert!(client.read_until("\"usage\"").await.starts_with("HTTP/1.1 200"));
    assert_eq!(engine.only().header("expect"), None);
    // One that is refused by its head is not told to go on.
    let mut client = RawConnection::open(&router.url("")).await;
    client.write(head(6_000)).await;
    assert!(client.read_to_end().await.starts_with("HTTP/1.1 413"));
}

#[tokio::test]
async fn trailers_go_to_those_who_want_them() {
    let answer =
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-checksum\r\n\r\n5\r\nhello\r\n0\r\n\
                   x-checksum: 1234\r\n\r\n";
    let engine = RawEngine::start(Act::Hold(answer.to_vec())).await;
    let router = Router::to_urls(&[engine.url()]).unready().start().await;
    for (te, wanted) in [("te: trailers\r\n", true), ("", false)] {
        let mut client = RawConnection::open(&router.url("")).await;
        client.write(format!("GET /file HTTP/1.1\r\nhost: x\r\nconnection: te\r\n{te}\r\n")).await;
        let answer = client.read_until("\r\n0\r\n").await + &client.read_until("\r\n").await;
        assert!(answer.contains("hello"), "{answer}");
        assert_eq!(answer.contains("x-checksum: 1234"), wanted, "{answer}");
        assert_eq!(engine.heads().last().unwrap().contains("te: trailers"), wanted);
    }
}

#[tokio::test]
async fn engines_are_told_of_the_client_and_its_trace() {
    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let engine = Engine::start().await;
    let router = Router::with(pool(&engine.url(), "")).start().await;
    let told = |router: &Router| {
        router
            .chat("hello")
            .header("traceparent", TRACE)
            .header("tracestate", "a=1")
            .header("x-forwarded-for", "192.0.2.1")
            .header("forwarded", "for=192.0.2.1")
    };
    told(&router).send().await.expect(200).await.bytes().await;
    let received = engine.only();
    for (name, value) in [
        ("traceparent", Some(TRACE)),
        ("tracestate", Some("a=1")),
        ("x-forwarded-for", Some("192.0.2.1, 127.0.0.1")),
        ("x-forwarded-proto", Some("http")),
        ("forwarded", Some("for=192.0.2.1, for=127.0.0.1;proto=http")),
    ] {
        assert_eq!(received.header(name), value, "{name}");
    }
    router
        .chat("hello")
        .header("traceparent", "nonsense")
        .header("tracestate", "a=1")
        .send()
        .await
        .expect(200)
        .await;
    let received = engine.received().remove(1);
    assert_eq!((received.header("traceparent"), received.header("tracestate")), (None, None));

    let config = format!("forwarded = \"replace\"\ntraceparent = \"make\"\n{}", pool(&engine.url(), ""));
    let router = Router::with(config).start().await;
    told(&router).send().await.expect(200).await.bytes().await;
    router.chat("hello").send().await.expect(200).await.bytes().await;
    let [.., given, made] = &engine.received()[..] else { panic!("too few") };
    assert_eq!(
        (given.header("traceparent"), given.header("x-forwarded-for")),
        (Some(TRACE), Some("127.0.0.1"))
    );
    assert_eq!(given.header("forwarded"), None);
    assert!(made.header("traceparent").is_some_and(|made| made.len() == 55 && made.ends_with("-01")));
}

#[tokio::test]
async fn certificates_that_cannot_be_used_are_named_at_the_start() {
    let engine = Engine::start().await;
    engine.always(Reply::says("never asked"));
    let tls = |cert: &str, key: &str| {
        let (cert, key) = (certificate(cert), certificate(key));
        format!("[tls]\ncert = {cert:?}\nkey = {key:?}\n") + &pool(&engine.url(), "")
    };
    for (config, says) in [
        (tls("server.pem", "none.key"), "none.key"),
        (tls("server.pem", "client.key"), "server.pem"),
        (pool(&engine.url(), &format!("tls = {{ ca = {:?} }}", certificate("server.key"))), "no certificate"),
    ] {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("sluicegate.toml");
        fs::write(&file, config).unwrap();
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--config"];
        let mut command = std::process::Command::new(sluicegate_tests::places::router());
        let output = command.args(arguments).arg(&file).current_dir(folder.path()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(says), "{error}");
    }
}
