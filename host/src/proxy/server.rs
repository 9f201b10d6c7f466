//! Accepting connections, and letting them go.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use super::{Proxy, service};

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
    let service = service_fn(|request| {
        let proxy = Arc::clone(&proxy);
        async move { Ok::<_, Infallible>(service::answer(proxy, request, peer.ip()).await) }
    });
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let stopped = async move {
        let _ = shutdown.wait_for(|stop| *stop).await;
    };
    let done = tokio::select! {
        served = connection.as_mut() => Some(served),
        () = stopped => None,
    };
    let served = match done {
        Some(served) => served,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%peer, %error, "connection ended");
    }
}
