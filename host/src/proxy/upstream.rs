//! Connections to engines, kept alive and reused.
//!
//! One list of idle connections an endpoint, the last used first, so that a burst's connections age out by the
//! engine's own time-out and the rest stay warm. A connection carries one request at a time; it comes back when
//! the answer has been read to its end, and is closed by dropping it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Request;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use parking_lot::{Mutex, RwLock};
use tokio::net::TcpStream;

use super::body::Sent;
use crate::pool::Endpoint;
use crate::types::EndpointId;

/// Engines close idle connections after 5 s (uvicorn) and more; ours go first, or a request would meet a closed one.
const IDLE_FOR: Duration = Duration::from_secs(4);
/// Idle connections kept an endpoint.
const MAX_IDLE: usize = 1_024;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    /// No connection: nothing was sent.
    #[error("cannot connect: {0}")]
    Connect(std::io::Error),
    /// No connection in time: nothing was sent.
    #[error("no connection within {} ms", .0.as_millis())]
    ConnectTimeout(Duration),
    /// The connection broke before a byte of an answer.
    #[error("closed before it answered: {0}")]
    Broken(hyper::Error),
    /// No answer in time.
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// The client's body, on its way through, broke off.
    #[error("the client's body broke off")]
    Body(hyper::Error),
}

type Sender = http1::SendRequest<Sent>;

#[derive(Debug)]
struct Idle {
    sender: Sender,
    since: Instant,
}

#[derive(Debug, Default)]
struct Idles(Mutex<Vec<Idle>>);

impl Idles {
    fn pop(&self) -> Option<Sender> {
        let mut idle = self.0.lock();
        while let Some(Idle { sender, since }) = idle.pop() {
            if since.elapsed() > IDLE_FOR {
                // All below are older still.
                idle.clear();
                return None;
            }
            if !sender.is_closed() {
                return Some(sender);
            }
        }
        None
    }

    fn push(&self, sender: Sender) {
        let mut idle = self.0.lock();
        if idle.len() < MAX_IDLE && !sender.is_closed() {
            idle.push(Idle { sender, since: Instant::now() });
        }
    }
}

/// All connections to engines.
#[derive(Debug, Default)]
pub struct Upstream {
    idle: RwLock<HashMap<EndpointId, Arc<Idles>>>,
}

/// A connection in use. [`Lease::done`] gives it back; dropping it closes it.
#[derive(Debug)]
pub(super) struct Lease {
    sender: Sender,
    idle: Arc<Idles>,
}

impl Lease {
    /// The answer has been read to its end.
    pub(super) fn done(self) {
        self.idle.push(self.sender);
    }
}

/// An answer's head, and the connection on which its body comes.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) response: hyper::Response<Incoming>,
    pub(super) lease: Lease,
}

/// A request that can be made again for another connection.
pub(super) trait Remake: FnMut() -> Option<Request<Sent>> + Send {}
impl<F: FnMut() -> Option<Request<Sent>> + Send> Remake for F {}

impl Upstream {
    /// Sends a request and waits for the head of its answer. An idle connection that turns out to be closed is
    /// replaced by a new one if the request can be made again.
    pub(super) async fn send(
        &self,
        endpoint: &Endpoint,
        mut remake: impl Remake,
        connect_timeout: Duration,
        answer_timeout: Duration,
    ) -> Result<Answered, SendError> {
        let idle = self.idles(endpoint.id);
        let mut reused = idle.pop();
        let mut broken = None;
        loop {
            let (mut sender, was_idle) = match reused.take() {
                Some(sender) => (sender, true),
                None => (connect(endpoint, connect_timeout).await?, false),
            };
            if was_idle && sender.ready().await.is_err() {
                reused = idle.pop();
                continue;
            }
            // Made only now: a body that can be sent once is not lost to an endpoint that cannot be reached.
            let Some(request) = remake() else {
                return Err(
                    broken.unwrap_or_else(|| SendError::Connect(std::io::Error::other("no body is left")))
                );
            };
            match tokio::time::timeout(answer_timeout, sender.send_request(request)).await {
                Err(_) => return Err(SendError::Timeout(answer_timeout)),
                Ok(Ok(response)) => return Ok(Answered { response, lease: Lease { sender, idle } }),
                Ok(Err(error)) if error.is_user() => return Err(SendError::Body(error)),
                Ok(Err(error)) if was_idle => broken = Some(SendError::Broken(error)),
                Ok(Err(error)) => return Err(SendError::Broken(error)),
            }
        }
    }

    fn idles(&self, id: EndpointId) -> Arc<Idles> {
        if let Some(idle) = self.idle.read().get(&id) {
            return Arc::clone(idle);
        }
        Arc::clone(self.idle.write().entry(id).or_default())
    }
}

async fn connect(endpoint: &Endpoint, timeout: Duration) -> Result<Sender, SendError> {
    let url = &endpoint.url;
    let address = (&*url.host, url.port);
    let stream = tokio::time::timeout(timeout, TcpStream::connect(address))
        .await
        .map_err(|_| SendError::ConnectTimeout(timeout))?
        .map_err(SendError::Connect)?;
    let _ = stream.set_nodelay(true);
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(SendError::Broken)?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "upstream connection ended");
        }
    });
    Ok(sender)
}
