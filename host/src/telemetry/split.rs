//! What splitting requests between endpoints comes to, counted.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::metrics::{Bounds, Counters, OfOutcome, OfPool, Register};
use crate::policy::LegStage;

/// Upper bounds in seconds: a prefill takes tens of milliseconds to minutes, a transfer tenths to seconds.
const LEG: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0];
const TRANSFER: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfLeg {
    pool: Arc<str>,
    stage: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfFault {
    pool: Arc<str>,
    stage: &'static str,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfPlace {
    pool: Arc<str>,
    place: &'static str,
}

/// The same for all pools.
#[derive(Debug)]
pub(super) struct SplitFamilies {
    outcomes: Counters<OfOutcome>,
    faults: Counters<OfFault>,
    legs: Family<OfLeg, Histogram, Bounds>,
    transfers: Family<OfPool, Histogram, Bounds>,
    leases: Family<OfPool, Gauge>,
    left: Counters<OfPool>,
    removed: Counters<OfPlace>,
}

/// Those of one pool.
#[derive(Debug)]
pub struct SplitMetrics {
    pool: Arc<str>,
    outcomes: Counters<OfOutcome>,
    faults: Counters<OfFault>,
    legs: Family<OfLeg, Histogram, Bounds>,
    transfer: Histogram,
    leases: Gauge,
    left: Counter,
    removed: Counters<OfPlace>,
}

impl SplitFamilies {
    pub(super) fn new(to: &mut Register) -> Self {
        Self {
            outcomes: to.add(
                "splits",
                "Requests of which it was asked whether to prefill elsewhere, by what came of it",
                Family::default(),
            ),
            faults: to.add("split_faults", "Legs that came to nothing, by stage and reason", Family::default()),
            legs: to.add(
                "leg_seconds",
                "Time that legs before decode took",
                Family::new_with_constructor(Bounds(LEG)),
            ),
            transfers: to.histograms(
                "transfer_seconds",
                "From asking decode to its first token, with the transfer of what was prefilled",
                TRANSFER,
            ),
            leases: to.add(
                "split_leases",
                "Prompts that were prefilled and are not yet fetched",
                Family::<OfPool, Gauge>::default(),
            ),
            left: to.add(
                "split_leases_left",
                "Prompts that were prefilled and never fetched; engines let go of them when their lease ends",
                Family::default(),
            ),
            removed: to.add(
                "internal_fields_removed",
                "Requests from which something was removed by which engines are steered from within, by where it stood",
                Family::default(),
            ),
        }
    }

    pub(super) fn pool(&self, pool: &Arc<str>) -> SplitMetrics {
        let own = OfPool { pool: Arc::clone(pool) };
        SplitMetrics {
            pool: Arc::clone(pool),
            outcomes: self.outcomes.clone(),
            faults: self.faults.clone(),
            legs: self.legs.clone(),
            transfer: self.transfers.get_or_create_owned(&own),
            leases: self.leases.get_or_create_owned(&own),
            left: self.left.get_or_create_owned(&own),
            removed: self.removed.clone(),
        }
    }
}

impl SplitMetrics {
    /// A request of which it was asked came to this.
    pub fn outcome(&self, outcome: &'static str) {
        self.outcomes.get_or_create(&OfOutcome { pool: Arc::clone(&self.pool), outcome }).inc();
    }

    /// A leg of this stage came to nothing.
    pub fn fault(&self, stage: &'static str, reason: &'static str) {
        self.faults.get_or_create(&OfFault { pool: Arc::clone(&self.pool), stage, reason }).inc();
    }

    /// A leg took so long, however it ended.
    pub fn leg(&self, stage: LegStage, seconds: f64) {
        let labels = OfLeg { pool: Arc::clone(&self.pool), stage: stage.as_str() };
        self.legs.get_or_create(&labels).observe(seconds);
    }

    /// The first token came so long after decode was asked.
    pub fn transferred(&self, seconds: f64) {
        self.transfer.observe(seconds);
    }

    /// Something is kept for decode from now on.
    pub fn lease(&self) -> Lease {
        self.leases.inc();
        Lease { leases: self.leases.clone(), left: Some(self.left.clone()) }
    }

    /// A client's request had internal members, headers or addresses, in this place.
    pub fn removed(&self, place: &'static str) {
        self.removed.get_or_create(&OfPlace { pool: Arc::clone(&self.pool), place }).inc();
    }
}

/// What a prefill endpoint keeps for decode. Dropped before it was fetched it counts as left.
#[derive(Debug)]
#[must_use = "it counts as left as soon as this is dropped"]
pub struct Lease {
    leases: Gauge,
    left: Option<Counter>,
}

impl Lease {
    /// Decode has it.
    pub fn fetched(mut self) {
        self.left = None;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.leases.dec();
        if let Some(left) = &self.left {
            left.inc();
        }
    }
}
