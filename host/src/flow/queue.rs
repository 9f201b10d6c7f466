//! The waiting requests: flows in bands, each in the order of its ranks.
//!
//! Pure data structure under the gate's lock. Every operation on one request is O(log n); the snapshot for
//! `select` is linear in the flows shown, not in the requests.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Pass;
use crate::clock::{MILLI, Nanos};
use crate::policy::flows::MAX_FLOWS;
use crate::policy::{FlowRow, Flows, Placement};

/// What becomes of a request that waited.
#[derive(Debug)]
pub enum Outcome {
    /// It may go, with this pass.
    Go(Pass),
    /// Its time was up.
    Expired,
    /// A more important one took its place.
    Displaced,
    /// The process shuts down.
    ShuttingDown,
}

/// Told once what became of a waiting request.
pub type Waiter = Box<dyn FnOnce(Outcome) + Send>;

/// The queue takes no more, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// Of requests.
    Requests,
    /// Of bytes.
    Bytes,
}

/// Order within a flow: higher rank first, then arrival.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Order {
    rank: f64,
    pub(super) seq: u64,
}

impl Eq for Order {}

impl Ord for Order {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.rank.total_cmp(&self.rank).then(self.seq.cmp(&other.seq))
    }
}

impl PartialOrd for Order {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

pub(super) struct Entry {
    pub(super) waiter: Waiter,
    pub(super) since: Nanos,
    pub(super) deadline: Nanos,
    pub(super) bytes: usize,
    pub(super) cost: u32,
    pub(super) ceiling: f32,
}

/// One flow: its waiting requests, and what runs of it.
pub(super) struct Flow {
    pub(super) name: Box<str>,
    pub(super) band: i32,
    weight: f32,
    waiting: BTreeMap<Order, Entry>,
    running: u32,
    inflight_tokens: u64,
    served_tokens: u64,
}

impl Flow {
    fn idle(&self) -> bool {
        self.waiting.is_empty() && self.running == 0
    }
}

/// Where a waiting request stands, to cancel it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ticket {
    flow: u32,
    pub(super) order: Order,
}

/// All flows of one pool.
#[derive(Default)]
pub(super) struct Queue {
    flows: HashMap<u32, Flow>,
    by_name: HashMap<(i32, Box<str>), u32>,
    /// Flows with waiting requests, bands from the top.
    bands: BTreeMap<Reverse<i32>, BTreeSet<u32>>,
    deadlines: BTreeMap<(Nanos, u64), Ticket>,
    next_flow: u32,
    next_seq: u64,
    len: usize,
    bytes: usize,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Requests that wait, by band.
    pub(super) fn waiting_by_band(&self) -> Vec<(i32, usize)> {
        let length = |flows: &BTreeSet<u32>| {
            flows.iter().filter_map(|flow| self.flows.get(flow)).map(|flow| flow.waiting.len()).sum()
        };
        self.bands.iter().map(|(Reverse(band), flows)| (*band, length(flows))).collect()
    }

    /// Whether somebody waits in this band or above.
    pub(super) fn waits_at_or_above(&self, band: i32) -> bool {
        self.bands.first_key_value().is_some_and(|(Reverse(highest), _)| *highest >= band)
    }

    /// The flow of a placement, made if it is new.
    pub(super) fn flow(&mut self, placement: &Placement) -> u32 {
        let key = (placement.band, placement.flow.clone());
        if let Some(id) = self.by_name.get(&key) {
            if let Some(flow) = self.flows.get_mut(id) {
                flow.weight = placement.weight;
            }
            return *id;
        }
        let id = self.next_flow;
        // Handles cross the boundary as f32, which counts to 2^24 exactly.
        self.next_flow = (self.next_flow + 1) & 0x00ff_ffff;
        let flow = Flow {
            name: placement.flow.clone(),
            band: placement.band,
            weight: placement.weight,
            waiting: BTreeMap::new(),
            running: 0,
            inflight_tokens: 0,
            served_tokens: 0,
        };
        self.flows.insert(id, flow);
        self.by_name.insert(key, id);
        id
    }

    /// Puts a request at its place in its flow.
    pub(super) fn push(&mut self, id: u32, rank: f64, entry: Entry) -> Option<Ticket> {
        let flow = self.flows.get_mut(&id)?;
        let order = Order { rank, seq: self.next_seq };
        self.next_seq += 1;
        self.len += 1;
        self.bytes += entry.bytes;
        self.deadlines.insert((entry.deadline, order.seq), Ticket { flow: id, order });
        self.bands.entry(Reverse(flow.band)).or_default().insert(id);
        flow.waiting.insert(order, entry);
        Some(Ticket { flow: id, order })
    }

    /// Takes the first request of a flow and counts it as running.
    pub(super) fn start_first(&mut self, id: u32) -> Option<Entry> {
        let (order, entry) = self.flows.get(&id)?.waiting.first_key_value()?;
        let (order, cost) = (*order, entry.cost);
        // Counted before it leaves, or an otherwise idle flow would be forgotten in between.
        self.started(id, cost);
        self.remove(Ticket { flow: id, order })
    }

    /// Takes one request out, wherever it stands.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Entry> {
        let flow = self.flows.get_mut(&ticket.flow)?;
        let entry = flow.waiting.remove(&ticket.order)?;
        self.len -= 1;
        self.bytes -= entry.bytes;
        self.deadlines.remove(&(entry.deadline, ticket.order.seq));
        if flow.waiting.is_empty() {
            let band = Reverse(flow.band);
            if let Some(flows) = self.bands.get_mut(&band) {
                flows.remove(&ticket.flow);
                if flows.is_empty() {
                    self.bands.remove(&band);
                }
            }
        }
        self.forget_if_idle(ticket.flow);
        Some(entry)
    }

    /// Takes the request that stands last in the lowest band, if that band is below `band`.
    pub(super) fn displace(&mut self, band: i32) -> Option<Entry> {
        let (Reverse(lowest), flows) = self.bands.last_key_value()?;
        if *lowest >= band {
            return None;
        }
        let last = |id: &u32| self.flows.get(id)?.waiting.last_key_value().map(|(order, _)| (*order, *id));
        let (order, flow) = flows.iter().filter_map(last).max_by(|a, b| a.0.cmp(&b.0))?;
        self.remove(Ticket { flow, order })
    }

    /// Takes every request whose time is up.
    pub(super) fn expired(&mut self, now: Nanos) -> Vec<Entry> {
        let mut expired = Vec::new();
        while let Some(((deadline, _), ticket)) =
            self.deadlines.first_key_value().map(|(at, who)| (*at, *who))
        {
            if deadline > now {
                break;
            }
            match self.remove(ticket) {
                Some(entry) => expired.push(entry),
                None => break,
            }
        }
        expired
    }

    /// When the next request's time is up.
    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        self.deadlines.first_key_value().map(|((deadline, _), _)| *deadline)
    }

    /// Takes everything.
    pub(super) fn drain(&mut self) -> Vec<Entry> {
        let tickets: Vec<_> = self
            .flows
            .iter()
            .flat_map(|(id, flow)| flow.waiting.keys().map(|order| Ticket { flow: *id, order: *order }))
            .collect();
        tickets.into_iter().filter_map(|ticket| self.remove(ticket)).collect()
    }

    /// A request of the flow runs.
    pub(super) fn started(&mut self, id: u32, cost: u32) {
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.running += 1;
            flow.inflight_tokens += u64::from(cost);
        }
    }

    /// A request of the flow is done, and used this many tokens.
    pub(super) fn finished(&mut self, id: u32, cost: u32, served: u64) {
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.running = flow.running.saturating_sub(1);
            flow.inflight_tokens = flow.inflight_tokens.saturating_sub(u64::from(cost));
            flow.served_tokens += served;
        }
        self.forget_if_idle(id);
    }

    /// Drops a flow of which nothing waits or runs.
    pub(super) fn forget_if_idle(&mut self, id: u32) {
        if self.flows.get(&id).is_some_and(Flow::idle)
            && let Some(flow) = self.flows.remove(&id)
        {
            self.by_name.remove(&(flow.band, flow.name));
        }
    }

    /// The flows whose head may go at this saturation: each band's first, then the oldest head.
    pub(super) fn snapshot(&self, now: Nanos, saturation: f32) -> Flows {
        let mut rows = Vec::new();
        for flows in self.bands.values() {
            let mut of_band: Vec<_> = flows
                .iter()
                .filter_map(|id| Some((*id, self.flows.get(id)?)))
                .filter_map(|(id, flow)| Some((id, flow, flow.waiting.first_key_value()?.1)))
                .filter(|(_, _, head)| saturation < head.ceiling)
                .collect();
            of_band.sort_unstable_by_key(|(id, _, head)| (head.since, *id));
            rows.extend(of_band.into_iter().map(|(id, flow, head)| row(id, flow, head, now)));
            if rows.len() >= MAX_FLOWS {
                rows.truncate(MAX_FLOWS);
                break;
            }
        }
        Flows { rows }
    }
}

fn row(id: u32, flow: &Flow, head: &Entry, now: Nanos) -> FlowRow {
    FlowRow {
        id,
        name: flow.name.clone(),
        band: flow.band,
        length: u32::try_from(flow.waiting.len()).unwrap_or(u32::MAX),
        head_age_ms: now.saturating_sub(head.since) / MILLI,
        head_cost: head.cost,
        head_rank: flow.waiting.first_key_value().map_or(0.0, |(order, _)| order.rank),
        head_deadline_ms: Some(head.deadline.saturating_sub(now) / MILLI),
        weight: flow.weight,
        inflight_tokens: flow.inflight_tokens,
        served_tokens: flow.served_tokens,
    }
}
