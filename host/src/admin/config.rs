//! `GET /config`

use super::Admin;
use super::answer::{Answer, ok};
use super::router::Call;

/// The configuration in force: the keys of its file, and the pools under `pools` too, as every other list of
/// this API is named in the plural.
pub(super) fn config(admin: &Admin, _: &Call) -> Answer {
    let mut shown = admin.config_json.clone();
    if let Some(keys) = shown.as_object_mut()
        && let Some(pools) = keys.get("pool").cloned()
    {
        keys.insert("pools".into(), pools);
    }
    ok(&shown)
}
