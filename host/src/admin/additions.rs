//! `POST /endpoints?pool=NAME&url=URL`, `POST /endpoints/ID/remove`
//!
//! Further parameters are `role`, `weight` and `label.KEY`. What else the configuration says of an endpoint is that of
//! its pool.

use std::collections::BTreeMap;

use http::StatusCode;
use serde_json::json;

use super::answer::{Answer, error, ok};
use super::router::Call;
use super::{Admin, EndpointRefusal};
use crate::api::path::decoded;
use crate::discovery::Addition;
use crate::types::{Role, Url};

/// Adds an endpoint; it is asked how it is before it gets anything.
pub(super) fn add(admin: &Admin, call: &Call) -> Answer {
    let (addition, id) = match read(&call.query) {
        Ok(read) => read,
        Err(wrong) => return error(StatusCode::BAD_REQUEST, wrong),
    };
    let pool = addition.pool.clone();
    match admin.control.add_endpoint(addition) {
        Ok(()) => {
            tracing::info!(endpoint = id, pool = &*pool, "added by the admin API");
            ok(&json!({"id": id, "pool": pool}))
        }
        Err(refusal) => refused(&refusal),
    }
}

/// Takes an endpoint away that was added; what runs there goes on.
pub(super) fn remove(admin: &Admin, call: &Call) -> Answer {
    match admin.control.remove_endpoint(&call.name) {
        Ok(()) => {
            tracing::info!(endpoint = &*call.name, "taken away by the admin API");
            ok(&json!({"id": call.name}))
        }
        Err(refusal) => refused(&refusal),
    }
}

fn refused(refusal: &EndpointRefusal) -> Answer {
    let status = match refusal {
        EndpointRefusal::NoPool(_) | EndpointRefusal::Unknown(_) => StatusCode::NOT_FOUND,
        EndpointRefusal::NotAllowed(_) => StatusCode::FORBIDDEN,
        EndpointRefusal::Taken { .. } | EndpointRefusal::Configured(_) => StatusCode::CONFLICT,
        EndpointRefusal::NotKept(_) | EndpointRefusal::Ending => StatusCode::SERVICE_UNAVAILABLE,
    };
    error(status, refusal.to_string())
}

/// What is to be added, and its id.
fn read(query: &str) -> Result<(Addition, String), String> {
    let (mut pool, mut url, mut role, mut weight) = (None, None, Role::Both, 1.0_f32);
    let mut labels = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (key, value) = (decoded(key), decoded(value));
        match key.as_str() {
            "pool" => pool = Some(value.into()),
            "url" => url = Some(value),
            "role" => {
                role = serde_json::from_value(json!(value))
                    .map_err(|_| format!("role: expected both, prefill or decode, found `{value}`"))?;
            }
            "weight" => {
                let read = value.parse().ok().filter(|weight| (0.001..=1e6).contains(weight));
                weight = read.ok_or_else(|| {
                    format!("weight: expected a number from 0.001 to 1000000, found `{value}`")
                })?;
            }
            key => match key.strip_prefix("label.").filter(|key| !key.is_empty()) {
                Some(key) => drop(labels.insert(key.into(), value.into())),
                None => {
                    return Err(format!(
                        "`{key}` is no parameter: expected pool, url, role, weight or label.KEY"
                    ));
                }
            },
        }
    }
    let pool = pool.ok_or("expected pool=NAME")?;
    let url: String = url.ok_or("expected url=http://HOST:PORT")?;
    let parsed = Url::parse(&url).map_err(|error| format!("url: `{url}`: {error}"))?;
    Ok((Addition { pool, url: url.into(), role, weight, labels }, parsed.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_say_what_is_added() {
        let query = "pool=p&url=http%3A%2F%2F%5B%3A%3A1%5D%3A8000&role=decode&weight=2.5&label.zone=a%20b";
        let (addition, id) = read(query).unwrap();
        assert_eq!((&*addition.pool, &*addition.url, id.as_str()), ("p", "http://[::1]:8000", "[::1]:8000"));
        assert_eq!((addition.role, addition.weight), (Role::Decode, 2.5));
        assert_eq!(addition.labels, BTreeMap::from([("zone".into(), "a b".into())]));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (query, word) in [
            ("", "pool="),
            ("pool=p", "url="),
            ("pool=p&url=ftp://a", "ftp"),
            ("pool=p&url=a:1&role=cook", "cook"),
            ("pool=p&url=a:1&weight=0", "weight"),
            ("pool=p&url=a:1&weight=NaN", "weight"),
            ("pool=p&url=a:1&colour=red", "colour"),
            ("pool=p&url=a:1&label.=red", "label."),
        ] {
            let wrong = read(query).unwrap_err();
            assert!(wrong.contains(word), "{query}: {wrong}");
        }
    }
}
