//! What was charged for requests that run, until it is known what they took.

use std::collections::HashMap;

use sluicegate_sdk::{Column, Columns, EventKind, EventsView, UnknownColumn};

use crate::Config;
use crate::counters::{Counters, Sent};

/// Requests kept at most. Each one ends by an event; the bound is for a host that fails to say so.
const MAX_REQUESTS: usize = 65_536;

#[derive(Debug, Clone, Copy)]
struct Charge {
    flow: u32,
    sent: Sent,
    prefilled: bool,
}

/// The charges that run.
pub(crate) struct Ledger {
    kind: Column,
    flow: Column,
    band: Column,
    prompt: Column,
    cached: Column,
    output: Column,
    charges: HashMap<String, Charge>,
}

/// One event.
struct Event {
    kind: EventKind,
    flow: f32,
    band: f32,
    prompt: f32,
    cached: f32,
    output: f32,
}

impl Event {
    #[expect(clippy::cast_possible_truncation, reason = "bands are whole numbers; a cast saturates")]
    fn band(&self) -> Option<i32> {
        (!self.band.is_nan()).then_some(self.band as i32)
    }
}

impl Ledger {
    pub(crate) fn resolve(columns: &mut Columns) -> Result<Self, UnknownColumn> {
        Ok(Self {
            kind: columns.resolve("event.kind")?.or(-1.0),
            flow: columns.resolve("event.flow")?.or(-1.0),
            band: columns.resolve("event.band")?.or(f32::NAN),
            prompt: columns.resolve("event.prompt_tokens")?.or(0.0),
            cached: columns.resolve("event.cached_tokens")?.or(0.0),
            output: columns.resolve("event.output_tokens")?.or(0.0),
            charges: HashMap::new(),
        })
    }

    /// Charges what is dispatched, and corrects what has ended.
    pub(crate) fn observe(
        &mut self,
        events: &dyn EventsView,
        counters: &mut Counters,
        now_ms: u64,
        config: &Config,
    ) {
        let tokens = events.column(self.prompt).into_iter().zip(events.column(self.cached));
        let places = events.column(self.flow).into_iter().zip(events.column(self.band));
        let columns = events.column(self.kind).into_iter().zip(places);
        let rows = columns.zip(tokens).zip(events.column(self.output)).enumerate();
        for (position, (((kind, (flow, band)), (prompt, cached)), output)) in rows {
            let event = Event { kind: EventKind::from_value(kind), flow, band, prompt, cached, output };
            if event.flow >= 0.0 {
                self.take(&event, events.request(position), counters, now_ms, config);
            }
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "handles are small whole numbers, checked not to be negative"
    )]
    fn take(
        &mut self,
        event: &Event,
        request: String,
        counters: &mut Counters,
        now_ms: u64,
        config: &Config,
    ) {
        let flow = event.flow as u32;
        match event.kind {
            // A retry is dispatched again, and has been charged.
            EventKind::Dispatched if self.charges.contains_key(&request) => {}
            EventKind::Dispatched => {
                let expected = counters.expected_output(flow).unwrap_or(config.expected_output_tokens);
                let tokens = price(event.prompt, 0.0, expected, config);
                if self.charges.len() < MAX_REQUESTS {
                    let sent = counters.sent(flow, event.band(), tokens, now_ms);
                    self.charges.insert(request, Charge { flow, sent, prefilled: false });
                }
            }
            EventKind::FirstToken => {
                if let Some(charge) = self.charges.get_mut(&request) {
                    charge.prefilled = true;
                }
            }
            EventKind::Completed | EventKind::Failed | EventKind::Cancelled => {
                let Some(charge) = self.charges.remove(&request) else { return };
                counters.ended(charge.sent, took(event, charge.prefilled, config), now_ms);
                if event.kind == EventKind::Completed {
                    counters.answered(charge.flow, event.output, now_ms);
                }
            }
            EventKind::Other => {}
        }
    }
}

/// What a request took. One that failed before its first token is the pool's fault, not the flow's; one whose
/// client left took its prompt all the same.
fn took(event: &Event, prefilled: bool, config: &Config) -> f64 {
    if event.kind == EventKind::Failed && !prefilled && event.output <= 0.0 {
        return 0.0;
    }
    price(event.prompt, event.cached, event.output, config)
}

fn price(prompt: f32, cached: f32, output: f32, config: &Config) -> f64 {
    let computed = (prompt - cached).max(0.0);
    f64::from(computed) * f64::from(config.input_price)
        + f64::from(cached.min(prompt)) * f64::from(config.cached_price)
        + f64::from(output) * f64::from(config.output_price)
}

#[cfg(test)]
mod tests {
    use sluicegate_sdk::fake::{self, Event as Happened, Events};

    use super::*;

    fn event(request: &str, kind: EventKind, prompt: f32, cached: f32, output: f32) -> Happened {
        Happened {
            flow: 1.0,
            prompt_tokens: prompt,
            cached_tokens: cached,
            output_tokens: output,
            ..Happened::new(request, kind)
        }
    }

    fn served(events: impl IntoIterator<Item = Happened>) -> f64 {
        let mut ledger = Ledger::resolve(&mut fake::columns()).unwrap();
        let mut counters = Counters::default();
        let config = Config { expected_output_tokens: 50.0, ..Config::default() };
        ledger.observe(&Events::new(events), &mut counters, 0, &config);
        counters.flows.get(&1).map_or(0.0, |flow| flow.served)
    }

    #[test]
    fn the_estimate_is_corrected_by_what_was_reported() {
        let dispatched = event("r", EventKind::Dispatched, 1_000.0, f32::NAN, 0.0);
        assert_eq!(served([dispatched.clone()]), 1_100.0);
        let completed = event("r", EventKind::Completed, 1_000.0, 800.0, 10.0);
        let expected = 200.0 + 800.0 * f64::from(0.1_f32) + 20.0;
        assert!((served([dispatched, completed]) - expected).abs() < 1e-6);
    }

    #[test]
    fn a_retry_is_charged_once() {
        let dispatched = event("r", EventKind::Dispatched, 1_000.0, f32::NAN, 0.0);
        assert_eq!(served([dispatched.clone(), dispatched]), 1_100.0);
    }

    #[test]
    fn a_failed_request_is_free_and_one_left_is_not() {
        let dispatched = event("r", EventKind::Dispatched, 1_000.0, f32::NAN, 0.0);
        let end = |kind| event("r", kind, 1_000.0, f32::NAN, 0.0);
        assert_eq!(served([dispatched.clone(), end(EventKind::Failed)]), 0.0);
        assert_eq!(served([dispatched, end(EventKind::Cancelled)]), 1_000.0);
    }

    #[test]
    fn what_was_never_dispatched_is_never_corrected() {
        assert_eq!(served([event("r", EventKind::Completed, 1_000.0, 0.0, 9.0)]), 0.0);
    }

    #[test]
    fn requests_of_no_flow_are_left_out() {
        let dispatched = Happened { flow: f32::NAN, ..event("r", EventKind::Dispatched, 9.0, 0.0, 0.0) };
        assert_eq!(served([dispatched]), 0.0);
    }
}
