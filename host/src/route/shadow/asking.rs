//! Asking one shadow about one request.

use std::sync::Arc;

use super::{Frozen, Snapshot};
use crate::clock::Clock;
use crate::policy::{Agreement, Budget, Call, CallError, Compared, EndpointView, Plugin, Reason, Shadow};

/// Counts a failed call of a shadow and says it in the log. No request is affected.
pub fn note_failure(plugin: &Plugin, stage: &str, error: &CallError, clock: &dyn Clock) {
    let set_aside = plugin.health.failed(error.reason, clock.now());
    let (name, digest) = (&*plugin.name, &*plugin.digest);
    if set_aside {
        tracing::error!(plugin = name, stage, %error, "shadow {digest:.12} set aside after repeated failures");
    } else if error.reason.is_failure() {
        tracing::warn!(plugin = name, stage, %error, "call of shadow {digest:.12} failed; no request is affected");
    }
}

/// A shadow with time of its own for one request.
pub(super) struct Asking<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) shadow: &'a Shadow,
    pub(super) clock: &'a dyn Clock,
    pub(super) budget: Budget,
}

impl Asking<'_> {
    /// Asks one stage about these candidates. Without a usable answer there is nothing to compare, and it is counted.
    pub(super) fn ask<R>(
        &self,
        compared: Compared,
        candidates: &Arc<Frozen>,
        ask: impl FnOnce(Call<'_>) -> Result<R, CallError>,
    ) -> Option<R> {
        let plugin = &self.shadow.plugin;
        if !plugin.health.usable(self.clock.now()) {
            plugin.health.failed(Reason::SetAside, self.clock.now());
            return None;
        }
        let view = Arc::clone(candidates) as Arc<dyn EndpointView>;
        let call = Call { request: &self.snapshot.request, endpoints: &view, budget: &self.budget };
        let before = self.budget.used();
        match ask(call) {
            Ok(answer) => {
                plugin.health.succeeded();
                plugin.times.note(compared.stage(), self.budget.used().saturating_sub(before));
                Some(answer)
            }
            Err(error) => {
                if error.reason.is_failure() {
                    self.note(compared, Agreement::Failed);
                }
                note_failure(plugin, compared.stage().as_str(), &error, self.clock);
                None
            }
        }
    }

    pub(super) fn note(&self, compared: Compared, agreement: Agreement) {
        self.shadow.stats.note(compared, agreement);
    }
}
