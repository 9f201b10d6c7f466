//! SGLang: both engines get the same body, and meet in a room.

use super::{Export, Holds, Leg, Remote};
use crate::engine::args::Role;
use crate::engine::error::ApiError;
use serde_json::Value;

/// Which leg a body is at an engine of this role, with a room for each of its sequences.
pub(super) fn parse(body: &Value, role: Role, sequences: usize) -> Result<Leg, ApiError> {
    if role == Role::Both {
        return match body.get("bootstrap_room") {
            None => Ok(Leg::Whole),
            Some(_) => Err(ApiError::bad("bootstrap_room", "bootstrap_room is for engines with a role")),
        };
    }
    let hosts = each(body, "bootstrap_host", sequences, |value, _| value.as_str().map(str::to_owned))?;
    let ports = each(body, "bootstrap_port", sequences, |value, _| {
        value.as_u64().and_then(|port| u16::try_from(port).ok())
    })?;
    let rooms = each(body, "bootstrap_room", sequences, |value, at| {
        value.as_u64().filter(|room| *room < 1 << 63).map(|room| format!("room-{}", room + at))
    })?;
    if role == Role::Prefill {
        return Ok(Leg::Prefill(Export::Rooms(rooms)));
    }
    let remotes = hosts.into_iter().zip(ports).zip(rooms);
    let remote = |((host, port), id)| Remote { engine: None, id, host, port, holds: Holds::Soon };
    Ok(Leg::Decode(remotes.map(remote).collect()))
}

/// The values of a field for all sequences: one for all, told which it is, or one each.
fn each<T>(
    body: &Value,
    name: &'static str,
    sequences: usize,
    read: impl Fn(&Value, u64) -> Option<T>,
) -> Result<Vec<T>, ApiError> {
    let value = body.get(name).filter(|value| !value.is_null());
    let value =
        value.ok_or_else(|| ApiError::bad(name, format!("{name} is required by an engine with a role")))?;
    let wrong = || ApiError::bad(name, format!("{name} has a wrong value"));
    let read_all = match value {
        Value::Array(list) if list.len() != sequences => {
            return Err(ApiError::bad(name, format!("{name} should have {sequences} values")));
        }
        Value::Array(list) => list.iter().map(|value| read(value, 0)).collect(),
        one => (0..sequences as u64).map(|at| read(one, at)).collect::<Option<Vec<T>>>(),
    };
    read_all.ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_engine_with_a_role_takes_nothing_but_rooms() {
        let body = json!({"bootstrap_host": "h", "bootstrap_port": 1, "bootstrap_room": 7});
        assert_eq!(parse(&body, Role::Prefill, 1), Ok(Leg::Prefill(Export::Rooms(vec!["room-7".into()]))));
        assert!(matches!(parse(&body, Role::Decode, 2), Ok(Leg::Decode(remotes)) if remotes.len() == 2));
        for name in ["bootstrap_host", "bootstrap_port", "bootstrap_room"] {
            let mut without = body.clone();
            without.as_object_mut().unwrap().remove(name);
            assert_eq!(parse(&without, Role::Decode, 1).unwrap_err().param.as_deref(), Some(name));
        }
        assert_eq!(parse(&json!({}), Role::Both, 1), Ok(Leg::Whole));
        assert!(parse(&body, Role::Both, 1).is_err());
    }

    #[test]
    fn lists_are_as_long_as_the_batch() {
        let body = json!({"bootstrap_host": ["h", "h"], "bootstrap_port": [1, 1], "bootstrap_room": [7, 8]});
        assert!(parse(&body, Role::Prefill, 2).is_ok());
        assert_eq!(parse(&body, Role::Prefill, 3).unwrap_err().param.as_deref(), Some("bootstrap_host"));
        let large = json!({"bootstrap_host": "h", "bootstrap_port": 1, "bootstrap_room": u64::MAX});
        assert_eq!(parse(&large, Role::Prefill, 1).unwrap_err().param.as_deref(), Some("bootstrap_room"));
    }
}
