//! The little of HTTP that all parts share.

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::Value;
use std::time::Duration;

/// A client that keeps its connections.
pub type Http = Client<HttpConnector, Full<Bytes>>;

/// Largest answer that [`json`] reads, in bytes.
const ANSWER_LIMIT: usize = 64 << 20;

/// Why a request of our own failed.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The address is none.
    #[error("bad address: {0}")]
    Address(#[from] http::Error),
    /// No connection, or it broke.
    #[error("no answer: {0}")]
    Connection(#[from] hyper_util::client::legacy::Error),
    /// The answer's body broke off or is too long.
    #[error("broken answer: {0}")]
    Body(String),
    /// The answer's body is no JSON.
    #[error("answer is no JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It took too long.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
}

/// A client with up to `per_host` idle connections to each server.
#[must_use]
pub fn client(per_host: usize) -> Http {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(Duration::from_secs(5)));
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_max_idle_per_host(per_host)
        .pool_idle_timeout(Duration::from_secs(60))
        .build(connector)
}

/// Sends one request and reads its answer as JSON; an empty answer is `null`.
///
/// # Errors
/// When there is no whole JSON answer within `limit`. A status other than 2xx is no error.
pub async fn json(
    http: &Http,
    method: http::Method,
    url: &str,
    body: Option<&Value>,
    limit: Duration,
) -> Result<(http::StatusCode, Value), WebError> {
    let exchange = async {
        let bytes = body.map(Value::to_string).unwrap_or_default();
        let request = http::Request::builder()
            .method(method)
            .uri(url)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(bytes)))?;
        let response = http.request(request).await?;
        let status = response.status();
        let read = Limited::new(response.into_body(), ANSWER_LIMIT).collect().await;
        let bytes = read.map_err(|error| WebError::Body(error.to_string()))?.to_bytes();
        let value = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes)? };
        Ok((status, value))
    };
    tokio::time::timeout(limit, exchange).await.map_err(|_| WebError::Timeout(limit))?
}

/// Asks for `url` and returns the status alone, whatever the body is.
///
/// # Errors
/// When there is no answer within `limit`.
pub async fn status(http: &Http, url: &str, limit: Duration) -> Result<http::StatusCode, WebError> {
    let exchange = async {
        let response = http.request(http::Request::get(url).body(Full::default())?).await?;
        Ok(response.status())
    };
    tokio::time::timeout(limit, exchange).await.map_err(|_| WebError::Timeout(limit))?
}
