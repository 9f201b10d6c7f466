//! `GET /plugins/NAME/cases`, `GET /plugins/NAME/cases/ID`, `GET /decisions/REQUEST-ID?as=case`

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::Admin;
use super::answer::{Answer, error, ok};
use super::router::Call;
use crate::plugin::case::{Case, Cases, KEPT, KeptCase, Outcome};
use crate::policy::{Registry, Stage};
use crate::route::Explanation;

/// The latest failing calls of a plugin, newest first.
pub(super) fn cases(admin: &Admin, call: &Call) -> Answer {
    match of_plugin(admin, &call.name) {
        Some(cases) => ok(&json!({"cases": cases.all().iter().map(|kept| listed(kept)).collect::<Vec<_>>()})),
        None => no_plugin(&call.name),
    }
}

/// One of them, as a case file.
pub(super) fn case(admin: &Admin, call: &Call) -> Answer {
    let Some(cases) = of_plugin(admin, &call.name) else { return no_plugin(&call.name) };
    match call.item.parse().ok().and_then(|id| cases.get(id)) {
        Some(kept) => file(&kept.case),
        None => {
            let message = format!("`{}` has no case `{}`; its last {KEPT} are kept", call.name, call.item);
            error(StatusCode::NOT_FOUND, message)
        }
    }
}

/// One answer of a decision as a case file: that of `plugin` as `stage`, or the first scorer's.
pub(super) fn decided(admin: &Admin, kept: &Explanation, query: &str) -> Answer {
    let parameter = |wanted: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == wanted).map(|(_, value)| value)
    };
    let stage = match parameter("stage") {
        None => None,
        Some(name) => match Stage::ALL.into_iter().find(|stage| stage.as_str() == name) {
            Some(stage) => Some(stage),
            None => {
                let names = Stage::ALL.map(Stage::as_str).join(", ");
                return error(
                    StatusCode::BAD_REQUEST,
                    format!("no stage is named `{name}`; there are {names}"),
                );
            }
        },
    };
    let registry = admin.lanes.first().map(|pool| Arc::clone(&pool.lane.registry));
    let registry = registry.unwrap_or_else(|| Arc::new(Registry::default()));
    match kept.asked(parameter("plugin"), stage).and_then(|asked| Case::decided(asked, &registry)) {
        Some(case) => file(&case),
        None => error(StatusCode::NOT_FOUND, "no such answer is kept of this request; `answers` lists them"),
    }
}

fn of_plugin(admin: &Admin, name: &str) -> Option<Arc<Cases>> {
    admin
        .catalog
        .status()
        .iter()
        .find_map(|status| status.counted(name))
        .map(|counted| Arc::clone(&counted.cases))
}

fn no_plugin(name: &str) -> Answer {
    error(StatusCode::NOT_FOUND, format!("no plugin is named `{name}`; `/plugins` lists them"))
}

fn listed(kept: &KeptCase) -> Value {
    let (reason, message) = match &kept.case.outcome {
        Some(Outcome::Error { reason, message, .. }) => (Some(reason), Some(message)),
        _ => (None, None),
    };
    json!({
        "id": kept.id, "at_unix_ms": kept.at_unix_ms, "call": kept.case.call, "reason": reason, "message": message,
        "digest": kept.case.digest,
        "request_id": kept.case.request.as_ref().map(|request| &request.id),
        "candidates": kept.case.endpoints.as_ref().map(|endpoints| endpoints.len()),
    })
}

fn file(case: &Case) -> Answer {
    match serde_json::to_value(case) {
        Ok(case) => ok(&case),
        Err(problem) => {
            error(StatusCode::INTERNAL_SERVER_ERROR, format!("the case cannot be written: {problem}"))
        }
    }
}
