//! `GET /decisions`, `GET /decisions/REQUEST-ID`

use http::StatusCode;
use serde_json::{Value, json};

use super::answer::{Answer, error, ok};
use super::router::Call;
use super::{Admin, cases};
use crate::policy::Registry;
use crate::route::Explanation;
use crate::telemetry::DECISIONS;

/// Decisions in a list that says no `limit`.
const LISTED: usize = 100;

/// The latest decisions, newest first; `?limit=N` asks for more or fewer.
pub(super) fn decisions(admin: &Admin, call: &Call) -> Answer {
    let mut parameters = call.query.split('&').filter_map(|pair| pair.split_once('='));
    let limit = match parameters.find(|(key, _)| *key == "limit").map(|(_, value)| value.parse::<usize>()) {
        None => LISTED,
        Some(Ok(limit)) => limit.min(DECISIONS),
        Some(Err(_)) => {
            return error(StatusCode::BAD_REQUEST, format!("`limit` is a number, up to {DECISIONS}"));
        }
    };
    let decisions = admin.decisions.recent(limit);
    ok(&json!({"decisions": decisions.iter().map(|kept| shown(admin, kept)).collect::<Vec<_>>()}))
}

/// The decision about one request.
pub(super) fn decision(admin: &Admin, call: &Call) -> Answer {
    match admin.decisions.get(&call.name) {
        Some(kept) if call.query.split('&').any(|pair| pair == "as=case") => {
            cases::decided(admin, &kept, &call.query)
        }
        Some(kept) => ok(&shown(admin, &kept)),
        None => {
            let message = format!("no request `{}` is among the last {DECISIONS}", call.name);
            error(StatusCode::NOT_FOUND, message)
        }
    }
}

fn shown(admin: &Admin, kept: &Explanation) -> Value {
    // All pools resolve their columns in one registry.
    match admin.lanes.first() {
        Some(pool) => kept.to_json(&pool.lane.registry),
        None => kept.to_json(&Registry::default()),
    }
}
