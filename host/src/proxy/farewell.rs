//! The end of a client's connection that the proxy closes first.
//!
//! A socket that is closed while bytes of the client are still on their way is reset, and the client may lose the
//! answer that explains why. So only the sending side is closed, and what still comes is read and thrown away, for
//! a short time and up to a bound.

use std::convert::Infallible;
use std::future::ready;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::body::Answer;
use crate::net::Stream;

/// Time that a client has to read the answer and to close its side.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes that are thrown away meanwhile.
const THROWN_AWAY: u64 = 1 << 20;
/// The request in whose place an answer is given where none could be read.
const STAND_IN: &[u8] = b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n";

/// Answers what was no request, and closes.
pub(super) async fn say(mut stream: Stream, answer: impl Fn() -> Response<Answer>) {
    let service = service_fn(|_: Request<Incoming>| ready(Ok::<_, Infallible>(answer())));
    let conversation = tokio::io::join(STAND_IN, &mut stream);
    // The stand-in is all that there is to read, and its end must not be taken for a client that goes away.
    let said = http1::Builder::new().half_close(true).serve_connection(TokioIo::new(conversation), service);
    if let Ok(Ok(())) = timeout(PATIENCE, said).await {
        close(stream).await;
    }
}

/// Closes, once the client has had the time to read what it was sent.
pub(super) async fn close(mut stream: Stream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut rest = stream.take(THROWN_AWAY);
    let _ = timeout(PATIENCE, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
}
