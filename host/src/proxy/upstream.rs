//! Connections to engines, kept alive and reused.
//!
//! Of HTTP/1.1 one list of idle connections an endpoint, the last used first, so that a burst's connections age out by
//! the engine's own time-out and the rest stay warm. Such a connection carries one request at a time; it comes back
//! when the answer has been read to its end, and is closed by dropping it. Of HTTP/2 a few connections an endpoint,
//! which requests share.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::uri::Scheme;
use hyper::Request;
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use parking_lot::{Mutex, RwLock};

use super::body::Sent;
use super::introduce::Introduced;
use crate::net::{self, DialError, Dialer};
use crate::pool::Endpoint;
use crate::types::EndpointId;

/// Engines close idle connections after 5 s (uvicorn) and more; ours go first, or a request would meet a closed one.
const IDLE_FOR: Duration = Duration::from_secs(4);
/// Idle connections kept an endpoint.
const MAX_IDLE: usize = 1_024;
/// Requests on one connection of HTTP/2 before another is opened: engines allow some hundred.
const SHARED_BY: usize = 100;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    /// No connection: nothing was sent.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The request could be sent once and has been.
    #[error("no body is left to send")]
    NoBody,
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

type Sender = net::Sender<Sent>;

#[derive(Debug)]
struct Idle {
    sender: Sender,
    since: Instant,
}

/// A connection of HTTP/2.
#[derive(Debug)]
struct Shared {
    sender: SendRequest<Sent>,
    scheme: Scheme,
    users: Users,
}

/// Each request on a shared connection has a clone.
type Users = Arc<()>;

#[derive(Debug, Default)]
struct Kept {
    idle: Vec<Idle>,
    shared: Vec<Shared>,
}

/// The connections to one endpoint.
#[derive(Debug, Default)]
struct Connections(Mutex<Kept>);

impl Connections {
    /// A connection that can take a request.
    fn take(&self) -> Option<(Sender, Option<Users>)> {
        let mut kept = self.0.lock();
        if !kept.shared.is_empty() {
            kept.shared.retain(|shared| !shared.sender.is_closed());
            // One user is the list itself.
            let free = kept.shared.iter().find(|shared| Arc::strong_count(&shared.users) <= SHARED_BY);
            return free.map(|shared| {
                let sender = Sender::Two(shared.sender.clone(), shared.scheme.clone());
                (sender, Some(Arc::clone(&shared.users)))
            });
        }
        while let Some(Idle { sender, since }) = kept.idle.pop() {
            if since.elapsed() > IDLE_FOR {
                // All below are older still.
                kept.idle.clear();
                return None;
            }
            if !sender.is_closed() {
                return Some((sender, None));
            }
        }
        None
    }

    fn give_back(&self, sender: Sender) {
        let mut kept = self.0.lock();
        if matches!(sender, Sender::One(_)) && kept.idle.len() < MAX_IDLE && !sender.is_closed() {
            kept.idle.push(Idle { sender, since: Instant::now() });
        }
    }

    /// Lets others have part in a connection that can carry many requests.
    fn share(&self, sender: &Sender) -> Option<Users> {
        let Sender::Two(sender, scheme) = sender else { return None };
        let users = Users::default();
        let shared = Shared { sender: sender.clone(), scheme: scheme.clone(), users: Arc::clone(&users) };
        self.0.lock().shared.push(shared);
        Some(users)
    }
}

/// All connections to engines.
#[derive(Debug, Default)]
pub struct Upstream {
    connections: RwLock<HashMap<EndpointId, Arc<Connections>>>,
    pub(super) introduced: Introduced,
}

/// A connection in use. [`Lease::done`] gives it back; dropping it closes it, unless others use it too.
#[derive(Debug)]
pub(super) struct Lease {
    sender: Sender,
    connections: Arc<Connections>,
    _shared: Option<Users>,
}

impl Lease {
    /// The answer has been read to its end.
    pub(super) fn done(self) {
        self.connections.give_back(self.sender);
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

/// How an endpoint is reached for a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way<'a> {
    pub(super) dialer: &'a Dialer,
    /// Time in which it must accept a connection.
    pub(super) connect: Duration,
    /// Time in which an answer must begin.
    pub(super) answer: Duration,
    /// Whether the connection may become another protocol's.
    pub(super) upgrades: bool,
}

impl Upstream {
    /// Sends a request and waits for the head of its answer. An idle connection that turns out to be closed is
    /// replaced by a new one if the request can be made again.
    pub(super) async fn send(
        &self,
        endpoint: &Endpoint,
        mut remake: impl Remake,
        way: Way<'_>,
    ) -> Result<Answered, SendError> {
        let connections = self.connections(endpoint.id);
        let mut reused = if way.upgrades { None } else { connections.take() };
        let mut broken = None;
        loop {
            let was_there = reused.is_some();
            let (mut sender, shared) = match reused.take() {
                Some(reused) => reused,
                None => open(endpoint, way, &connections).await?,
            };
            if was_there && sender.ready().await.is_err() {
                reused = connections.take();
                continue;
            }
            // Made only now: a body that can be sent once is not lost to an endpoint that cannot be reached.
            let Some(request) = remake() else { return Err(broken.unwrap_or(SendError::NoBody)) };
            match tokio::time::timeout(way.answer, sender.send(request)).await {
                Err(_) => return Err(SendError::Timeout(way.answer)),
                Ok(Ok(response)) => {
                    return Ok(Answered { response, lease: Lease { sender, connections, _shared: shared } });
                }
                Ok(Err(error)) if error.is_user() => return Err(SendError::Body(error)),
                Ok(Err(error)) if was_there => broken = Some(SendError::Broken(error)),
                Ok(Err(error)) => return Err(SendError::Broken(error)),
            }
        }
    }

    /// Closes the idle connections of all endpoints but these.
    pub fn retain(&self, endpoints: &HashSet<EndpointId>) {
        self.connections.write().retain(|id, _| endpoints.contains(id));
    }

    fn connections(&self, id: EndpointId) -> Arc<Connections> {
        if let Some(connections) = self.connections.read().get(&id) {
            return Arc::clone(connections);
        }
        Arc::clone(self.connections.write().entry(id).or_default())
    }
}

async fn open(
    endpoint: &Endpoint,
    way: Way<'_>,
    connections: &Connections,
) -> Result<(Sender, Option<Users>), SendError> {
    let (stream, two) = if way.upgrades {
        way.dialer.for_upgrades()?.dial(&endpoint.url, way.connect).await?
    } else {
        way.dialer.dial(&endpoint.url, way.connect).await?
    };
    let sender = Sender::open(stream, two).await.map_err(SendError::Broken)?;
    let shared = connections.share(&sender);
    Ok((sender, shared))
}
