//! What joins the parts.

use std::collections::{HashMap, HashSet};

use sluicegate_sdk::config::Settings as _;
use sluicegate_sdk::{
    Column, Columns, EndpointsView, Error, EventsView, FlowControl, FlowsView, Handoff, Manifest, Observer,
    Placement, Policy, RequestView, clock,
};

use crate::counters::{Counters, Waiting};
use crate::drr::Drr;
use crate::late::Late;
use crate::ledger::Ledger;
use crate::place::place;
use crate::saturation::{Fullness, Load};
use crate::select::{Candidate, Terms, select, select_by_turns};
use crate::{Between, Config, Within};

/// A flow whose head has waited for so long has more to send than falls to it by chance.
const BACKLOG_MS: f32 = 1_000.0;

/// The policy.
pub struct Fairness {
    config: Config,
    load: Load,
    band: Column,
    length: Column,
    head_age: Column,
    head_cost: Column,
    weight: Column,
    /// What endpoints hold of a prompt, where the order within flows goes by that.
    cached: Option<Column>,
    ledger: Ledger,
    counters: Counters,
    drr: Drr,
    late: Late,
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
        let config = Config::parse(json)?;
        let by_prefix = config.within == Within::LongestPrefix;
        Ok(Self {
            load: Load::resolve(columns)?,
            band: columns.resolve("flow.band")?.or(0.0),
            length: columns.resolve("flow.length")?.or(1.0),
            head_age: columns.resolve("flow.head_age_ms")?.or(0.0),
            head_cost: columns.resolve("flow.head_cost")?.or(1.0),
            weight: columns.resolve("flow.weight")?.or(1.0),
            ledger: Ledger::resolve(columns)?,
            counters: Counters::new(&config),
            cached: if by_prefix { Some(columns.resolve("prefix.ratio")?.or(0.0)) } else { None },
            drr: Drr::default(),
            late: Late::default(),
            config,
        })
    }
}

impl FlowControl for Fairness {
    fn place(&self, request: &dyn RequestView, endpoints: &dyn EndpointsView) -> Placement {
        let cached = || {
            let shares = self.cached.map(|column| endpoints.column(column)).unwrap_or_default();
            shares.into_iter().fold(0.0, f32::max)
        };
        place(request, clock::now_ms(), cached, &self.config)
    }

    fn select(&mut self, flows: &dyn FlowsView, endpoints: &dyn EndpointsView, count: usize) -> Vec<u32> {
        let waiting = self.waiting(flows);
        let ids = waiting.iter().map(|(waiting, _)| *waiting).collect::<Vec<_>>();
        self.counters.arrive(&ids, clock::now_ms());
        let full = self.load.of(endpoints, self.usual_output(), &self.config);
        let now_ms = clock::now_ms();
        let bounds = self.bounds(&ids, &full, now_ms);
        let mut flows: Vec<Candidate> = waiting
            .into_iter()
            .map(|(waiting, flow)| Candidate {
                served: self.standing(waiting.id, now_ms),
                is_new: self.counters.is_new(waiting.id),
                backlog: self.counters.backlog(waiting.id),
                at_most: bounds.get(&waiting.id).copied(),
                ..flow
            })
            .collect();
        let first: Vec<u32> = self.late.take(&mut flows, &full.each, &self.config).into_iter().collect();
        let chosen = self.choose(flows, &ids, &full, count, first);
        self.late.went(chosen.len(), &self.config);
        if self.config.between == Between::RoundRobin {
            let turns = chosen.iter().filter_map(|position| ids.get(usize::try_from(*position).ok()?));
            turns.for_each(|waiting| self.counters.has_turn(waiting.id, now_ms));
        }
        chosen
    }

    fn saturation(&mut self, endpoints: &dyn EndpointsView) -> f32 {
        self.load.of(endpoints, self.usual_output(), &self.config).least()
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
    fn choose(
        &mut self,
        flows: Vec<Candidate>,
        ids: &[Waiting],
        full: &Fullness,
        count: usize,
        first: Vec<u32>,
    ) -> Vec<u32> {
        if self.config.between != Between::Drr {
            let terms = self.terms(ids, full);
            return select(flows, &full.each, count, first, &terms, &self.config);
        }
        let waits: HashSet<u32> = ids.iter().map(|waiting| waiting.id).collect();
        self.drr.keep(|id| waits.contains(&id));
        let flows = ids.iter().map(|waiting| waiting.id).zip(flows);
        select_by_turns(flows, &full.each, count, first, &mut self.drr, &self.config)
    }

    /// How many more of each flow may go now, where that is bounded.
    fn bounds(&self, ids: &[Waiting], full: &Fullness, now_ms: u64) -> HashMap<u32, u32> {
        let places = full.places().filter(|_| self.config.keep_room > 0.0);
        places.map(|places| self.counters.bounds(ids, places, full.running, now_ms)).unwrap_or_default()
    }

    /// What there is to know of the bands that wait.
    fn terms(&mut self, ids: &[Waiting], full: &Fullness) -> HashMap<i32, Terms> {
        let now_ms = clock::now_ms();
        let whole = full.places();
        let bands: HashSet<i32> = ids.iter().map(|waiting| waiting.band).collect();
        let bands = bands.into_iter().filter_map(|band| {
            let known = self.counters.bands.get_mut(&band)?;
            let newcomers = (known.newcomers.served, known.newcomers.weight);
            let kept = whole.map_or(0.0, |whole| needed(known.light.may_need(now_ms), whole));
            Some((band, Terms { newcomers, kept_free: kept.min(self.config.keep_room) }))
        });
        bands.collect()
    }

    /// What the rule between flows goes by.
    #[expect(clippy::cast_precision_loss, reason = "turns are fewer than 2^53")]
    fn standing(&self, id: u32, now_ms: u64) -> f64 {
        match self.config.between {
            Between::Vtc | Between::Drr => self.counters.served(id),
            Between::Las => self.counters.attained(id, now_ms),
            Between::RoundRobin => self.counters.turn(id) as f64,
            Between::Fcfs => 0.0,
        }
    }

    /// The usual length of an answer, tokens.
    fn usual_output(&self) -> f32 {
        self.counters.usual_output().unwrap_or(self.config.expected_output_tokens)
    }

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
            let is_old = head_age_ms >= BACKLOG_MS;
            let flow =
                Candidate { position, band, length, head_age_ms, head_cost, weight, ..Candidate::default() };
            (Waiting { id, band, weight, is_old }, flow)
        };
        (0_u32..).zip(rows).map(row).collect()
    }
}

/// The share of a pool that so many requests take.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn needed(requests: u32, whole: f32) -> f32 {
    requests as f32 / whole
}

#[cfg(test)]
mod tests;
