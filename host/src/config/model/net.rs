//! How the proxy is reached and reaches others.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::path_option;

/// TLS for clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TlsConfig {
    /// PEM file of the certificate, followed by those that vouch for it.
    pub cert: PathBuf,
    /// PEM file of its key.
    pub key: PathBuf,
    /// PEM file of those who vouch for clients; none asks clients for nothing.
    #[serde(serialize_with = "path_option")]
    pub client_ca: Option<PathBuf>,
}

/// Whom of its https endpoints a pool believes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolTls {
    /// PEM file of those who vouch for endpoints; none: those whom browsers believe.
    #[serde(serialize_with = "path_option")]
    pub ca: Option<PathBuf>,
    /// PEM file of the certificate that endpoints are shown.
    #[serde(serialize_with = "path_option")]
    pub cert: Option<PathBuf>,
    /// PEM file of its key.
    #[serde(serialize_with = "path_option")]
    pub key: Option<PathBuf>,
    /// The name that certificates must have, in the place of the host.
    pub server_name: Option<Box<str>>,
    /// Whether certificates are looked at.
    pub verify: bool,
}

/// The version of HTTP that is spoken to endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HttpVersion {
    /// HTTP/2 where TLS agrees on it, else HTTP/1.1.
    #[serde(rename = "auto")]
    Auto,
    /// HTTP/1.1.
    #[serde(rename = "1")]
    One,
    /// HTTP/2.
    #[serde(rename = "2")]
    Two,
}

/// What engines are told of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Forwarded {
    /// What the client says of itself and of those before it, and its address.
    Append,
    /// Its address, and how it reached the proxy.
    Replace,
    /// Nothing.
    Off,
}

/// Whether requests without a W3C trace context are given one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Traceparent {
    /// What is valid is passed on.
    Pass,
    /// Requests without one are given one, which asks to be recorded.
    Make,
}
