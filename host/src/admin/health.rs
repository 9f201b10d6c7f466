//! `GET /healthz`, `GET /readyz`

use std::fmt::Write as _;

use http::StatusCode;

use super::answer::{Answer, text};
use super::router::Call;
use super::{Admin, AdminPool};
use crate::clock::Nanos;

/// The process answers.
pub(super) fn healthz(_: &Admin, _: &Call) -> Answer {
    text(StatusCode::OK, "ok\n")
}

/// Every pool can be served as it is configured to be, or what is missing.
pub(super) fn readyz(admin: &Admin, _: &Call) -> Answer {
    let missing = missing(admin);
    if missing.is_empty() {
        return text(StatusCode::OK, "ready\n");
    }
    let mut words = String::from("not ready\n");
    for what in missing {
        let _ = writeln!(words, "{what}");
    }
    text(StatusCode::SERVICE_UNAVAILABLE, words)
}

/// What keeps the process from being ready, in words.
pub(super) fn missing(admin: &Admin) -> Vec<String> {
    if admin.lanes.iter().any(|pool| pool.gate.is_closed()) {
        return vec!["it finishes what runs and takes nothing new".into()];
    }
    let now = admin.clock.now();
    let pools = admin.lanes.iter().filter_map(|pool| {
        let name = &pool.lane.pool.name;
        Some(format!("pool `{name}`: {}", pool_lacks(pool, now)?))
    });
    let absent = admin.catalog.absent().into_iter();
    let absent = absent
        .map(|name| format!("plugin `{name}`: the configuration names it, and no version of it serves"));
    let set = admin.catalog.current();
    let aside = set.plugins.iter().filter(|plugin| plugin.required && !plugin.health.usable(now));
    let aside = aside
        .map(|plugin| format!("plugin `{}`: it is required, and set aside after failed calls", plugin.name));
    pools.chain(absent).chain(aside).collect()
}

/// What a pool lacks to be served.
pub(super) fn pool_lacks(pool: &AdminPool, now: Nanos) -> Option<&'static str> {
    let pool = &pool.lane.pool;
    if pool.ready(now) {
        None
    } else if pool.endpoints().is_empty() {
        Some("it has no endpoints")
    } else if !pool.models_known() {
        Some("no endpoint has said yet which models it serves")
    } else {
        Some("no endpoint is up")
    }
}
