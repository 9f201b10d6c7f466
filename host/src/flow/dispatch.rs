//! Letting waiting requests go, as the flow-control policy says.

use std::sync::Arc;

use super::Gate;
use crate::clock::Clock;
use crate::policy::{CallError, EndpointView, Own, Plugin, clean};

/// The flow-control policy's own instance, with the plugin that its failures count for.
pub struct Controls<'a> {
    /// The instance that hears the events.
    pub own: &'a mut dyn Own,
    /// Whose it is.
    pub plugin: &'a Plugin,
}

/// Asks how full the pool is and lets go as many as fit. Without a policy, and when it gives no usable answer,
/// a pool is never full and the first to come goes first. Says whether anybody went.
pub fn dispatch(
    gate: &Arc<Gate>,
    mut controls: Option<Controls<'_>>,
    endpoints: &Arc<dyn EndpointView>,
    clock: &dyn Clock,
) -> bool {
    let saturation = asked(&mut controls, clock, |own| own.saturation(endpoints).and_then(clean::saturation));
    gate.set_saturation(if endpoints.is_empty() { 1.0 } else { saturation.unwrap_or(0.0) });
    if endpoints.is_empty() || !gate.anybody_waits() {
        return false;
    }
    // What was let go shows in the load only once it has reserved an endpoint: a batch for each endpoint at most,
    // or the same free slot would be given away over and over.
    let Some(count) = endpoints.len().checked_sub(gate.unsettled()).filter(|count| *count > 0) else {
        return false;
    };
    let flows = Arc::new(gate.flows(clock.now()));
    if flows.rows.is_empty() {
        return false;
    }
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let chosen = asked(&mut controls, clock, |own| {
        own.select(&flows, endpoints, count).and_then(|chosen| clean::flows(chosen, flows.rows.len()))
    });
    // Rows are in bands, the oldest head first: taking them in order is first come, first served.
    let chosen = chosen.unwrap_or_else(|| (0..count).collect());
    let ids: Vec<u32> = chosen
        .iter()
        .take(index(count))
        .filter_map(|position| flows.rows.get(index(*position)))
        .map(|row| row.id)
        .collect();
    gate.release(&ids) > 0
}

/// Asks the policy unless there is none or it is set aside, and counts how it went.
fn asked<R>(
    controls: &mut Option<Controls<'_>>,
    clock: &dyn Clock,
    ask: impl FnOnce(&mut dyn Own) -> Result<R, CallError>,
) -> Option<R> {
    let Controls { own, plugin } = controls.as_mut()?;
    let now = clock.now();
    if !plugin.health.usable(now) {
        return None;
    }
    match ask(&mut **own) {
        Ok(answer) => {
            plugin.health.succeeded();
            Some(answer)
        }
        Err(error) => {
            let set_aside = plugin.health.failed(error.reason, now);
            tracing::warn!(plugin = &*plugin.name, stage = "flow-control", %error, set_aside, "plugin call failed");
            None
        }
    }
}

fn index(position: u32) -> usize {
    usize::try_from(position).unwrap_or(usize::MAX)
}
