//! `GET /plugins`

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Admin;
use super::answer::{Answer, number, ok};
use super::router::Call;
use crate::clock::{MILLI, Nanos};
use crate::config::Mode;
use crate::plugin::PluginStatus;

/// Every plugin: which version serves, how it fares, and why a file was refused.
pub(super) fn plugins(admin: &Admin, _: &Call) -> Answer {
    let now = admin.clock.now();
    let plugins: Vec<_> = admin.catalog.status().iter().map(|status| shown(status, now)).collect();
    ok(&json!({"plugins": plugins, "generation": admin.catalog.current().generation}))
}

fn shown(status: &PluginStatus, now: Nanos) -> Value {
    // Every chain has instances of its own, all of the same file.
    let plugin = status.serving.first().map(|(plugin, _)| plugin);
    let weights: Vec<_> = status.serving.iter().map(|(_, weight)| number(*weight)).collect();
    let aside = aside_until(status, now);
    json!({
        "name": status.name,
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
        "mode": status.mode,
        "state": state(status, aside),
        "set_aside_for_ms": aside.map(|until| until.saturating_sub(now) / MILLI),
        "calls": status.serving.iter().map(|(plugin, _)| plugin.health.calls()).sum::<u64>(),
        "clamped": status.serving.iter().map(|(plugin, _)| plugin.health.clamped_scores()).sum::<u64>(),
        "failures": failures(status),
        "loads": status.loads,
        "refusals": status.refusals,
        "refused": status.refused,
    })
}

/// Calls without a usable answer, trial calls of refused files included, by reason.
pub(super) fn failures(status: &PluginStatus) -> BTreeMap<&'static str, u64> {
    let mut failures = status.failed_before.clone();
    for (plugin, _) in &status.serving {
        for (reason, count) in plugin.health.failures().filter(|(_, count)| *count > 0) {
            *failures.entry(reason.as_str()).or_default() += count;
        }
    }
    failures
}

/// When the plugin may be asked again, if it is set aside in some chain.
pub(super) fn aside_until(status: &PluginStatus, now: Nanos) -> Option<Nanos> {
    status.serving.iter().filter_map(|(plugin, _)| plugin.health.aside_until(now)).max()
}

fn state(status: &PluginStatus, aside: Option<Nanos>) -> &'static str {
    match status {
        PluginStatus { mode: Mode::Off, .. } => "off",
        PluginStatus { serving, .. } if !serving.is_empty() && aside.is_some() => "set_aside",
        PluginStatus { serving, .. } if !serving.is_empty() => "active",
        PluginStatus { refused: Some(_), .. } => "refused",
        // It is loaded, and no chain uses it.
        PluginStatus { loads: 1.., .. } => "unused",
        // A default plugin that this build lacks.
        PluginStatus { .. } => "absent",
    }
}
