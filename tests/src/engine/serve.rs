//! The server itself.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::Sleep;

use super::reply::{Kind, Piece};
use super::shapes::Shape;
use super::{Received, Reply, Shared};

/// How long the connection stays after the last event of an answer that is cut.
const ON_THE_WIRE: Duration = Duration::from_millis(20);

type Answer = Response<Watched>;

pub(super) async fn listen(listener: TcpListener, shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(_) => continue,
            },
            _ = stopped.changed() => return,
        };
        let number = {
            let mut connections = shared.connections.lock().unwrap();
            *connections += 1;
            *connections - 1
        };
        tokio::spawn(connection(stream, number, Arc::clone(&shared), stopped.clone()));
    }
}

async fn connection(
    stream: TcpStream,
    number: usize,
    shared: Arc<Shared>,
    mut stopped: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| answer(request, number, Arc::clone(&shared)));
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // An error is how a scripted answer breaks the connection.
        _ = connection => {}
        _ = stopped.changed() => {}
    }
}

async fn answer(
    request: Request<Incoming>,
    connection: usize,
    shared: Arc<Shared>,
) -> Result<Answer, io::Error> {
    let (head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    if let Some(answer) = own(&path, &shared) {
        return Ok(answer);
    }
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let wanted: Value = serde_json::from_slice(&body).unwrap_or_default();
    let gone = Arc::new(AtomicBool::new(false));
    let watch = GoneWatch { gone: Arc::clone(&gone), complete: false };
    shared.received.lock().unwrap().push(Received {
        method: head.method.to_string(),
        path: path.clone(),
        headers: head.headers,
        body,
        connection,
        gone,
    });
    let reply =
        shared.next.lock().unwrap().pop_front().unwrap_or_else(|| shared.always.lock().unwrap().clone());
    scripted(reply, &path, wanted["stream"] == true, watch, &shared).await
}

/// What the router asks of its own accord.
fn own(path: &str, shared: &Shared) -> Option<Answer> {
    let (kind, body) = match path {
        "/health" => ("text/plain", String::new()),
        "/metrics" => match *shared.metrics.lock().unwrap() {
            Some(metrics) => ("text/plain", metrics.page(&shared.model)),
            None => {
                return Some(whole(
                    404,
                    &[],
                    Bytes::new(),
                    GoneWatch { gone: Arc::default(), complete: true },
                ));
            }
        },
        "/version" => ("application/json", json!({"version": "0.32.0"}).to_string()),
        "/v1/models" => {
            let model = json!({"id": shared.model, "object": "model", "created": 1, "owned_by": "vllm",
                "max_model_len": 8192, "served_at": shared.name});
            ("application/json", json!({"object": "list", "data": [model]}).to_string())
        }
        _ => return None,
    };
    let watch = GoneWatch { gone: Arc::default(), complete: true };
    Some(whole(200, &[("content-type".to_owned(), kind.to_owned())], body.into(), watch))
}

async fn scripted(
    reply: Reply,
    path: &str,
    stream: bool,
    watch: GoneWatch,
    shared: &Shared,
) -> Result<Answer, io::Error> {
    let shape = Shape::of(path);
    match reply.0 {
        Kind::Says { text, every, first } => {
            tokio::time::sleep(first).await;
            if stream {
                let pieces = send(shape.events(&shared.model, &text), every, false);
                return Ok(event_stream(pieces, watch));
            }
            let json = [("content-type".to_owned(), "application/json".to_owned())];
            Ok(whole(200, &json, shape.whole(&shared.model, &text).to_string().into(), watch))
        }
        Kind::Cut { text, events } => {
            let events = shape.events(&shared.model, &text).into_iter().take(events).collect();
            Ok(event_stream(send(events, Duration::ZERO, true), watch))
        }
        Kind::Plain { status, headers, body } => Ok(whole(status, &headers, body, watch)),
        Kind::Hang => {
            // Held here, so that it notes when hyper drops this future because the asker is gone.
            let _watch = watch;
            std::future::pending().await
        }
        Kind::Reset => Err(io::Error::other("scripted")),
        Kind::Live(pieces) => {
            let pieces = pieces.lock().unwrap().take().expect("a live answer is given once");
            Ok(event_stream(pieces, watch))
        }
    }
}

/// Sends events on a task of their own, then resets the connection if wanted.
fn send(events: Vec<(Option<&'static str>, String)>, every: Duration, cut: bool) -> mpsc::Receiver<Piece> {
    let (sender, pieces) = mpsc::channel(1);
    tokio::spawn(async move {
        for (position, (name, data)) in events.into_iter().enumerate() {
            if position > 0 && !every.is_zero() {
                tokio::time::sleep(every).await;
            }
            let name = name.map(|name| format!("event: {name}\n")).unwrap_or_default();
            if sender.send(Piece::Data(format!("{name}data: {data}\n\n").into())).await.is_err() {
                return;
            }
        }
        if cut {
            let _ = sender.send(Piece::Cut).await;
        }
    });
    pieces
}

fn whole(status: u16, headers: &[(String, String)], body: Bytes, watch: GoneWatch) -> Answer {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(Watched { content: Content::Whole(Some(body)), watch }).unwrap()
}

fn event_stream(pieces: mpsc::Receiver<Piece>, watch: GoneWatch) -> Answer {
    let body = Watched { content: Content::Pieces { pieces, cut: None }, watch };
    Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
}

/// Notes that the answer was dropped before it was complete.
#[derive(Debug)]
struct GoneWatch {
    gone: Arc<AtomicBool>,
    complete: bool,
}

impl Drop for GoneWatch {
    fn drop(&mut self) {
        if !self.complete {
            self.gone.store(true, Ordering::SeqCst);
        }
    }
}

/// A body that knows whether it was read to its end.
#[derive(Debug)]
struct Watched {
    content: Content,
    watch: GoneWatch,
}

#[derive(Debug)]
enum Content {
    Whole(Option<Bytes>),
    /// `cut` counts down until the reset, so that what was sent before it is on the wire by then.
    Pieces {
        pieces: mpsc::Receiver<Piece>,
        cut: Option<Pin<Box<Sleep>>>,
    },
}

impl Body for Watched {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        let next = match &mut this.content {
            Content::Whole(bytes) => {
                this.watch.complete = true;
                bytes.take()
            }
            Content::Pieces { pieces, cut } => {
                if cut.is_none() {
                    match ready!(pieces.poll_recv(cx)) {
                        Some(Piece::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                        Some(Piece::Cut) => *cut = Some(Box::pin(tokio::time::sleep(ON_THE_WIRE))),
                        None => {}
                    }
                }
                if let Some(cut) = cut {
                    ready!(cut.as_mut().poll(cx));
                    this.watch.complete = true;
                    return Poll::Ready(Some(Err(io::Error::other("scripted"))));
                }
                None
            }
        };
        this.watch.complete |= next.is_none();
        Poll::Ready(next.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.content, Content::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Content::Pieces { .. } => SizeHint::default(),
        }
    }
}
