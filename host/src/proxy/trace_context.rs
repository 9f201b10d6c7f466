//! W3C trace context: what is valid is passed on, what is not is dropped, and where it is asked for one is made.
//!
//! <https://www.w3.org/TR/trace-context/>: `VERSION-TRACE-PARENT-FLAGS`, lower-case hexadecimal digits.

use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::headers::new_id;
use crate::config::Traceparent;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Leaves a request with a valid trace context, or none.
pub(super) fn settle(headers: &mut HeaderMap, how: Traceparent) {
    let mut given = headers.get_all(TRACEPARENT).iter();
    let valid = match (given.next(), given.next()) {
        (Some(one), None) => is_valid(one.as_bytes()),
        (None, _) => false,
        (Some(_), Some(_)) => false,
    };
    if valid {
        return;
    }
    headers.remove(TRACEPARENT);
    headers.remove(TRACESTATE);
    if how == Traceparent::Make
        && let Ok(made) = HeaderValue::try_from(made())
    {
        headers.insert(TRACEPARENT, made);
    }
}

/// A trace of its own, to be recorded.
fn made() -> String {
    let (trace, parent) = (new_id(), new_id());
    format!("00-{trace}-{}-01", parent.get(..16).unwrap_or("0000000000000001"))
}

fn is_valid(value: &[u8]) -> bool {
    let mut fields = value.split(|byte| *byte == b'-');
    let mut field = |length: usize| {
        let field = fields.next().filter(|field| field.len() == length)?;
        field.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).then_some(field)
    };
    let set = |field: &[u8]| field.iter().any(|byte| *byte != b'0');
    let (Some(version), Some(trace), Some(parent), Some(_)) = (field(2), field(32), field(16), field(2))
    else {
        return false;
    };
    // Later versions may have more fields, this one has not.
    version != b"ff" && set(trace) && set(parent) && (version != b"00" || value.len() == 55)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn settled(values: &[&str], how: Traceparent) -> HeaderMap {
        let values = values.iter().map(|value| (TRACEPARENT, HeaderValue::from_str(value).unwrap()));
        let mut headers: HeaderMap = values.collect();
        headers.insert(TRACESTATE, HeaderValue::from_static("a=1"));
        settle(&mut headers, how);
        headers
    }

    #[test]
    fn what_is_valid_is_left_alone() {
        for good in [GOOD, "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-comes-later"] {
            let headers = settled(&[good], Traceparent::Make);
            assert_eq!(headers[TRACEPARENT], good);
            assert_eq!(headers[TRACESTATE], "a=1");
        }
    }

    #[test]
    fn what_is_not_is_dropped_or_replaced() {
        let upper = GOOD.to_uppercase();
        let long = format!("{GOOD}-x");
        let none = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
        for bad in [&[upper.as_str()][..], &[&long], &[none], &["ff"], &[""], &[GOOD, GOOD], &[]] {
            assert!(settled(bad, Traceparent::Pass).is_empty(), "{bad:?}");
            let made = settled(bad, Traceparent::Make);
            assert!(is_valid(made[TRACEPARENT].as_bytes()) && made.len() == 1, "{made:?}");
        }
    }
}
