//! What engines are asked before others can find them: their ids, at their bootstrap servers.
//!
//! An id is asked once and kept until a leg at that endpoint fails: an engine that was started again has another.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::Request;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use parking_lot::RwLock;
use tokio::net::TcpStream;

use crate::disagg::Introduction;
use crate::pool::Endpoint;
use crate::types::{EndpointId, Url};

/// The answer has a few lines for each rank.
const MAX_ANSWER: usize = 1024 * 1024;

/// The ids that are known.
#[derive(Debug, Default)]
pub(super) struct Introduced(RwLock<HashMap<EndpointId, Box<str>>>);

impl Introduced {
    /// The id of an endpoint's engine.
    pub(super) async fn engine_id(
        &self,
        endpoint: &Endpoint,
        port: u16,
        timeout: Duration,
    ) -> Result<Box<str>, String> {
        if let Some(known) = self.0.read().get(&endpoint.id) {
            return Ok(known.clone());
        }
        let server = Url { port, ..endpoint.url.clone() };
        let asked = tokio::time::timeout(timeout, ask(&server));
        let answer = asked.await.map_err(|_| format!("no answer within {} ms", timeout.as_millis()))??;
        let id = Introduction::engine_id(&answer).ok_or("its answer names no engine_id")?;
        self.0.write().insert(endpoint.id, id.clone());
        Ok(id)
    }

    /// A leg there failed.
    pub(super) fn forget(&self, endpoint: EndpointId) {
        // Most dialects know no ids.
        if !self.0.read().is_empty() {
            self.0.write().remove(&endpoint);
        }
    }
}

async fn ask(server: &Url) -> Result<Bytes, String> {
    let words = |error: &dyn std::error::Error| error.to_string();
    let stream = TcpStream::connect((&*server.host, server.port)).await.map_err(|error| words(&error))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| words(&error))?;
    tokio::spawn(connection);
    let request = Request::get("/query").header(HOST, server.authority()).body(Empty::<Bytes>::new());
    let request = request.map_err(|error| words(&error))?;
    let response = sender.send_request(request).await.map_err(|error| words(&error))?;
    if !response.status().is_success() {
        return Err(format!("/query answered {}", response.status()));
    }
    let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
    Ok(body.map_err(|error| error.to_string())?.to_bytes())
}
