//! `GET /plugins`, `POST /plugins/NAME/promote`, `rollback`, `off` and `on`

use http::StatusCode;
use serde_json::{Value, json};

use super::Admin;
use super::answer::{Answer, error, number, ok};
use super::router::Call;
use super::shadow;
use crate::clock::{MILLI, Nanos};
use crate::config::Mode;
use crate::plugin::{ActError, Action, CandidateStatus, Counted, PluginStatus};
use crate::policy::PolicySet;

/// Every plugin: which version serves, how it fares, what is tried, and why a file was refused.
pub(super) fn plugins(admin: &Admin, _: &Call) -> Answer {
    let now = admin.clock.now();
    let set = admin.catalog.current();
    let plugins: Vec<_> = admin.catalog.status().iter().map(|status| shown(status, &set, now)).collect();
    let directory = admin.directory.as_ref().map(|directory| directory.load_full());
    ok(&json!({"plugins": plugins, "generation": set.generation, "directory": directory}))
}

/// One plugin.
pub(super) fn plugin(admin: &Admin, call: &Call) -> Answer {
    let status = admin.catalog.status();
    match status.iter().find(|status| *status.name == *call.name) {
        Some(status) => ok(&shown(status, &admin.catalog.current(), admin.clock.now())),
        None => error(StatusCode::NOT_FOUND, format!("there is no plugin `{}`", call.name)),
    }
}

/// The candidate becomes the version in force.
pub(super) fn promote(admin: &Admin, call: &Call) -> Answer {
    act(admin, call, Action::Promote)
}

/// The candidate is dropped, or without one the version in force gives way to the one before it.
pub(super) fn rollback(admin: &Admin, call: &Call) -> Answer {
    act(admin, call, Action::RollBack)
}

/// The plugin serves no more.
pub(super) fn off(admin: &Admin, call: &Call) -> Answer {
    act(admin, call, Action::Off)
}

/// The plugin serves again, and versions that were rolled back may come again.
pub(super) fn on(admin: &Admin, call: &Call) -> Answer {
    act(admin, call, Action::On)
}

fn act(admin: &Admin, call: &Call, action: Action) -> Answer {
    match admin.catalog.act(&call.name, action) {
        Ok(()) => {
            tracing::info!(plugin = call.name, ?action, "by the admin API");
            plugin(admin, call)
        }
        Err(why) => error(status_of(&why), why.to_string()),
    }
}

fn status_of(why: &ActError) -> StatusCode {
    match why {
        ActError::Unknown { .. } => StatusCode::NOT_FOUND,
        ActError::NoCandidate(_) | ActError::NothingBefore(_) | ActError::Failed(_) => StatusCode::CONFLICT,
        ActError::StillLoading(_) => StatusCode::ACCEPTED,
    }
}

fn shown(status: &PluginStatus, set: &PolicySet, now: Nanos) -> Value {
    let mut shown = version(&status.main, now);
    let more = json!({
        "name": status.name,
        "mode": status.mode,
        "state": state(status, now),
        "loading": status.loading,
        "candidate": status.candidate.as_ref().map(|candidate| {
            candidate_shown(candidate, shadow::shown(set, &status.name), now)
        }),
        "previous": status.previous.as_ref().map(|digest| match &**digest {
            "" => json!("builtin"),
            digest => json!(digest),
        }),
        "rolled_back": status.rolled_back,
        "rollbacks": status.rollbacks,
        "promotions": status.promotions,
    });
    merge(&mut shown, more);
    shown
}

fn candidate_shown(candidate: &CandidateStatus, shadow: Option<Value>, now: Nanos) -> Value {
    let counted = &candidate.counted;
    let state = match &candidate.trial {
        None => "refused",
        Some(_) if counted.aside_until(now).is_some() => "set_aside",
        Some(_) if candidate.held.is_some() => "held",
        Some(_) => "on_trial",
    };
    let mut shown = version(counted, now);
    let more = json!({
        "name": candidate.name,
        "mode": candidate.trial,
        "state": state,
        "held": candidate.held,
        "shadow": shadow,
        "since_ms": candidate.trial.as_ref().map(|_| now.saturating_sub(candidate.since) / MILLI),
    });
    merge(&mut shown, more);
    shown
}

/// What is the same of a version in force and of one on trial.
fn version(counted: &Counted, now: Nanos) -> Value {
    // Every chain has instances of its own, all of the same file.
    let plugin = counted.serving.first().map(|(plugin, _)| plugin);
    let weights: Vec<_> = counted.serving.iter().map(|(_, weight)| number(*weight)).collect();
    json!({
        "version": plugin.map(|plugin| &plugin.version),
        "summary": plugin.map(|plugin| &plugin.summary),
        "digest": plugin.map(|plugin| &plugin.digest),
        "source": plugin.map_or("file".into(), |plugin| json!(plugin.source)),
        "generation": plugin.map(|plugin| plugin.generation),
        "stages": plugin.map_or(json!([]), |plugin| json!(plugin.stages)),
        "profiles": plugin.map(|plugin| &plugin.profiles),
        "on_error": plugin.map(|plugin| plugin.on_error),
        "required": plugin.map(|plugin| plugin.required),
        "weight": weights.first(),
        "weights": weights,
        "set_aside_for_ms": counted.aside_until(now).map(|until| until.saturating_sub(now) / MILLI),
        "calls": counted.serving.iter().map(|(plugin, _)| plugin.health.calls()).sum::<u64>(),
        "clamped": counted.serving.iter().map(|(plugin, _)| plugin.health.clamped_scores()).sum::<u64>(),
        "failures": counted.failures(),
        "loads": counted.loads,
        "refusals": counted.refusals,
        "refused": counted.refused,
    })
}

fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}

fn state(status: &PluginStatus, now: Nanos) -> &'static str {
    match status {
        PluginStatus { mode: Mode::Off, .. } => "off",
        PluginStatus { main, .. } if !main.serving.is_empty() && main.aside_until(now).is_some() => {
            "set_aside"
        }
        PluginStatus { main, .. } if !main.serving.is_empty() => "active",
        PluginStatus { main: Counted { refused: Some(_), .. }, .. } => "refused",
        PluginStatus { candidate: Some(_), .. } => "candidate",
        PluginStatus { loading: true, .. } => "loading",
        // It is loaded, and no chain uses it.
        PluginStatus { main: Counted { loads: 1.., .. }, .. } => "unused",
        // A default plugin that this build lacks.
        PluginStatus { .. } => "absent",
    }
}
