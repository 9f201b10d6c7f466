//! The API over real connections.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::*;
use crate::clock::{ManualClock, SECOND};
use crate::config::{Flags, from_flags};
use crate::flow::{Amount, Limits};
use crate::plugin::Runtime;
use crate::policy::Registry;
use crate::pool::{EndpointSpec, Pool, PoolSpec, Report, Url};
use crate::prefix::{Exact, Index, Sessions};

/// One for all tests: they only read it, and it takes a while to compile the default plugins.
fn catalog() -> Arc<Catalog> {
    static CATALOG: OnceLock<Arc<Catalog>> = OnceLock::new();
    let catalog = CATALOG.get_or_init(|| {
        let config = from_flags(Flags { backend: vec!["a:1".into()], ..Flags::default() }).unwrap();
        let runtime = Arc::new(Runtime::start(None).unwrap());
        Catalog::load(&config, runtime, Arc::default(), ManualClock::at(SECOND))
    });
    Arc::clone(catalog)
}

fn admin() -> Arc<Admin> {
    let names = ["10.0.0.1:80", "[::1]:80"];
    let flags = Flags { backend: names.map(String::from).to_vec(), ..Flags::default() };
    let config = from_flags(flags).unwrap();
    let clock: Arc<dyn Clock> = ManualClock::at(SECOND);
    let spec = PoolSpec {
        name: "llama".into(),
        chain: "default".into(),
        endpoints: names.map(|name| EndpointSpec::new(Url::parse(name).unwrap())).to_vec(),
        ..PoolSpec::default()
    };
    let lane = Lane {
        pool: Arc::new(Pool::new(spec)),
        index: Arc::new(Index::new(1 << 20)),
        measure: Arc::default(),
        exact: Arc::new(Exact::new(1 << 20)),
        sessions: Arc::new(Sessions::new(10, SECOND)),
        windows: Arc::default(),
        registry: Arc::new(Registry::default()),
        mode: crate::route::RouteMode::Follow,
        shadows: None,
        clock: Arc::clone(&clock),
    };
    Arc::new(Admin {
        catalog: catalog(),
        directory: None,
        lanes: vec![AdminPool {
            lane: Arc::new(lane),
            gate: Gate::new(Limits::of(Amount { requests: 1, bytes: 1, tokens: 1 }), Box::new(|| ())),
        }],
        access: Access::default(),
        audit: Arc::new(Audit::start(&std::env::temp_dir().join("sluicegate-admin-tests")).unwrap()),
        tenants: Arc::default(),
        metrics: Metrics::new(),
        decisions: Arc::new(Decisions::new(4)),
        config_json: serde_json::to_value(&config).unwrap(),
        reloads: Arc::default(),
        control: Arc::new(Nobody),
        clock,
    })
}

#[derive(Debug)]
struct Nobody;

impl Control for Nobody {
    fn reload(&self) -> Reloaded {
        Reloaded::Refused("nobody is there".into())
    }

    fn add_endpoint(&self, _: Addition) -> Result<(), EndpointRefusal> {
        Err(EndpointRefusal::Ending)
    }

    fn remove_endpoint(&self, _: &str) -> Result<(), EndpointRefusal> {
        Err(EndpointRefusal::Ending)
    }
}

struct Running {
    address: SocketAddr,
    admin: Arc<Admin>,
    stop: watch::Sender<bool>,
}

async fn start() -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, admin) = (listener.local_addr().unwrap(), admin());
    let (stop, stopped) = watch::channel(false);
    let current = Arc::new(ArcSwap::from(Arc::clone(&admin)));
    tokio::spawn(serve(listener, current, stopped));
    Running { address, admin, stop }
}

impl Running {
    /// Sends these bytes and reads to the end.
    async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // The server may answer and close before it has read everything.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    async fn ask(&self, line: &str, headers: &str) -> (u16, String, String) {
        let request =
            format!("{line} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{headers}\r\n", self.address);
        let answer = self.raw(request.as_bytes()).await;
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
        (head[9..12].parse().unwrap(), head.to_ascii_lowercase(), body.to_owned())
    }

    async fn json(&self, line: &str) -> (u16, Value) {
        let (status, head, body) = self.ask(line, "").await;
        assert!(head.contains("content-type: application/json"), "{head}");
        (status, serde_json::from_str(&body).unwrap())
    }
}

#[tokio::test]
async fn ready_when_a_pool_can_be_served() {
    let running = start().await;
    assert_eq!(running.ask("GET /healthz", "").await.0, 200);
    let (status, _, words) = running.ask("GET /readyz", "").await;
    assert_eq!(status, 503);
    assert!(words.contains("pool `llama`: no endpoint has said yet which models"), "{words}");
    let pool = &running.admin.lanes[0].lane.pool;
    let endpoint = &pool.endpoints()[0];
    pool.publish(endpoint, Report { models: vec!["m".into()].into(), ..Report::default() });
    endpoint.health.probe_failed(0, true, "connection refused");
    let (_, _, words) = running.ask("GET /readyz", "").await;
    assert!(words.contains("pool `llama`: no endpoint is up"), "{words}");
    endpoint.health.probe_ok();
    assert_eq!(running.ask("GET /readyz", "").await.0, 200);
}

#[tokio::test]
async fn endpoints_are_listed_and_drained() {
    let running = start().await;
    let pool = &running.admin.lanes[0].lane.pool;
    pool.endpoints()[0].health.connect_failed(SECOND, "no route to host");
    let (status, list) = running.json("GET /endpoints").await;
    assert_eq!(status, 200);
    let first = &list["endpoints"][0];
    assert_eq!(first["id"], "10.0.0.1:80");
    assert_eq!(first["url"], "http://10.0.0.1:80");
    assert_eq!((&first["status"], &first["role"]), (&"down".into(), &"both".into()));
    assert_eq!(first["reason"], "a request could not be sent to it: no route to host");
    assert_eq!(first["load"]["requests"], 0);
    assert_eq!(list["endpoints"][1]["status"], "unknown");
    assert_eq!(list["pools"][0]["queue"]["running"], 0);

    assert_eq!(running.json("POST /endpoints/%5B::1%5D:80/drain").await.0, 200);
    assert!(pool.endpoints()[1].draining());
    assert_eq!(running.json("POST /endpoints/[::1]:80/undrain").await.0, 200);
    assert!(!pool.endpoints()[1].draining());
    let (status, error) = running.json("POST /endpoints/nobody:1/drain").await;
    assert_eq!(status, 404);
    assert!(error["error"]["message"].as_str().unwrap().contains("nobody:1"));
}

#[tokio::test]
async fn pages_of_others_change_nothing() {
    let running = start().await;
    for headers in ["origin: https://example.com\r\n", "origin: null\r\n"] {
        let (status, _, body) = running.ask("POST /endpoints/10.0.0.1:80/drain", headers).await;
        assert_eq!(status, 403, "{body}");
        assert!(body.contains("another origin"), "{body}");
    }
    let rebound =
        b"POST /endpoints/10.0.0.1:80/drain HTTP/1.1\r\nhost: example.com\r\nconnection: close\r\n\r\n";
    assert!(running.raw(rebound).await.starts_with("HTTP/1.1 403"));
    assert!(!running.admin.lanes[0].lane.pool.endpoints()[0].draining());
    let own = format!("origin: http://{}\r\n", running.address);
    assert_eq!(running.ask("POST /endpoints/10.0.0.1:80/drain", &own).await.0, 200);
}

#[tokio::test]
async fn every_route_answers_its_methods_alone() {
    let running = start().await;
    for path in ["/", "/healthz", "/metrics", "/plugins", "/endpoints", "/decisions", "/config"] {
        assert_eq!(running.ask(&format!("GET {path}"), "").await.0, 200, "{path}");
        let (status, head, body) = running.ask(&format!("DELETE {path}"), "").await;
        assert_eq!(status, 405, "{path}");
        assert!(head.contains("allow: get, head"), "{head}");
        assert!(body.contains("this path answers GET"), "{body}");
        let (status, _, body) = running.ask(&format!("HEAD {path}"), "").await;
        assert_eq!((status, body.as_str()), (200, ""), "{path}");
    }
    assert_eq!(running.json("GET /config").await.1["pools"][0]["name"], "default");
    assert_eq!(running.json("GET /endpoints/a/drain").await.0, 405);
    assert_eq!(running.json("GET /nothing").await.0, 404);
    assert_eq!(running.json("GET /decisions/unknown").await.0, 404);
    assert_eq!(running.json("GET /decisions?limit=x").await.0, 400);
    assert_eq!(running.json("GET /decisions?limit=3").await.1["decisions"], serde_json::json!([]));
}

#[tokio::test]
async fn metrics_come_in_the_format_that_is_asked_for() {
    let running = start().await;
    let pool = &running.admin.lanes[0].lane.pool;
    pool.endpoints()[0].health.probe_ok();
    let (_, head, page) = running.ask("GET /metrics", "").await;
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    for line in [
        r#"sluicegate_endpoint_up{endpoint="10.0.0.1:80",pool="llama"} 1"#,
        r#"sluicegate_endpoint_requests{endpoint="[::1]:80",pool="llama"} 0"#,
        r#"sluicegate_queue_requests{band="0",pool="llama"} 0"#,
    ] {
        assert!(
            page.lines().any(|found| found.strip_suffix(".0").unwrap_or(found) == line),
            "{line} in {page}"
        );
    }
    assert!(!page.contains("NaN"), "{page}");
    let (_, head, page) =
        running.ask("GET /metrics", "accept: application/openmetrics-text;version=1.0.0\r\n").await;
    assert!(head.contains("application/openmetrics-text") && page.ends_with("# EOF\n"));
}

#[tokio::test]
async fn the_page_needs_nothing_from_elsewhere() {
    let running = start().await;
    let (_, head, page) = running.ask("GET /", "").await;
    assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
    for foreign in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(foreign), "{foreign}");
    }
}

#[tokio::test]
async fn hostile_requests_leave_it_standing() {
    let running = start().await;
    let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(200_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(50_000));
    for bytes in
        [&b"\0\xff\n\r\n\r\n"[..], b"GET", b"GET / HTTP/9.9\r\n\r\n", long.as_bytes(), many.as_bytes()]
    {
        let answer = running.raw_and_close(bytes).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    let body = "content-length: 1000000000\r\n";
    assert_eq!(running.ask("POST /endpoints/10.0.0.1:80/drain", body).await.0, 200);
    assert_eq!(running.ask("GET /healthz", "").await.0, 200);
}

impl Running {
    async fn raw_and_close(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }
}

#[tokio::test]
async fn it_ends_when_it_is_told() {
    let running = start().await;
    let mut idle = TcpStream::connect(running.address).await.unwrap();
    assert_eq!(running.ask("GET /healthz", "").await.0, 200);
    running.stop.send(true).unwrap();
    assert_eq!(idle.read(&mut [0; 1]).await.unwrap(), 0, "idle connections are closed");
    // The listener goes with the task; a connection that is refused ends the wait.
    while TcpStream::connect(running.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
}
