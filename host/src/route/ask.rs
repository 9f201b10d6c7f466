//! Asking one policy, and what its failure means.

use std::sync::Arc;

use super::Refusal;
use crate::clock::Clock;
use crate::policy::{Budget, CallError, OnError, Plugin, Reason, Slot, Stage};

/// Asks a policy unless it is set aside, counts how it went and how long it took.
pub(super) fn ask<P: ?Sized, R>(
    slot: &Slot<P>,
    stage: Stage,
    clock: &dyn Clock,
    budget: &Budget,
    call: impl FnOnce(&P) -> Result<R, CallError>,
) -> Result<R, CallError> {
    let plugin = &slot.plugin;
    let now = clock.now();
    if !plugin.health.usable(now) {
        plugin.health.failed(Reason::SetAside, now);
        return Err(CallError::new(Reason::SetAside, "set aside after repeated failures"));
    }
    let before = budget.used();
    let answer = call(&slot.policy);
    match &answer {
        Ok(_) => {
            plugin.health.succeeded();
            plugin.times.note(stage, budget.used().saturating_sub(before));
        }
        Err(error) => failed(plugin, stage, error, now),
    }
    answer
}

fn failed(plugin: &Plugin, stage: Stage, error: &CallError, now: u64) {
    let set_aside = plugin.health.failed(error.reason, now);
    let (name, stage) = (&*plugin.name, stage.as_str());
    if set_aside {
        let until = plugin.health.aside_until(now).unwrap_or(now);
        let seconds = until.saturating_sub(now) / crate::clock::SECOND;
        tracing::error!(plugin = name, stage, %error, "plugin set aside for {seconds} s after repeated failures");
    } else if error.reason.is_failure() {
        tracing::warn!(plugin = name, stage, %error, "plugin call failed");
    }
}

/// Whether the request may go on with the stage's default after this failure.
pub(super) fn default_allowed(plugin: &Arc<Plugin>, stage: Stage, error: &CallError) -> Result<(), Refusal> {
    let must_not_skip =
        plugin.on_error == OnError::Reject || (plugin.required && error.reason == Reason::SetAside);
    if must_not_skip {
        return Err(Refusal::Policy { plugin: plugin.name.clone(), stage, reason: error.reason });
    }
    Ok(())
}
