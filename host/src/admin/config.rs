//! `GET /config`, `POST /config/reload`

use http::StatusCode;
use serde_json::json;

use super::Admin;
use super::answer::{Answer, error, ok};
use super::router::Call;
use crate::telemetry::Reloaded;

/// The configuration in force: the keys of its file, and the pools under `pools` too, as every other list of
/// this API is named in the plural; and under `reload` what became of changes.
pub(super) fn config(admin: &Admin, _: &Call) -> Answer {
    let mut shown = admin.config_json.clone();
    if let Some(keys) = shown.as_object_mut()
        && let Some(pools) = keys.get("pool").cloned()
    {
        keys.insert("pools".into(), pools);
    }
    if let Some(keys) = shown.as_object_mut() {
        keys.insert("reload".into(), serde_json::to_value(admin.reloads.status()).unwrap_or_default());
    }
    ok(&shown)
}

/// Reads the file again at once, and says what came of it.
pub(super) fn reload(admin: &Admin, _: &Call) -> Answer {
    match admin.control.reload() {
        Reloaded::Refused(why) => error(StatusCode::CONFLICT, why),
        reloaded => ok(&json!({"outcome": reloaded.as_str()})),
    }
}
