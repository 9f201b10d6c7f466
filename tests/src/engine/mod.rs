//! A model server in this process, on a real socket, that does what the test scripts.
//!
//! Unscripted it is a healthy vLLM that serves the model `tiny` and answers every API. It keeps what it
//! was asked, byte for byte, and whether the asker went away.

mod metrics;
mod reply;
mod serve;
mod shapes;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::HeaderMap;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::wait;

pub use metrics::Metrics;
pub use reply::{Live, Reply};

/// The fake model server; gone when it is dropped.
#[derive(Debug)]
pub struct Engine {
    addr: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
}

/// What an engine was asked.
#[derive(Debug, Clone)]
pub struct Received {
    /// The method.
    pub method: String,
    /// Path and query as they came.
    pub path: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, byte for byte.
    pub body: Bytes,
    /// On which of its connections, from 0.
    pub connection: usize,
    gone: Arc<AtomicBool>,
}

impl Received {
    /// Whether the asker went away before the answer was complete.
    #[must_use]
    pub fn gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// A header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

#[derive(Debug)]
struct Shared {
    name: String,
    model: String,
    next: Mutex<VecDeque<Reply>>,
    always: Mutex<Reply>,
    metrics: Mutex<Option<Metrics>>,
    received: Mutex<Vec<Received>>,
    connections: Mutex<usize>,
}

impl Engine {
    /// One that serves the model `tiny`.
    pub async fn start() -> Self {
        Self::serving("tiny").await
    }

    /// One that serves this model.
    pub async fn serving(model: &str) -> Self {
        Self::at("127.0.0.1:0", model).await
    }

    /// One at this very address, to come back where another was.
    ///
    /// # Panics
    /// When the address is taken.
    pub async fn at(addr: &str, model: &str) -> Self {
        let listener = TcpListener::bind(addr).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            name: addr.to_string(),
            model: model.to_owned(),
            next: Mutex::default(),
            always: Mutex::new(Reply::says("all is well here")),
            metrics: Mutex::new(Some(Metrics::default())),
            received: Mutex::default(),
            connections: Mutex::default(),
        });
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(serve::listen(listener, Arc::clone(&shared), stopped));
        Self { addr, shared, stop }
    }

    /// Its base URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The id that the router gives it: `host:port`.
    #[must_use]
    pub fn id(&self) -> String {
        self.addr.to_string()
    }

    /// Answers the next request that no other reply is waiting for.
    pub fn next(&self, reply: Reply) {
        self.shared.next.lock().unwrap().push_back(reply);
    }

    /// Answers everything that [`Engine::next`] does not.
    pub fn always(&self, reply: Reply) {
        *self.shared.always.lock().unwrap() = reply;
    }

    /// Answers the next request piece by piece, as the test says.
    #[must_use]
    pub fn next_live(&self) -> Live {
        let (reply, live) = Reply::live();
        self.next(reply);
        live
    }

    /// What it reports at `/metrics` from now on.
    pub fn report(&self, metrics: Metrics) {
        *self.shared.metrics.lock().unwrap() = Some(metrics);
    }

    /// Has no `/metrics` from now on.
    pub fn report_nothing(&self) {
        *self.shared.metrics.lock().unwrap() = None;
    }

    /// What it was asked so far, the router's own questions (`/metrics`, `/v1/models`, `/health`) left out.
    #[must_use]
    pub fn received(&self) -> Vec<Received> {
        self.shared.received.lock().unwrap().clone()
    }

    /// Waits until it was asked so often.
    pub async fn received_at_least(&self, count: usize) -> Vec<Received> {
        let what = format!("engine {} was asked {count} times", self.addr);
        wait::until_some(&what, async || Some(self.received()).filter(|all| all.len() >= count)).await
    }

    /// The only request that it got.
    ///
    /// # Panics
    /// When it got none or several.
    #[must_use]
    pub fn only(&self) -> Received {
        let mut all = self.received();
        assert_eq!(all.len(), 1, "requests at {}: {all:#?}", self.addr);
        all.remove(0)
    }

    /// Connections that it accepted so far, those for the router's own questions included.
    #[must_use]
    pub fn connections(&self) -> usize {
        *self.shared.connections.lock().unwrap()
    }

    /// Stops listening and resets all connections; says the address, for one that comes back.
    pub async fn crash(self) -> String {
        let addr = self.addr.to_string();
        drop(self);
        wait::until("the address is free", async || tokio::net::TcpStream::connect(&addr).await.is_err())
            .await;
        addr
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}
