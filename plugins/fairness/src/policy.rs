//! What joins the parts.

use sluicegate_sdk::config::Settings as _;
use sluicegate_sdk::{
    Column, Columns, EndpointsView, Error, EventsView, FlowControl, FlowsView, Handoff, Manifest, Observer,
    Placement, Policy, RequestView, clock,
};

use crate::Config;
use crate::counters::{Counters, Waiting};
use crate::ledger::Ledger;
use crate::place::place;
use crate::saturation::{Load, pool};
use crate::select::{Candidate, select};

/// The policy.
pub struct Fairness {
    config: Config,
    load: Load,
    band: Column,
    length: Column,
    head_age: Column,
    head_cost: Column,
    weight: Column,
    ledger: Ledger,
    counters: Counters,
}

impl Policy for Fairness {
    fn manifest() -> Manifest {
        Manifest::new(
            "fairness",
            env!("CARGO_PKG_VERSION"),
            "strict bands, weighted fair shares of tokens inside them, and nothing starves",
        )
        .with_schema(Config::schema())
    }

    fn configure(json: &str, columns: &mut Columns) -> Result<Self, Error> {
        Ok(Self {
            config: Config::parse(json)?,
            load: Load::resolve(columns)?,
            band: columns.resolve("flow.band")?.or(0.0),
            length: columns.resolve("flow.length")?.or(1.0),
            head_age: columns.resolve("flow.head_age_ms")?.or(0.0),
            head_cost: columns.resolve("flow.head_cost")?.or(1.0),
            weight: columns.resolve("flow.weight")?.or(1.0),
            ledger: Ledger::resolve(columns)?,
            counters: Counters::default(),
        })
    }
}

impl FlowControl for Fairness {
    fn place(&self, request: &dyn RequestView, _endpoints: &dyn EndpointsView) -> Placement {
        place(request, clock::now_ms(), &self.config)
    }

    fn select(&mut self, flows: &dyn FlowsView, endpoints: &dyn EndpointsView, count: usize) -> Vec<u32> {
        let waiting = self.waiting(flows);
        let ids = waiting.iter().map(|(waiting, _)| *waiting).collect::<Vec<_>>();
        self.counters.arrive(&ids, clock::now_ms());
        let candidates = waiting
            .into_iter()
            .map(|(waiting, flow)| Candidate { served: self.counters.served(waiting.id), ..flow });
        select(candidates, &self.load.each(endpoints, &self.config), count, &self.config)
    }

    fn saturation(&mut self, endpoints: &dyn EndpointsView) -> f32 {
        pool(&self.load.each(endpoints, &self.config))
    }
}

impl Observer for Fairness {
    fn observe(&mut self, events: &dyn EventsView) {
        self.ledger.observe(events, &mut self.counters, clock::now_ms(), &self.config);
    }
}

impl Handoff for Fairness {
    fn save(&self) -> Vec<u8> {
        self.counters.save()
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), Error> {
        Ok(self.counters.restore(state, clock::now_ms())?)
    }
}

impl Fairness {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bands and lengths are whole numbers; a cast saturates"
    )]
    fn waiting(&self, flows: &dyn FlowsView) -> Vec<(Waiting, Candidate)> {
        let shape = flows.column(self.band).into_iter().zip(flows.column(self.length));
        let head = flows.column(self.head_age).into_iter().zip(flows.column(self.head_cost));
        let rows = flows.ids().into_iter().zip(shape.zip(head).zip(flows.column(self.weight)));
        let row = |(position, (id, (((band, length), (head_age_ms, head_cost)), weight)))| {
            let band = band as i32;
            let length = length as u32;
            let flow = Candidate { position, band, length, head_age_ms, head_cost, weight, served: 0.0 };
            (Waiting { id, band, weight }, flow)
        };
        (0_u32..).zip(rows).map(row).collect()
    }
}

#[cfg(test)]
mod tests;
