//! Ids, units and small enums that every layer shares.

use std::fmt;

use serde::{Deserialize, Serialize};

mod dialect;
mod publisher;

pub use dialect::Dialect;
/// Headers in which callers show who they are. They go to no engine that has a key of its own, and to no engine at
/// all where tenants are configured.
pub const CREDENTIALS: [http::HeaderName; 4] = [
    http::header::AUTHORIZATION,
    http::HeaderName::from_static("x-api-key"),
    http::HeaderName::from_static("api-key"),
    http::header::PROXY_AUTHORIZATION,
];

pub use publisher::{Attach, EventSource, Publisher, TcpAddress};

/// Handle of an endpoint, stable in this process and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EndpointId(pub u32);

/// Which version of the policies served a request while a candidate is tried: the generation of the
/// candidate, or [`Arm::BASE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Arm(pub u64);

impl Arm {
    /// The versions in force.
    pub const BASE: Self = Self(0);
}

/// Hash of an endpoint's address and rank: equal in every replica and after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct EndpointKey(pub u64);

impl EndpointKey {
    /// The key of an endpoint's name (`host:port`, plus the rank where there are ranks).
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self(xxhash_rust::xxh64::xxh64(name.as_bytes(), 0))
    }
}

/// What an endpoint may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Prefill and decode.
    #[default]
    Both,
    /// Prefill for others only.
    Prefill,
    /// Decode; prefills its own requests when they are not split.
    Decode,
}

impl Role {
    /// Whether a prefill leg may go there.
    #[must_use]
    pub fn prefills(self) -> bool {
        matches!(self, Self::Both | Self::Prefill)
    }

    /// Whether a client's answer may come from there.
    #[must_use]
    pub fn decodes(self) -> bool {
        matches!(self, Self::Both | Self::Decode)
    }
}

/// For what a set of candidates is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// The endpoint that answers the client.
    Decode,
    /// The endpoint of a prefill leg.
    Prefill,
}

impl Profile {
    /// The profile's name as plugins see it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Prefill => "prefill",
        }
    }
}

/// What a failed call means for the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// The stage's default: the filter keeps all, the scorer adds nothing, admission accepts, flow
    /// control is first come first served, the request is not split.
    #[default]
    Default,
    /// 503, for policies that must never be skipped.
    Reject,
}

/// What it means when a filter keeps nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnEmpty {
    /// 503.
    #[default]
    Reject,
    /// The filter is ignored for this request.
    Ignore,
}

/// The API through which a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// `POST /v1/chat/completions`
    Chat,
    /// `POST /v1/completions`
    Completions,
    /// `POST /v1/responses`
    Responses,
    /// `POST /v1/messages`
    Messages,
    /// `POST /v1/embeddings`
    Embeddings,
    /// An engine's own `POST /generate`
    Generate,
    /// Any other path; passed through.
    Other,
}

/// The kind of model server behind an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// vLLM
    Vllm,
    /// SGLang
    Sglang,
    /// TensorRT-LLM (`trtllm-serve`)
    Trtllm,
    /// llama.cpp (`llama-server`)
    Llamacpp,
}

impl Engine {
    /// The engine's name in configuration and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Trtllm => "trtllm",
            Self::Llamacpp => "llamacpp",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Bytes of prompt text that are taken for one token where no tokenizer counted them.
///
/// Source: the estimate that llm-d's `token-producer` uses by default.
pub const BYTES_PER_TOKEN: usize = 4;

/// The prompt of a request in a canonical form: two requests with equal beginnings of this form have
/// equal beginnings for the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// Text, with the parts of the conversation framed so that they cannot run into each other.
    Text(Vec<u8>),
    /// Token ids, as the client sent them.
    Tokens(Vec<u32>),
}

impl Prompt {
    /// Length in tokens; of text an estimate ([`BYTES_PER_TOKEN`]), rounded up.
    #[must_use]
    pub fn tokens(&self) -> u32 {
        let tokens = match self {
            Self::Text(text) => text.len().div_ceil(BYTES_PER_TOKEN),
            Self::Tokens(ids) => ids.len(),
        };
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }

    /// Whether [`Self::tokens`] is a count and not an estimate.
    #[must_use]
    pub fn exact(&self) -> bool {
        matches!(self, Self::Tokens(_))
    }
}

/// What an engine reported of one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Usage {
    /// Tokens of the prompt, cached ones included.
    pub prompt_tokens: u32,
    /// Those of them that came out of the engine's prefix cache; none when it did not say.
    pub cached_tokens: Option<u32>,
    /// Tokens of the answer.
    pub output_tokens: u32,
}

/// Where an endpoint listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Url {
    /// Whether TLS is spoken.
    pub https: bool,
    /// Name or address, lower case; an IPv6 address without its brackets.
    pub host: Box<str>,
    /// The port, always known.
    pub port: u16,
    /// What precedes every request's path: empty, or `/…` without a slash at its end.
    pub base_path: Box<str>,
    /// The Unix socket in whose place there is no host.
    pub socket: Option<Box<str>>,
}

/// Why a text is no endpoint's URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Another scheme than the two that are spoken.
    #[error("the scheme `{0}` is not spoken, only http and https")]
    Scheme(Box<str>),
    /// Something does not fit the form.
    #[error("{0}; an endpoint is written `http://HOST:PORT` or `unix:/PATH`")]
    Form(&'static str),
}

/// `HOST:PORT`, an IPv6 address in brackets.
#[must_use]
pub fn host_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

impl Url {
    /// Reads `[http[s]://]HOST[:PORT][/PATH]`, or `unix:/PATH` of a Unix socket.
    ///
    /// # Errors
    /// When the text has another form.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Self::of_socket(path);
        }
        let (https, rest) = match text.split_once("://") {
            None => (false, text),
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some((scheme, _)) => return Err(UrlError::Scheme(scheme.into())),
        };
        if rest.contains(['?', '#']) {
            return Err(UrlError::Form("a query or fragment is not part of an endpoint"));
        }
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, ""),
        };
        if authority.contains('@') {
            return Err(UrlError::Form("user and password are not part of an endpoint"));
        }
        let (host, port) = split_port(authority)?;
        let port = match port {
            Some(port) => port
                .parse()
                .ok()
                .filter(|port| *port != 0)
                .ok_or(UrlError::Form("the port is no number in 1..=65535"))?,
            None if https => 443,
            None => 80,
        };
        if path.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return Err(UrlError::Form("the path holds a character that must be escaped"));
        }
        Ok(Self {
            https,
            host: host.to_ascii_lowercase().into(),
            port,
            base_path: path.trim_end_matches('/').into(),
            socket: None,
        })
    }

    fn of_socket(path: &str) -> Result<Self, UrlError> {
        if !path.starts_with('/') || path.ends_with('/') {
            return Err(UrlError::Form("a Unix socket is named by its whole path"));
        }
        if path.bytes().any(|byte| !byte.is_ascii_graphic() || matches!(byte, b'?' | b'#' | b'%')) {
            return Err(UrlError::Form("the path holds a character that must be escaped"));
        }
        Ok(Self {
            https: false,
            host: "localhost".into(),
            port: 80,
            base_path: "".into(),
            socket: Some(path.into()),
        })
    }

    /// `HOST:PORT`, an IPv6 address in brackets, or `unix:/PATH`: the endpoint's name everywhere.
    #[must_use]
    pub fn name(&self) -> String {
        if let Some(path) = &self.socket {
            return format!("unix:{path}");
        }
        host_port(&self.host, self.port)
    }

    /// What stands in a request's `host` header.
    #[must_use]
    pub fn authority(&self) -> String {
        if self.socket.is_some() { self.host.to_string() } else { self.name() }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.socket.is_some() {
            return f.write_str(&self.name());
        }
        let scheme = if self.https { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.name(), self.base_path)
    }
}

impl Serialize for Url {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn split_port(authority: &str) -> Result<(&str, Option<&str>), UrlError> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or(UrlError::Form("a bracket is not closed"))?;
        if host.parse::<std::net::Ipv6Addr>().is_err() {
            return Err(UrlError::Form("no IPv6 address stands between the brackets"));
        }
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(UrlError::Form("something stands between the address and the port")),
        };
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if host.is_empty() {
        Err(UrlError::Form("the host is missing"))
    } else if !host.bytes().all(valid) {
        Err(UrlError::Form("the host holds a character that no host has"))
    } else {
        Ok((host, port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_named() {
        for (text, name, shown) in [
            ("10.0.0.1:8000", "10.0.0.1:8000", "http://10.0.0.1:8000"),
            ("http://Pod-1.svc:8000/", "pod-1.svc:8000", "http://pod-1.svc:8000"),
            ("https://gpu", "gpu:443", "https://gpu:443"),
            ("unix:/run/vllm.sock", "unix:/run/vllm.sock", "unix:/run/vllm.sock"),
            ("http://[::1]:80/a/b/", "[::1]:80", "http://[::1]:80/a/b"),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!((url.name().as_str(), url.to_string().as_str()), (name, shown));
            assert_eq!(Url::parse(&url.to_string()), Ok(url));
        }
    }

    #[test]
    fn what_is_no_endpoint_is_refused() {
        for text in [
            "",
            "http://",
            "ftp://a:1",
            "a:0",
            "a:65536",
            "a:b",
            "http://u@a:1",
            "a:1/?q",
            "[::1",
            "[x]:1",
            "[::1]1",
            "a b:1",
            "::1:80",
            "a:1/ b",
            "unix:run/x",
            "unix:/run/",
            "unix:/run/a b",
        ] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }
}
