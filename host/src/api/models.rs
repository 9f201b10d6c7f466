//! Lists of models, as `GET /v1/models` answers them.

use bytes::Bytes;

use super::facts::{BodyError, Stop, member};
use super::json::{Scanner, Value};

/// The ids of a list, in its order, each once.
///
/// # Errors
///
/// When the body is no JSON object with a `data` array. Entries without an id are passed over.
pub fn ids(body: &[u8]) -> Result<Vec<Box<str>>, BodyError> {
    let mut ids: Vec<Box<str>> = Vec::new();
    walk(body, |id, _| {
        if !ids.iter().any(|known| **known == *id) {
            ids.push(id.into());
        }
    })?;
    Ok(ids)
}

/// One list of the models of several: of each id the first entry, byte for byte. What is no list of models
/// adds nothing.
#[must_use]
pub fn merge<'a>(bodies: impl Iterator<Item = &'a [u8]>) -> Bytes {
    let mut seen: std::collections::HashSet<Box<str>> = std::collections::HashSet::new();
    let mut out = br#"{"object":"list","data":["#.to_vec();
    let empty = out.len();
    for body in bodies {
        // An error ends this list; the entries before it are good.
        let _ = walk(body, |id, raw| {
            if seen.insert(id.into()) {
                if out.len() > empty {
                    out.push(b',');
                }
                out.extend_from_slice(raw);
            }
        });
    }
    out.extend_from_slice(b"]}");
    out.into()
}

/// Shows each entry's id and all of it.
fn walk(body: &[u8], mut entry: impl FnMut(&str, &[u8])) -> Result<(), BodyError> {
    let data = data(body).map_err(|stop| match stop {
        Stop::Fault(fault) => BodyError::of(fault, body),
        Stop::Error(error) => error,
    })?;
    let _ = Scanner::within(data).array::<super::json::Fault>(|scan| {
        let value = scan.value()?;
        if let (Value::Object(raw), Some(Value::Text(id))) = (value, member(value, b"id")) {
            entry(&id.to_str(), raw);
        }
        Ok(())
    });
    Ok(())
}

fn data(body: &[u8]) -> Result<&[u8], Stop> {
    let mut scan = Scanner::new(body)?;
    let list = scan.value()?;
    scan.end()?;
    match (list, member(list, b"data")) {
        (_, Some(Value::Array(raw))) => Ok(raw),
        (Value::Object(_), None | Some(Value::Null)) => {
            Err(Stop::Error(BodyError::Missing { field: "data" }))
        }
        (Value::Object(_), _) => Err(Stop::wrong("data", "an array of models")),
        _ => Err(Stop::Error(BodyError::NotAnObject)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VLLM: &[u8] = br#"{"object":"list","data":[{"id":"m","object":"model","owned_by":"vllm","root":"a"},{"id":"lora"}]}"#;
    const LLAMACPP: &[u8] =
        br#"{"models":[{"name":"m"}],"object":"list","data":[{"id":"m", "meta":{"n":1}},{"id":"other"},{"x":1}]}"#;

    #[test]
    fn ids_come_in_order_and_once() {
        assert_eq!(ids(VLLM).unwrap(), ["m".into(), "lora".into()]);
        assert_eq!(ids(LLAMACPP).unwrap(), ["m".into(), "other".into()]);
        assert_eq!(ids(br#"{"data":[{"id":"a"},{"id":"a"}]}"#).unwrap().len(), 1);
        assert_eq!(ids(b"{}").unwrap_err(), BodyError::Missing { field: "data" });
        assert_eq!(ids(b"[]").unwrap_err(), BodyError::NotAnObject);
        assert!(matches!(ids(b"<html>"), Err(BodyError::NotJson { line: 1, column: 1, .. })));
    }

    #[test]
    fn a_union_keeps_the_first_byte_for_byte() {
        let merged = merge([VLLM, b"nonsense".as_slice(), LLAMACPP].into_iter());
        assert_eq!(
            merged.as_ref(),
            br#"{"object":"list","data":[{"id":"m","object":"model","owned_by":"vllm","root":"a"},{"id":"lora"},{"id":"other"}]}"#.as_slice()
        );
        assert_eq!(merge(std::iter::empty()).as_ref(), br#"{"object":"list","data":[]}"#.as_slice());
    }
}
