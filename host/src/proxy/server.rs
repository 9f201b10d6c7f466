//! Accepting connections, and letting them go.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::StatusCode;
use http::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{Semaphore, watch};

use super::arrival::Origin;
use super::outcome::Failure;
use super::patience::Patient;
use super::service::{self, Conversation};
use super::tunnel::Tunnel;
use super::wire::{Exchange, Last, Wire};
use super::{Proxy, Stop, farewell, headers, http2, malformed};
use crate::net::{Listener, ServerTls, Stream};
use crate::telemetry::{Limit, Resource};
use crate::types::Api;

/// After a failed accept: the process is out of descriptors, most likely, and those under way will free some.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// What streams that are cut off at the end have to say so.
const FAREWELL: Duration = Duration::from_secs(1);
/// A connection of a process that has handed over is closed when no request has come on it for so long.
const UNUSED_FOR: Duration = Duration::from_secs(5);
/// hyper's smallest buffer for a head.
const MIN_HEADER_BYTES: usize = 8_192;

/// Clients above the bound on connections that are told so at a time; the rest are just closed.
const TOLD: usize = 64;

/// Serves connections until `shutdown`, then waits until those under way are done, or for the drain time.
///
/// Each request is served by what `current` is when it comes.
pub async fn serve(
    listener: Listener,
    tls: Option<Arc<ServerTls>>,
    current: Arc<ArcSwap<Proxy>>,
    mut shutdown: watch::Receiver<Stop>,
) {
    let told = Arc::new(Semaphore::new(TOLD));
    let (alive, mut all_gone) = tokio::sync::mpsc::channel::<Infallible>(1);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped(&mut shutdown) => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let proxy = current.load();
                let Some(held) = proxy.usage.take(Resource::Connections, 1, proxy.limits.connections) else {
                    turn_away(stream, tls.is_some(), &proxy, &told);
                    continue;
                };
                let origin = Origin { peer, tls: tls.is_some(), forwarded: proxy.forwarded };
                let (current, tls) = (Arc::clone(&current), tls.clone());
                let (shutdown, alive) = (shutdown.clone(), alive.clone());
                tokio::spawn(async move {
                    client(stream, tls, origin, current, shutdown).await;
                    drop((held, alive));
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    match *shutdown.borrow() {
        Stop::HandOver => listener.leave(),
        Stop::Leave | Stop::No => drop(listener),
    }
    drop(alive);
    let patience = match stopped(&mut shutdown).await {
        Stop::HandOver => current.load().limits.handover_timeout,
        Stop::Leave | Stop::No => current.load().limits.drain_timeout,
    };
    let drained = tokio::time::timeout(patience, all_gone.recv()).await;
    if drained.is_err() {
        tracing::warn!("connections were still open after {} ms", patience.as_millis());
        // Streams hear of it with their next piece.
        current.load().closing.store(true, Ordering::Relaxed);
        let _ = tokio::time::timeout(FAREWELL, all_gone.recv()).await;
    }
}

/// Tells a client that there are too many, where that costs little.
fn turn_away(stream: Stream, tls: bool, proxy: &Proxy, told: &Arc<Semaphore>) {
    let failure = Failure::TooManyConnections(proxy.limits.connections);
    proxy.unrouted.request(Api::Other, failure.status(), 0.0);
    if let Ok(permit) = Arc::clone(told).try_acquire_owned()
        && !tls
    {
        tokio::spawn(async move {
            farewell::say(stream, || failure.answer(Api::Other, &headers::new_id())).await;
            drop(permit);
        });
    }
}

/// Serves one client, in the version of HTTP that it speaks.
async fn client(
    stream: Stream,
    tls: Option<Arc<ServerTls>>,
    origin: Origin,
    current: Arc<ArcSwap<Proxy>>,
    shutdown: watch::Receiver<Stop>,
) {
    let proxy = current.load_full();
    let stream = match tls {
        None => stream,
        Some(tls) => match tokio::time::timeout(proxy.limits.header_timeout, tls.accept(stream)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(peer = %origin.peer, %error, "no TLS connection"),
            Err(_) => return proxy.usage.hit(Limit::HeaderTime),
        },
    };
    if stream.agreed_on_http2() {
        return http2::serve(stream, Bytes::new(), origin, current, shutdown).await;
    }
    let next = connection(stream, origin, &current, shutdown.clone()).await;
    match next {
        Next::Nothing => {}
        Next::Http2(stream, left) => http2::serve(stream, left, origin, current, shutdown).await,
        Next::Tunnel(tunnel, stream, left) => tunnel.run(stream, left).await,
    }
}

/// What becomes of a connection that is no longer HTTP/1, with what has been read of it.
enum Next {
    Nothing,
    Http2(Stream, Bytes),
    Tunnel(Box<Tunnel>, Stream, Bytes),
}

/// Serves HTTP/1.
async fn connection(
    stream: Stream,
    origin: Origin,
    current: &Arc<ArcSwap<Proxy>>,
    shutdown: watch::Receiver<Stop>,
) -> Next {
    let proxy = current.load_full();
    let limits = &proxy.limits;
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(limits.header_bytes.max(MIN_HEADER_BYTES));
    let exchange = Arc::new(Exchange::new());
    let service = service_fn(|request| {
        let (proxy, exchange) = (current.load_full(), Arc::clone(&exchange));
        let framed = exchange.begin();
        let last = shutdown.clone();
        async move {
            let conversation = Conversation { framed, origin, exchange: Some(Arc::clone(&exchange)) };
            let mut answer = service::answer(proxy, request, conversation).await;
            if *last.borrow() == Stop::HandOver && answer.status() != StatusCode::SWITCHING_PROTOCOLS {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(answer.map(|body| Last::new(body, exchange)))
        }
    });
    let stream = Patient::new(stream, limits.write_timeout, Arc::clone(&proxy.usage));
    let wire = Wire::new(stream, Arc::clone(&exchange));
    let mut connection = builder.serve_connection(TokioIo::new(wire), service);
    let mut stop = shutdown.clone();
    let done = tokio::select! {
        served = &mut connection => Ok(served),
        stop = stopped(&mut stop) => Err(stop),
    };
    let stopped = done.is_err();
    let served = match done {
        Ok(served) => served,
        Err(stop) => {
            let served = match stop {
                Stop::HandOver => unused(&mut connection, &exchange).await,
                Stop::Leave | Stop::No => None,
            };
            match served {
                Some(served) => served,
                None => {
                    Pin::new(&mut connection).graceful_shutdown();
                    (&mut connection).await
                }
            }
        }
    };
    let http1::Parts { io, read_buf, .. } = connection.into_parts();
    let wire = io.into_inner();
    if let Some(tunnel) = exchange.has_become().filter(|_| served.is_ok()) {
        return Next::Tunnel(tunnel, wire.into_inner(), read_buf);
    }
    let Err(error) = served else {
        if wire.open() && !stopped {
            farewell::close(wire.into_inner()).await;
        }
        return Next::Nothing;
    };
    tracing::debug!(peer = %origin.peer, %error, "connection ended");
    if exchange.begun() == 0
        && !stopped
        && http2::begins(&read_buf)
        && (error.is_parse() || error.is_parse_version_h2())
    {
        return Next::Http2(wire.into_inner(), read_buf);
    }
    // While an answer is under way nothing can be put beside it.
    let wrong = if wire.idle() { malformed::head(&error, &read_buf, limits) } else { None };
    match wrong.map(Failure::Malformed) {
        Some(failure) => {
            let id = headers::new_id();
            current.load().refused(Api::Other, &failure);
            farewell::say(wire.into_inner(), || failure.answer(Api::Other, &id)).await;
        }
        None if wire.open() && !stopped => farewell::close(wire.into_inner()).await,
        None => {}
    }
    Next::Nothing
}

/// Returns when connections are not taken any more, and why.
async fn stopped(shutdown: &mut watch::Receiver<Stop>) -> Stop {
    // When nobody is left to say so, it is over too.
    shutdown.wait_for(|stop| *stop != Stop::No).await.map_or(Stop::Leave, |stop| *stop)
}

/// Serves a connection until it ends, or until no request has come for [`UNUSED_FOR`]: then it is over for us.
async fn unused<F: Future + Unpin>(connection: &mut F, exchange: &Exchange) -> Option<F::Output> {
    loop {
        let begun = exchange.begun();
        if let Ok(served) = tokio::time::timeout(UNUSED_FOR, &mut *connection).await {
            return Some(served);
        }
        if exchange.idle() && exchange.begun() == begun {
            return None;
        }
    }
}
