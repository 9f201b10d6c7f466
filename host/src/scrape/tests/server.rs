//! A model server as far as scraping sees one.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Page(u16, String),
    /// A good page after some time.
    Slow(Duration, String),
    /// Never answers.
    Hang,
}

#[derive(Debug, Default)]
struct State {
    answers: HashMap<String, Answer>,
    asked: HashMap<String, u32>,
    at_once: u32,
    most_at_once: u32,
}

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: String,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Answers these paths, and 404 everything else.
    pub(crate) async fn start(name: &'static str, answers: &[(&str, u16, &str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::<Mutex<State>>::default();
        let served = Arc::clone(&state);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&served);
                let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                    let state = Arc::clone(&state);
                    async move { Ok::<_, Infallible>(answer(&state, request.uri().path(), name).await) }
                });
                let io = TokioIo::new(stream);
                connections.spawn(async move {
                    let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
                });
            }
        });
        let server = Self { address, state, task };
        for (path, status, body) in answers {
            server.set(path, Answer::Page(*status, (*body).into()));
        }
        server
    }

    pub(crate) fn set(&self, path: &str, answer: Answer) {
        self.state.lock().answers.insert(path.into(), answer);
    }

    pub(crate) fn asked(&self, path: &str) -> u32 {
        self.state.lock().asked.get(path).copied().unwrap_or(0)
    }

    pub(crate) fn most_at_once(&self) -> u32 {
        self.state.lock().most_at_once
    }

    /// Closes the port and every connection.
    pub(crate) fn stop(&self) {
        self.task.abort();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Counts a request out even when it is dropped in the middle.
struct Asking<'a>(&'a Mutex<State>);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.lock().at_once -= 1;
    }
}

async fn answer(state: &Mutex<State>, path: &str, name: &str) -> Response<Full<Bytes>> {
    let answer = {
        let mut state = state.lock();
        *state.asked.entry(path.into()).or_default() += 1;
        state.at_once += 1;
        state.most_at_once = state.most_at_once.max(state.at_once);
        state.answers.get(path).cloned()
    };
    let _asking = Asking(state);
    let (status, body) = match answer {
        Some(Answer::Page(status, body)) => (status, body),
        Some(Answer::Slow(time, body)) => {
            tokio::time::sleep(time).await;
            (200, body)
        }
        Some(Answer::Hang) => std::future::pending().await,
        None => (404, "not found".into()),
    };
    Response::builder().status(status).header("server", name).body(Full::new(body.into())).unwrap()
}
