//! Accepting connections, and letting them go.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use super::outcome::Failure;
use super::wire::{Exchange, Last, Wire};
use super::{Proxy, farewell, headers, malformed, service};
use crate::config::Limits;
use crate::types::Api;

/// After a failed accept: the process is out of descriptors, most likely, and those under way will free some.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// hyper's smallest buffer for a head.
const MIN_HEADER_BYTES: usize = 8_192;

/// Serves connections until `shutdown`, then waits until those under way are done, or for the drain time.
pub async fn serve(listener: TcpListener, proxy: Arc<Proxy>, mut shutdown: watch::Receiver<bool>) {
    let room = Arc::new(Semaphore::new(proxy.limits.connections.min(Semaphore::MAX_PERMITS)));
    let (alive, mut all_gone) = tokio::sync::mpsc::channel::<Infallible>(1);
    loop {
        let permit = tokio::select! {
            permit = Arc::clone(&room).acquire_owned() => permit,
            _ = shutdown.wait_for(|stop| *stop) => break,
        };
        let Ok(permit) = permit else { break };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = shutdown.wait_for(|stop| *stop) => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let (proxy, shutdown, alive) = (Arc::clone(&proxy), shutdown.clone(), alive.clone());
                tokio::spawn(async move {
                    connection(stream, peer, proxy, shutdown).await;
                    drop((permit, alive));
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop((listener, alive));
    let drained = tokio::time::timeout(proxy.limits.drain_timeout, all_gone.recv()).await;
    if drained.is_err() {
        tracing::warn!("connections were still open after {} ms", proxy.limits.drain_timeout.as_millis());
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    proxy: Arc<Proxy>,
    mut shutdown: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let limits = &proxy.limits;
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(limits.header_bytes.max(MIN_HEADER_BYTES));
    let exchange = Arc::new(Exchange::new());
    let service = service_fn(|request| {
        let (proxy, exchange) = (Arc::clone(&proxy), Arc::clone(&exchange));
        let framed = exchange.begin();
        async move {
            let answer = service::answer(proxy, request, framed, peer.ip()).await;
            Ok::<_, Infallible>(answer.map(|body| Last::new(body, exchange)))
        }
    });
    let wire = Wire::new(stream, Arc::clone(&exchange));
    let mut connection = builder.serve_connection(TokioIo::new(wire), service);
    let done = tokio::select! {
        served = &mut connection => Some(served),
        _ = shutdown.wait_for(|stop| *stop) => None,
    };
    let stopped = done.is_none();
    let served = match done {
        Some(served) => served,
        None => {
            Pin::new(&mut connection).graceful_shutdown();
            (&mut connection).await
        }
    };
    let http1::Parts { io, read_buf, .. } = connection.into_parts();
    let wire = io.into_inner();
    match served.err().and_then(|error| wrong(&error, peer, &wire, &read_buf, limits)) {
        Some(failure) => {
            let id = headers::new_id();
            proxy.unrouted.request(Api::Other, failure.status(), 0.0);
            farewell::say(wire.into_inner(), || failure.answer(Api::Other, &id)).await;
        }
        None if wire.open() && !stopped => farewell::close(wire.into_inner()).await,
        None => {}
    }
}

/// What the client is to be told when its connection ends in an error of its own making. `left` is what was read
/// and not taken as a request.
fn wrong(
    error: &hyper::Error,
    peer: SocketAddr,
    wire: &Wire,
    left: &[u8],
    limits: &Limits,
) -> Option<Failure> {
    tracing::debug!(%peer, %error, "connection ended");
    // While an answer is under way nothing can be put beside it.
    let error = if wire.idle() { malformed::head(error, left, limits) } else { None };
    error.map(Failure::Malformed)
}
