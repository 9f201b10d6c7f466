//! Letting waiting requests go, as the flow-control policy says.

use std::sync::Arc;

use super::Gate;
use crate::clock::Clock;
use crate::policy::{CallError, EndpointView, Flows, Own, Plugin, clean};

/// The flow-control policy's own instance, with the plugin that its failures count for.
pub struct Controls<'a> {
    /// The instance that hears the events.
    pub own: &'a mut dyn Own,
    /// Whose it is.
    pub plugin: &'a Plugin,
    /// How often in a row its `select` gave no usable answer.
    pub unselected: &'a mut u32,
}

/// Failures in a row of `select` after which the plugin is set aside, however well its other calls go: requests
/// wait for that one.
const STRIKES: u32 = 3;

impl Controls<'_> {
    fn selected(&mut self, usable: bool, clock: &dyn Clock) {
        *self.unselected = if usable { 0 } else { *self.unselected + 1 };
        if *self.unselected == STRIKES && self.plugin.health.set_aside(clock.now()) {
            tracing::error!(plugin = &*self.plugin.name, "set aside: its `select` fails each time");
        }
    }
}

/// What a round of dispatching came to.
#[derive(Debug, Clone, Default)]
pub struct Round {
    /// How full the pool is, as the policy says; none without a usable answer.
    pub saturation: Option<f32>,
    /// Who could go and who was chosen; none where nobody could.
    pub selection: Option<Selection>,
    /// How many went.
    pub went: usize,
}

/// Who could go, and who was chosen.
#[derive(Debug, Clone)]
pub struct Selection {
    /// Who could.
    pub flows: Arc<Flows>,
    /// How many at most.
    pub count: u32,
    /// Positions of flows, in order.
    pub chosen: Vec<u32>,
}

/// What there is to dispatch to.
pub struct Room<'a> {
    /// All endpoints that can be used, those too that only prefill.
    pub endpoints: &'a Arc<dyn EndpointView>,
    /// How many of them answer clients.
    pub answering: usize,
    /// Requests that they take before they are full, by what is known of them.
    pub requests: usize,
}

/// Flows that are shown for one request that may go, and at least.
const SHOWN_EACH: usize = 32;
const SHOWN: usize = 256;

/// Asks how full the pool is and lets go as many as fit. Without a policy a pool is never full; when it gives no usable
/// answer the pool is full when all limits are reached. Then the first to come goes first.
pub fn dispatch(
    gate: &Arc<Gate>,
    mut controls: Option<Controls<'_>>,
    room: &Room<'_>,
    clock: &dyn Clock,
) -> Round {
    let Room { endpoints, answering, requests } = *room;
    let asks = controls.is_some();
    let saturation = asked(&mut controls, clock, |own| own.saturation(endpoints).and_then(clean::saturation));
    // Of the fast way only half: several routers may think the same of an endpoint.
    let fast = if asks { (requests / 2).max(answering) } else { usize::MAX };
    // Where a policy fails it is known all the same what the endpoints take.
    let full = answering == 0 || (asks && saturation.is_none() && requests == 0);
    gate.set_saturation(if full { 1.0 } else { saturation.unwrap_or(0.0) }, fast);
    let nobody = Round { saturation, ..Round::default() };
    if answering == 0 || !gate.anybody_waits() {
        return nobody;
    }
    // What was let go shows in the load only once it has reserved an endpoint: a batch for each endpoint at most,
    // or the same free slot would be given away over and over.
    let Some(count) = answering.checked_sub(gate.unsettled()).filter(|count| *count > 0) else {
        return nobody;
    };
    let flows = Arc::new(gate.flows(clock.now(), count.saturating_mul(SHOWN_EACH).max(SHOWN)));
    if flows.rows.is_empty() {
        return nobody;
    }
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let chosen = asked(&mut controls, clock, |own| {
        own.select(&flows, endpoints, count).and_then(|chosen| selection(chosen, &flows, count))
    });
    if let Some(controls) = &mut controls {
        controls.selected(chosen.is_some(), clock);
    }
    // Rows are in bands, the oldest head first: taking them in order is first come, first served.
    let chosen = chosen.unwrap_or_else(|| (0..count).take(flows.rows.len()).collect());
    let ids: Vec<u32> =
        chosen.iter().filter_map(|position| flows.rows.get(index(*position))).map(|row| row.id).collect();
    let went = gate.release(&ids);
    Round { saturation, selection: Some(Selection { flows, count, chosen }), went }
}

/// A `select`'s answer as it can be used: the first `count`. A flow may be named as often as it has requests.
///
/// # Errors
/// When a position is out of range.
pub fn selection(chosen: Vec<u32>, flows: &Flows, count: u32) -> Result<Vec<u32>, CallError> {
    let mut chosen = clean::flows(chosen, flows.rows.len())?;
    chosen.truncate(index(count));
    Ok(chosen)
}

/// Asks the policy unless there is none or it is set aside, and counts how it went.
fn asked<R>(
    controls: &mut Option<Controls<'_>>,
    clock: &dyn Clock,
    ask: impl FnOnce(&mut dyn Own) -> Result<R, CallError>,
) -> Option<R> {
    let Controls { own, plugin, .. } = controls.as_mut()?;
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
