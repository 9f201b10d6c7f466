//! Where endpoints listen, as it is written.

use std::fmt;

use serde::Serialize;

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
