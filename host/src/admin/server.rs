//! Connections to the admin listener.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::answer::{Answer, error};
use super::{Admin, router};

/// Connections at a time; further ones wait to be accepted.
const CONNECTIONS: usize = 256;
/// Bytes of a request's head. Larger ones get 431.
const HEAD_BYTES: usize = 64 * 1024;
/// Time in which a head must have come.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that answers under way have at shutdown.
const GRACE: Duration = Duration::from_secs(2);
/// Pause after a connection could not be accepted, which happens when the process has no more descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves the admin API until `shutdown` turns true. Each request is answered by what `current` is when it comes.
pub async fn serve(listener: TcpListener, current: Arc<ArcSwap<Admin>>, mut shutdown: watch::Receiver<bool>) {
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let next = async {
            let place = Arc::clone(&free).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            next = next => next,
            () = stopped(&mut shutdown) => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                let (current, shutdown) = (Arc::clone(&current), shutdown.clone());
                tokio::spawn(async move {
                    connection(stream, peer, current, shutdown).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "an admin connection could not be accepted");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    current: Arc<ArcSwap<Admin>>,
    mut shutdown: watch::Receiver<bool>,
) {
    let service = service_fn(move |request| respond(current.load_full(), request, peer));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // Errors are those of the peer; there is nobody left to tell.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stopped(&mut shutdown) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(GRACE, connection).await;
}

async fn stopped(shutdown: &mut watch::Receiver<bool>) {
    // When nobody is left to say so, it is over too.
    let _ = shutdown.wait_for(|stop| *stop).await;
}

async fn respond(
    admin: Arc<Admin>,
    request: Request<Incoming>,
    peer: SocketAddr,
) -> Result<Answer, Infallible> {
    let (head, _) = request.into_parts();
    let answered = tokio::task::spawn_blocking(move || router::answer(&admin, &head, peer)).await;
    Ok(answered.unwrap_or_else(|_| error(StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be made")))
}
