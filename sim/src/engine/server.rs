//! The listener and the table of paths.

use super::args::Args;
use super::body::{self, Body};
use super::error::{ApiError, EngineError};
use super::faults::{Fault, Mode};
use super::kv::Connector;
use super::kv_events::KvEvents;
use super::node::Node;
use super::vocabulary::Vocabulary;
use super::{api, control, inference, kv, metrics};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// Largest request body, in bytes.
const BODY_LIMIT: usize = 256 << 20;

/// The connection is to be closed without an answer.
#[derive(Debug, thiserror::Error)]
#[error("connection refused by a fault")]
pub(super) struct Refused;

/// Runs an engine until it is stopped.
///
/// # Errors
/// When it cannot listen, or cannot say where.
pub async fn run(args: Args) -> Result<(), EngineError> {
    let address = args.listen;
    let listener =
        TcpListener::bind(address).await.map_err(|source| EngineError::Listen { address, source })?;
    let address = listener.local_addr()?;
    let until_stdin_closes = args.until_stdin_closes;
    let vocabulary = args.tokenizer.as_deref().map(Vocabulary::load).transpose()?;
    let (kv_events, publishing) = KvEvents::start(&args).await?;
    let node = Node::new(args, vocabulary, address, kv_events);
    tokio::spawn(publishing);
    tokio::spawn(Arc::clone(&node).drive());
    let mut out = std::io::stdout().lock();
    writeln!(out, "listening on http://{address}")?;
    out.flush()?;
    drop(out);
    let orphaned = tokio::task::spawn_blocking(move || {
        if until_stdin_closes {
            // Whatever is said there does not matter; its end does.
            let _closed = std::io::stdin().lock().read_to_end(&mut Vec::new());
        }
        until_stdin_closes
    });
    tokio::select! {
        () = accept(listener, node) => {}
        () = crate::signals::stopped() => {}
        Ok(true) = orphaned => {}
    }
    Ok(())
}

async fn accept(listener: TcpListener, node: Arc<Node>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, Arc::clone(&node)));
            }
            // Out of file descriptors, or the client has gone already.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn connection(stream: TcpStream, node: Arc<Node>) {
    let _no_delay = stream.set_nodelay(true);
    let service = service_fn(move |request| answer(Arc::clone(&node), request));
    // A connection that ends with an error is the client's affair, or a fault that was asked for.
    let _ended =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(node: Arc<Node>, request: Request<Incoming>) -> Result<Response<Body>, Refused> {
    let path = request.uri().path().to_owned();
    let inference_path = api::Api::of_path(&path).filter(|_| request.method() == Method::POST);
    // The control paths stay reachable.
    let fault = if path.starts_with("/sim/") {
        None
    } else {
        node.fault.lock().strike(&path, inference_path.is_some())
    };
    // A fault in the midst of an answer is the inference path's own affair.
    let later = inference_path.is_some() && fault.as_ref().is_some_and(in_the_midst);
    let at_once = fault.as_ref().filter(|_| !later);
    let (head, incoming) = request.into_parts();
    let read = Limited::new(incoming, BODY_LIMIT).collect().await;
    let bytes = match read {
        Ok(body) => body.to_bytes(),
        Err(_) => {
            return Ok(body::error(&ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body too large"), false));
        }
    };
    let record = inference_path.map(|_| node.records.lock().add(node.now() / 1_000_000, &head, &bytes));
    if let Some(fault) = at_once {
        if let Some(record) = record
            && fault.mode != Mode::Slow
        {
            node.records.lock().update(record, |record| record.outcome = "fault".into());
        }
        let anthropic = inference_path == Some(api::Api::Messages);
        if let Some(response) = strike(fault, anthropic).await? {
            return Ok(response);
        }
    }
    let response = match (inference_path, record) {
        (Some(api), Some(record)) => {
            inference::answer(&node, api, &head, &bytes, record, fault.filter(|_| later)).await
        }
        _ => other(&node, &head.method, &path, &bytes),
    };
    Ok(named(response, &node))
}

fn in_the_midst(fault: &Fault) -> bool {
    match fault.mode {
        Mode::Cut => true,
        Mode::Hang | Mode::Error => fault.after_tokens > 0,
        Mode::None | Mode::Refuse | Mode::Slow => false,
    }
}

async fn strike(fault: &Fault, anthropic: bool) -> Result<Option<Response<Body>>, Refused> {
    match fault.mode {
        Mode::None => Ok(None),
        Mode::Refuse | Mode::Cut => Err(Refused),
        Mode::Hang => std::future::pending().await,
        Mode::Slow => {
            tokio::time::sleep(Duration::from_millis(fault.delay_ms)).await;
            Ok(None)
        }
        Mode::Error => {
            let status = StatusCode::from_u16(fault.status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
            Ok(Some(body::error(&ApiError::new(status, "simulated error"), anthropic)))
        }
    }
}

fn named(mut response: Response<Body>, node: &Node) -> Response<Body> {
    if let Ok(name) = http::HeaderValue::from_str(&node.args.name) {
        response.headers_mut().insert("x-sim-engine", name);
    }
    response
}

fn other(node: &Arc<Node>, method: &Method, path: &str, bytes: &Bytes) -> Response<Body> {
    let lease = path.strip_prefix("/sim/kv/").map(decode_percent);
    let json = |value| body::json(StatusCode::OK, &value);
    match (method.as_str(), path) {
        ("GET", "/health" | "/ping") => body::empty(StatusCode::OK),
        ("GET", "/version") => json(serde_json::json!({"version": "0.32.0"})),
        ("GET", "/load") => json(serde_json::json!({"server_load": node.snapshot().0.running})),
        ("GET", "/v1/models") => json(api::models(node)),
        ("GET", "/metrics") => body::text(metrics::page(node)),
        ("POST", "/tokenize") => answer_json(api::tokenize(node, bytes)),
        ("POST", "/v1/messages/count_tokens") => match api::count_tokens(node, bytes) {
            Ok(value) => json(value),
            Err(error) => body::error(&error, true),
        },
        ("GET", "/sim/state") => json(control::state(node)),
        ("GET", "/sim/faults") => json(serde_json::json!(*node.fault.lock())),
        ("POST", "/sim/faults") => answer_json(control::set_fault(node, bytes)),
        ("GET", "/kv_event_sources") => json(node.kv_events.sources()),
        ("POST", "/sim/kv-events") => answer_json(control::lose_events(node, bytes)),
        ("POST", "/sim/reset") => json(control::reset(node)),
        ("GET", "/query") if node.args.connector == Connector::Mooncake => {
            json(serde_json::json!({"0": {"engine_id": node.engine_id, "worker_addr": {}}}))
        }
        ("GET", _) if lease.is_some() => {
            let (status, value) = kv::describe(node, &lease.unwrap_or_default());
            body::json(status, &value)
        }
        ("DELETE", _) if lease.is_some() => {
            let released = node.release_lease(&lease.unwrap_or_default());
            body::empty(if released { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND })
        }
        _ => body::json(StatusCode::NOT_FOUND, &serde_json::json!({"detail": "Not Found"})),
    }
}

fn answer_json(result: Result<serde_json::Value, ApiError>) -> Response<Body> {
    match result {
        Ok(value) => body::json(StatusCode::OK, &value),
        Err(error) => body::error(&error, false),
    }
}

fn decode_percent(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| tail.get(..2)).flatten();
        let byte = escaped
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        out.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { tail.get(2..).unwrap_or_default() } else { tail };
    }
    String::from_utf8_lossy(&out).into_owned()
}
