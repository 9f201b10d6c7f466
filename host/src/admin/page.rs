//! `GET /`

use http::header::{CONTENT_SECURITY_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use http::{HeaderValue, StatusCode};

use super::Admin;
use super::answer::{Answer, typed};
use super::router::Call;

/// The page asks for nothing but this API, and nobody may frame it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The page for people.
pub(super) fn page(_: &Admin, _: &Call) -> Answer {
    let mut answer = typed(StatusCode::OK, "text/html; charset=utf-8", include_str!("page.html"));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    answer
}
