//! Who may change something.
//!
//! A browser on the operator's machine reaches the loopback address too, and so does every page that it
//! shows. Such a page cannot forge the `Origin` of its requests, nor the `Host` of a name that it had point
//! to the loopback address.

use http::HeaderMap;
use http::header::{HOST, ORIGIN};

/// Whether a request with these headers may change something.
///
/// # Errors
/// Why not, in words.
pub(super) fn may_write(headers: &HeaderMap) -> Result<(), &'static str> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !is_loopback(host) {
        return Err(
            "changes are only made through a loopback address: `Host` must be localhost, 127.0.0.1 or [::1]",
        );
    }
    same_origin(headers)
}

/// Whether a request with these headers comes from no page, or from our own.
///
/// # Errors
/// Why not, in words.
pub(super) fn same_origin(headers: &HeaderMap) -> Result<(), &'static str> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let own = |origin: &str| ["http", "https"].iter().any(|scheme| origin == format!("{scheme}://{host}"));
    match headers.get(ORIGIN) {
        None => Ok(()),
        Some(origin) if origin.to_str().is_ok_and(own) => Ok(()),
        Some(_) => Err("this request comes from a page of another origin, which may not change anything"),
    }
}

fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn allowed(host: &'static str, origin: Option<&'static str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static(host));
        if let Some(origin) = origin {
            headers.insert(ORIGIN, HeaderValue::from_static(origin));
        }
        may_write(&headers).is_ok()
    }

    #[test]
    fn only_loopback_hosts_and_no_foreign_pages() {
        for host in ["localhost", "LocalHost:9090", "127.0.0.1:9090", "127.1.2.3", "[::1]:9090"] {
            assert!(allowed(host, None), "{host}");
        }
        for host in [
            "",
            "example.com",
            "localhost.example.com",
            "10.0.0.1:9090",
            "[::2]:1",
            "127.0.0.1.nip.io",
            "::1",
        ] {
            assert!(!allowed(host, None), "{host}");
        }
        assert!(allowed("localhost:9090", Some("http://localhost:9090")));
        for origin in ["http://localhost:8080", "https://example.com", "null", ""] {
            assert!(!allowed("localhost:9090", Some(origin)), "{origin}");
        }
        assert!(may_write(&HeaderMap::new()).is_err());
    }
}
