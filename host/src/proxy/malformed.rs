//! Messages of clients that are no HTTP/1.1, or could be taken in two ways: what is wrong, in words.
//!
//! Nothing of what the client sent is repeated: a line is named by its number. What cannot be told apart from the
//! next message is refused and its connection closed, so that no two programs on the way can disagree about it.

use std::time::Duration;

use http::header::{HeaderName, HeaderValue, TRANSFER_ENCODING};
use http::{HeaderMap, StatusCode};

use super::framing::Head;
use crate::api::ApiError;
use crate::config::Limits;

/// hyper's bound on the lines of a head.
const MAX_HEADERS: usize = 100;
/// hyper's bound on the target of a request, in bytes.
const MAX_TARGET: usize = 65_534;

/// Why hyper gave up a connection on which no request was being served, as its client is told. `left` is what was
/// read and not taken as a request. None where there is nobody to tell: a connection that was idle, or is gone.
pub(super) fn head(error: &hyper::Error, left: &[u8], limits: &Limits) -> Option<ApiError> {
    if error.is_parse_too_large() {
        return Some(too_large(left, limits.header_bytes));
    }
    if error.is_parse() {
        return Some(unparsed(&error.to_string(), left));
    }
    if left.is_empty() {
        return None;
    }
    if error.is_timeout() {
        return Some(late(limits.header_timeout));
    }
    let message = "the client closed its side of the connection within the head of a request; a head ends in an empty line";
    error.is_incomplete_message().then(|| bad("incomplete_head", message))
}

/// Why a request that hyper takes is refused all the same: another program may see its end elsewhere.
pub(super) fn framing(head: Head, headers: &HeaderMap) -> Option<ApiError> {
    const ONE: &str = "send the one or the other, and once";
    match head {
        Head::LengthAndEncoding => {
            let what = "the head has both `content-length` and `transfer-encoding`";
            return Some(bad("ambiguous_length", format!("{what}; {ONE}")));
        }
        Head::Lengths => {
            let what = "the head has `content-length` more than once";
            return Some(bad("ambiguous_length", format!("{what}; {ONE}")));
        }
        Head::Plain | Head::Unseen => {}
    }
    let mut encodings = headers.get_all(TRANSFER_ENCODING).iter();
    let encoding = encodings.next()?;
    if encodings.next().is_some() || !encoding.as_bytes().eq_ignore_ascii_case(b"chunked") {
        return Some(encoding_wrong());
    }
    let message = "a request with `transfer-encoding` came before the answer to the one before it; wait for the \
                   answer, or use another connection";
    (head == Head::Unseen).then(|| bad("ambiguous_length", message))
}

/// A request of HTTP/2 that names nothing to be asked for.
pub(super) fn pathless() -> ApiError {
    bad("invalid_request_line", "the request has no `:path`")
}

/// A path that some servers take for that of an inference API, and others do not.
pub(super) fn disguised(plain: &str) -> ApiError {
    bad("ambiguous_path", format!("the path is another way to write `{plain}`; write it so"))
}

fn bad(code: &'static str, message: impl Into<String>) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, code, message)
}

fn version(what: &str) -> ApiError {
    let message = format!("{what} is not spoken here; use HTTP/1.1 or HTTP/2");
    ApiError::new(StatusCode::HTTP_VERSION_NOT_SUPPORTED, "http_version_not_supported", message)
}

fn late(timeout: Duration) -> ApiError {
    let message = format!(
        "the head of the request did not arrive within {} ms; send it faster, or raise `limits.header_timeout_ms`",
        timeout.as_millis()
    );
    ApiError::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message)
}

fn encoding_wrong() -> ApiError {
    let message =
        "`transfer-encoding` is not understood; the only one that is taken is `chunked`, once, in HTTP/1.1";
    bad("invalid_transfer_encoding", message)
}

/// hyper has one error for every bound; which it was shows in what was read.
fn too_large(left: &[u8], limit: usize) -> ApiError {
    let lines = left.iter().filter(|byte| **byte == b'\n').count();
    let first = left.iter().position(|byte| *byte == b'\n').unwrap_or(left.len());
    if lines == 0 || first > MAX_TARGET {
        let limit = limit.min(MAX_TARGET);
        let message =
            format!("the target of the request is longer than {limit} bytes; send what is long in the body");
        return ApiError::new(StatusCode::URI_TOO_LONG, "uri_too_long", message);
    }
    let message = if lines > MAX_HEADERS && left.len() < limit {
        format!("the head of the request has more than {MAX_HEADERS} header lines; send fewer")
    } else {
        format!(
            "the head of the request is longer than {limit} bytes; send less, or raise `limits.header_bytes`"
        )
    };
    ApiError::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large", message)
}

/// hyper tells its kinds of errors apart in its text alone.
fn unparsed(said: &str, left: &[u8]) -> ApiError {
    const FORM: &str = "it is written `METHOD /path HTTP/1.1`";
    if said.contains("method") {
        return bad("invalid_request_line", format!("the first line has no valid method; {FORM}"));
    }
    if said.contains("URI") {
        return bad("invalid_request_line", format!("the first line has no valid target; {FORM}"));
    }
    if said.contains("version") {
        return version("the version in the first line");
    }
    if said.contains("content-length") {
        let message = "`content-length` is no whole number, or is given twice with different ones";
        return bad("invalid_content_length", message);
    }
    if said.contains("transfer-encoding") {
        return encoding_wrong();
    }
    let place = wrong_line(left).map_or_else(String::new, |line| format!("line {line} of "));
    bad(
        "invalid_header",
        format!("{place}the head is no valid header; it is written `name: value`, in ASCII, on one line"),
    )
}

/// The number of the first line that is no header, from 1.
fn wrong_line(head: &[u8]) -> Option<usize> {
    let lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let mut headers = lines.enumerate().skip(1).take_while(|(_, line)| !line.is_empty());
    headers.find(|(_, line)| !is_header(line)).map(|(index, _)| index + 1)
}

fn is_header(line: &[u8]) -> bool {
    let Some((name, value)) =
        line.iter().position(|byte| *byte == b':').and_then(|at| line.split_at_checked(at))
    else {
        return false;
    };
    HeaderName::from_bytes(name).is_ok() && HeaderValue::from_bytes(value).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_is_no_header_is_named() {
        let lines: [(&[u8], Option<usize>); 5] = [
            (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", Some(2)),
            (b"GET / HTTP/1.1\r\nhost: x\r\na b: c\r\n\r\n", Some(3)),
            (b"GET / HTTP/1.1\r\nhost: x\r\na: \x01\r\n\r\n", Some(3)),
            (b"GET / HTTP/1.1\r\nhost: x\r\n folded\r\n\r\n", Some(3)),
            (b"GET / HTTP/1.1\r\nhost: x\r\n\r\nno head", None),
        ];
        for (head, line) in lines {
            assert_eq!(wrong_line(head), line, "{}", head.escape_ascii());
        }
    }

    #[test]
    fn every_bound_has_its_own_words() {
        let many = [b"GET / HTTP/1.1\r\n".to_vec(), b"a: b\r\n".repeat(101)].concat();
        let long = [b"GET / HTTP/1.1\r\nhost: x\r\na: ".to_vec(), vec![b'a'; 9_000]].concat();
        let target = [b"GET /".to_vec(), vec![b'a'; 9_000]].concat();
        assert!(too_large(&many, 8_192).message.contains("100 header lines"));
        assert!(too_large(&long, 8_192).message.contains("8192 bytes"));
        assert_eq!(too_large(&target, 8_192).code, "uri_too_long");
    }

    #[test]
    fn an_encoding_is_taken_where_its_head_was_seen_and_it_is_chunked() {
        let encoded = |values: &[&'static str]| {
            let values = values.iter().map(|value| (TRANSFER_ENCODING, HeaderValue::from_static(value)));
            values.collect::<HeaderMap>()
        };
        assert_eq!(framing(Head::Unseen, &HeaderMap::new()), None);
        assert_eq!(framing(Head::Plain, &encoded(&["Chunked"])), None);
        let code = |head, values: &[&'static str]| framing(head, &encoded(values)).map(|error| error.code);
        assert_eq!(code(Head::Unseen, &["chunked"]), Some("ambiguous_length"));
        assert_eq!(code(Head::LengthAndEncoding, &["chunked"]), Some("ambiguous_length"));
        assert_eq!(code(Head::Plain, &["gzip, chunked"]), Some("invalid_transfer_encoding"));
    }
}
