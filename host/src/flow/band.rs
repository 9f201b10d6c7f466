//! One band: its waiting requests in the orders in which they are looked for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Waiter;
use super::drain::Drain;
use super::limits::Amount;
use super::sessions::Claim;
use crate::clock::Nanos;

/// Order within a flow: what goes on before what is new, then higher rank, then arrival.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Order {
    /// Its session is not active.
    pub(super) begins: bool,
    pub(super) rank: f64,
    pub(super) seq: u64,
}

impl Eq for Order {}

impl Ord for Order {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let rank = other.rank.total_cmp(&self.rank);
        self.begins.cmp(&other.begins).then(rank).then(self.seq.cmp(&other.seq))
    }
}

impl PartialOrd for Order {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// A waiting request.
pub(super) struct Entry {
    pub(super) waiter: Waiter,
    pub(super) since: Nanos,
    pub(super) deadline: Nanos,
    pub(super) amount: Amount,
    pub(super) cost: u32,
    pub(super) ceiling: f32,
    pub(super) claim: Option<Claim>,
}

/// One flow: its waiting requests, and what runs of it.
pub(super) struct Flow {
    pub(super) name: Arc<str>,
    pub(super) band: i32,
    pub(super) weight: f32,
    pub(super) waiting: BTreeMap<Order, Entry>,
    pub(super) held: Amount,
    pub(super) running: u32,
    pub(super) inflight_tokens: u64,
    pub(super) served_tokens: u64,
    pub(super) drain: Drain,
    /// Since when nothing of it waits or runs.
    pub(super) idle_since: Option<Nanos>,
}

impl Flow {
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running == 0
    }

    pub(super) fn head(&self) -> Option<(&Order, &Entry)> {
        self.waiting.first_key_value()
    }

    /// Tokens that it has had and has under way, for a weight of 1.
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    pub(super) fn service(&self) -> f64 {
        let tokens = self.served_tokens.saturating_add(self.inflight_tokens) as f64;
        tokens / f64::from(self.weight).max(f64::MIN_POSITIVE)
    }

    pub(super) fn place(&self) -> Option<Place> {
        let (_, head) = self.head()?;
        // What is not negative is ordered like its bits.
        Some(Place { since: head.since, service: self.service().to_bits(), length: self.waiting.len() })
    }
}

/// By what a flow is found in its band.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    since: Nanos,
    service: u64,
    length: usize,
}

/// The flows of a band that have waiting requests.
#[derive(Debug, Default)]
pub(super) struct Band {
    pub(super) held: Option<Amount>,
    heads: BTreeSet<(Nanos, u32)>,
    services: BTreeSet<(u64, u32)>,
    lengths: BTreeSet<(usize, u32)>,
    ranked: BTreeSet<(Order, u32)>,
}

impl Band {
    pub(super) fn held(&self) -> Amount {
        self.held.unwrap_or(Amount::NOTHING)
    }

    pub(super) fn flows(&self) -> usize {
        self.heads.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// A flow has moved from one place to another.
    pub(super) fn moved(&mut self, flow: u32, from: Option<Place>, to: Option<Place>) {
        if from == to {
            return;
        }
        if let Some(from) = from {
            self.heads.remove(&(from.since, flow));
            self.services.remove(&(from.service, flow));
            self.lengths.remove(&(from.length, flow));
        }
        if let Some(to) = to {
            self.heads.insert((to.since, flow));
            self.services.insert((to.service, flow));
            self.lengths.insert((to.length, flow));
        }
    }

    pub(super) fn came(&mut self, order: Order, flow: u32, amount: Amount) {
        self.ranked.insert((order, flow));
        self.held.get_or_insert(Amount::NOTHING).add(amount);
    }

    pub(super) fn left(&mut self, order: Order, flow: u32, amount: Amount) {
        self.ranked.remove(&(order, flow));
        self.held.get_or_insert(Amount::NOTHING).subtract(amount);
    }

    /// The request that stands last of all.
    pub(super) fn last(&self) -> Option<(Order, u32)> {
        self.ranked.last().copied()
    }

    /// The flow of which most waits.
    pub(super) fn longest(&self) -> Option<(usize, u32)> {
        self.lengths.last().copied()
    }

    /// Flows from the oldest head on.
    pub(super) fn oldest(&self) -> impl Iterator<Item = u32> + '_ {
        self.heads.iter().map(|(_, flow)| *flow)
    }

    /// Flows from the one that has had least on.
    pub(super) fn least_served(&self) -> impl Iterator<Item = u32> + '_ {
        self.services.iter().map(|(_, flow)| *flow)
    }
}
