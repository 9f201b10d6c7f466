//! The waiting requests: flows in bands, each in the order of its ranks.
//!
//! Pure data structure under the gate's lock. Every operation on one request is O(log n), displacing one included; what
//! is shown to `select` is bounded by what was asked for, however many flows wait.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use super::band::{Band, Entry, Flow, Order};
use super::contest::Contest;
use super::drain::{Drain, time};
use super::limits::{Amount, Full, Held, Limits, Scope, What};
use super::observed::{Observed, jain};
use super::sessions::{Claim, Sessions};
use super::status::{GateStatus, Standing};
use crate::clock::{MILLI, Nanos, SECOND};
use crate::policy::flows::MAX_FLOWS;
use crate::policy::{FlowRow, Flows, Placement};

/// Flows of which nothing waits or runs that are remembered with what they have had, and for how long.
const MAX_IDLE: usize = 4_096;
const REMEMBERED: Nanos = 600 * SECOND;

/// Where a waiting request stands, to cancel it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ticket {
    flow: u32,
    order: Order,
}

/// What a request that runs took with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub(super) flow: u32,
    pub(super) band: i32,
    pub(super) cost: u32,
    pub(super) claim: Option<Claim>,
}

/// All flows of one pool.
#[derive(Default)]
pub(super) struct Queue {
    flows: HashMap<u32, Flow>,
    by_name: HashMap<(i32, Arc<str>), u32>,
    /// Bands with waiting requests, from the top.
    bands: BTreeMap<Reverse<i32>, Band>,
    deadlines: BTreeMap<(Nanos, u64), Ticket>,
    idle: BTreeSet<(Nanos, u32)>,
    pub(super) sessions: Sessions,
    observed: Observed,
    drain: Drain,
    contest: Contest,
    held: Option<Amount>,
    now: Nanos,
    next_flow: u32,
    next_seq: u64,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.held().requests
    }

    pub(super) fn held(&self) -> Amount {
        self.held.unwrap_or(Amount::NOTHING)
    }

    /// Time goes on, and never back.
    pub(super) fn at(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        self.sessions.expire(self.now);
        while let Some((since, id)) = self.idle.first().copied()
            && (self.idle.len() > MAX_IDLE || self.now.saturating_sub(since) >= REMEMBERED)
        {
            self.idle.remove(&(since, id));
            if let Some(flow) = self.flows.remove(&id) {
                self.by_name.remove(&(flow.band, flow.name));
            }
        }
    }

    /// Whether somebody waits in this band or above.
    pub(super) fn waits_at_or_above(&self, band: i32) -> bool {
        self.bands.first_key_value().is_some_and(|(Reverse(highest), _)| *highest >= band)
    }

    /// The flow of a placement, made if it is new.
    pub(super) fn flow(&mut self, placement: &Placement) -> u32 {
        let key = (placement.band, Arc::<str>::from(&*placement.flow));
        if let Some(id) = self.by_name.get(&key) {
            let id = *id;
            self.edit(id, |flow| flow.weight = placement.weight);
            return id;
        }
        let id = self.free_handle();
        let flow = Flow {
            name: Arc::clone(&key.1),
            band: placement.band,
            weight: placement.weight,
            waiting: BTreeMap::new(),
            held: Amount::NOTHING,
            running: 0,
            inflight_tokens: 0,
            served_tokens: 0,
            drain: Drain::default(),
            idle_since: Some(self.now),
        };
        self.idle.insert((self.now, id));
        self.flows.insert(id, flow);
        self.by_name.insert(key, id);
        id
    }

    fn free_handle(&mut self) -> u32 {
        loop {
            let id = self.next_flow;
            // Handles cross the boundary as f32, which counts to 2^24 exactly.
            self.next_flow = (self.next_flow + 1) & 0x00ff_ffff;
            if !self.flows.contains_key(&id) {
                return id;
            }
        }
    }

    /// Whether a flow has more than so many requests under way while it is new that it shares the pool.
    pub(super) fn is_greedy(&self, id: u32, requests: usize) -> bool {
        self.contest.is_new(self.now)
            && self
                .flows
                .get(&id)
                .is_some_and(|flow| usize::try_from(flow.running).unwrap_or(usize::MAX) > requests)
    }

    /// Which bound one more request would break.
    pub(super) fn full(&self, id: u32, amount: Amount, limits: &Limits) -> Option<Full> {
        let flow = self.flows.get(&id)?;
        let band = self.bands.get(&Reverse(flow.band)).map_or(Amount::NOTHING, Band::held);
        let held = Held { pool: self.held(), band, flow: flow.held };
        limits.full(&held, flow.band, amount)
    }

    /// Where a newcomer to a flow would stand.
    pub(super) fn standing(&self, id: u32) -> Standing {
        let Some(flow) = self.flows.get(&id) else { return Standing::default() };
        let at_or_above = self.bands.range(..=Reverse(flow.band));
        let (ahead, flows) = at_or_above
            .fold((0, 0), |(ahead, flows), (_, band)| (ahead + band.held().requests, flows + band.flows()));
        let all = self.drain.per_second(self.now);
        let newly = usize::from(flow.waiting.is_empty());
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let share = all.map(|all| all / (flows + newly).max(1) as f64);
        let whole = all.map(|all| time(ahead + 1, all));
        let own = flow.drain.per_second(self.now).filter(|_| !flow.waiting.is_empty()).or(share);
        let own = own.map(|rate| time(flow.waiting.len() + 1, rate));
        // Nobody waits longer than until all that stands before him has gone.
        Standing { position: ahead + 1, estimate: own.into_iter().chain(whole).min() }
    }

    /// Puts a request at its place in its flow.
    pub(super) fn push(&mut self, id: u32, rank: f64, entry: Entry) -> Option<Ticket> {
        let begins = entry.claim.is_some_and(|claim| !self.sessions.is_active(claim.session));
        let order = Order { begins, rank, seq: self.next_seq };
        let ticket = Ticket { flow: id, order };
        self.put(ticket, entry)?;
        self.next_seq += 1;
        Some(ticket)
    }

    fn put(&mut self, ticket: Ticket, entry: Entry) -> Option<()> {
        let Ticket { flow: id, order } = ticket;
        let (amount, deadline) = (entry.amount, entry.deadline);
        let band = self.edit(id, |flow| {
            flow.held.add(amount);
            flow.waiting.insert(order, entry);
            flow.band
        })?;
        self.held.get_or_insert(Amount::NOTHING).add(amount);
        self.bands.entry(Reverse(band)).or_default().came(order, id, amount);
        self.deadlines.insert((deadline, order.seq), ticket);
        Some(())
    }

    /// Takes the first request of a flow and counts it as running; none when the caches have no room for it (any more).
    pub(super) fn start_first(&mut self, id: u32) -> Option<(Entry, Taken)> {
        let flow = self.flows.get(&id)?;
        let (order, head) = flow.head()?;
        let taken = Taken { flow: id, band: flow.band, cost: head.cost, claim: head.claim };
        let order = *order;
        let waited = self.now.saturating_sub(head.since);
        if !self.fits(taken.claim, waited) {
            return None;
        }
        // Counted before it leaves, or an otherwise idle flow would be forgotten in between.
        self.started(taken, waited);
        Some((self.remove(Ticket { flow: id, order })?, taken))
    }

    /// Takes one request out, wherever it stands.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Entry> {
        let Ticket { flow: id, order } = ticket;
        let (entry, band) = self.edit(id, |flow| {
            let entry = flow.waiting.remove(&order)?;
            flow.held.subtract(entry.amount);
            Some((entry, Reverse(flow.band)))
        })??;
        self.held.get_or_insert(Amount::NOTHING).subtract(entry.amount);
        self.deadlines.remove(&(entry.deadline, order.seq));
        if let Some(of_band) = self.bands.get_mut(&band) {
            of_band.left(order, id, entry.amount);
            if of_band.is_empty() {
                self.bands.remove(&band);
            }
        }
        Some(entry)
    }

    /// Makes room for a request in the flow `id`, where that is allowed: the last of the lowest band goes, if that band
    /// is below; else of its own band the last of the longest flow, if that is longer than its own. Nobody goes in vain.
    pub(super) fn make_room(&mut self, id: u32, amount: Amount, limits: &Limits) -> Result<Vec<Entry>, Full> {
        let mut displaced = Vec::new();
        while let Some(full) = self.full(id, amount, limits) {
            let ticket = self.displaceable(id, full, amount, limits);
            let gone = ticket.and_then(|ticket| Some((ticket, self.remove(ticket)?)));
            let Some(gone) = gone else {
                // What went would have gone in vain.
                for (ticket, entry) in displaced {
                    self.put(ticket, entry);
                }
                return Err(full);
            };
            displaced.push(gone);
        }
        Ok(displaced.into_iter().map(|(_, entry)| entry).collect())
    }

    fn displaceable(&self, id: u32, full: Full, amount: Amount, limits: &Limits) -> Option<Ticket> {
        let flow = self.flows.get(&id)?;
        if full.scope == Scope::Pool && self.fits_without_lower(flow.band, amount, limits) {
            let (_, lowest) = self.bands.last_key_value()?;
            return lowest.last().map(|(order, flow)| Ticket { flow, order });
        }
        // One goes for one; for bytes and tokens it might take many who are as important.
        if full.scope == Scope::Flow || full.what != What::Requests {
            return None;
        }
        let (length, longest) = self.bands.get(&Reverse(flow.band))?.longest()?;
        let (order, _) = self.flows.get(&longest)?.waiting.last_key_value()?;
        (length > flow.waiting.len() + 1).then_some(Ticket { flow: longest, order: *order })
    }

    /// Whether there would be room in the pool if nobody waited in the bands below.
    fn fits_without_lower(&self, band: i32, amount: Amount, limits: &Limits) -> bool {
        let mut held = self.held();
        let below = self.bands.range((Bound::Excluded(Reverse(band)), Bound::Unbounded));
        let mut any = false;
        for (_, lower) in below {
            any = true;
            held.subtract(lower.held());
        }
        any && held.over(amount, limits.pool).is_none()
    }

    /// Takes every request whose time is up.
    pub(super) fn expired(&mut self) -> Vec<Entry> {
        let mut expired = Vec::new();
        while let Some(((deadline, _), ticket)) =
            self.deadlines.first_key_value().map(|(at, who)| (*at, *who))
        {
            if deadline > self.now {
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
        let tickets: Vec<_> = self.deadlines.values().copied().collect();
        tickets.into_iter().filter_map(|ticket| self.remove(ticket)).collect()
    }

    /// A request of the flow runs, after it waited so long.
    pub(super) fn started(&mut self, taken: Taken, waited: Nanos) {
        let now = self.now;
        if let Some(claim) = taken.claim {
            self.sessions.started(claim, now);
        }
        self.drain.note(now);
        let went = self.edit(taken.flow, |flow| {
            flow.running += 1;
            flow.inflight_tokens += u64::from(taken.cost);
            flow.drain.note(now);
            (flow.band, Arc::clone(&flow.name))
        });
        if let Some((band, name)) = went {
            self.observed.went(band, &name, waited);
        }
        self.contest.seen(self.flows.len().saturating_sub(self.idle.len()), now);
    }

    /// A request of the flow is done, and used this many tokens.
    pub(super) fn finished(&mut self, taken: Taken, served: u64) {
        if let Some(claim) = taken.claim {
            self.sessions.finished(claim.session, self.now);
        }
        let done = self.edit(taken.flow, |flow| {
            flow.running = flow.running.saturating_sub(1);
            flow.inflight_tokens = flow.inflight_tokens.saturating_sub(u64::from(taken.cost));
            flow.served_tokens += served;
            (flow.band, Arc::clone(&flow.name))
        });
        if let Some((band, name)) = done {
            self.observed.served(band, &name, served);
        }
    }

    /// Whether the caches have room for what a request claims, or it has waited for that long enough.
    pub(super) fn fits(&self, claim: Option<Claim>, waited: Nanos) -> bool {
        claim.is_none_or(|claim| self.sessions.fits(claim, waited, self.now))
    }

    /// Up to `most` flows whose head may go at this saturation, each band's first, then the oldest head. Of a band with
    /// more flows than are shown these are the oldest and those that have had least.
    pub(super) fn snapshot(&self, saturation: f32, most: usize) -> Flows {
        let mut rows = Vec::new();
        for band in self.bands.values() {
            let room = most.min(MAX_FLOWS).saturating_sub(rows.len());
            if room == 0 {
                break;
            }
            for id in self.shown(band, room, saturation) {
                if let Some(flow) = self.flows.get(&id)
                    && let Some((order, head)) = flow.head()
                {
                    rows.push(row(id, flow, order, head, self.now));
                }
            }
        }
        Flows { rows }
    }

    /// The highest ceiling of those who have waited longest in their bands.
    pub(super) fn ceiling(&self) -> Option<f32> {
        let oldest = self.bands.values().filter_map(|band| self.flows.get(&band.oldest().next()?)?.head());
        oldest.map(|(_, head)| head.ceiling).reduce(f32::max)
    }

    fn shown(&self, band: &Band, room: usize, saturation: f32) -> Vec<u32> {
        let head = |id: &u32| self.flows.get(id).and_then(Flow::head).map(|(_, head)| head);
        let may_go = |id: &u32| {
            head(id).is_some_and(|head| {
                let waited = self.now.saturating_sub(head.since);
                saturation < head.ceiling && self.fits(head.claim, waited)
            })
        };
        // Those that may not go are passed over, but not all of a great many.
        let looked_at = room.saturating_mul(2);
        if band.flows() <= room {
            return band.oldest().filter(may_go).collect();
        }
        let oldest = band.oldest().take(looked_at).filter(may_go).take(room / 2);
        let mut shown: Vec<u32> = oldest.collect();
        let seen: BTreeSet<u32> = shown.iter().copied().collect();
        let rest = band.least_served().take(looked_at).filter(|id| !seen.contains(id)).filter(may_go);
        shown.extend(rest.take(room - shown.len()));
        shown.sort_unstable_by_key(|id| (head(id).map_or(0, |head| head.since), *id));
        shown
    }

    pub(super) fn status(&self) -> GateStatus {
        let held = self.held();
        let busy = self.flows.values().filter(|flow| !flow.waiting.is_empty()).collect::<Vec<_>>();
        GateStatus {
            waiting: self.bands.iter().map(|(Reverse(band), held)| (*band, held.held().requests)).collect(),
            bytes: held.bytes,
            tokens: held.tokens,
            waiting_flows: busy.len(),
            saturation: 0.0,
            running: 0,
            per_second: self.drain.per_second(self.now).unwrap_or(0.0),
            jain: jain(busy.iter().map(|flow| flow.service())),
            lines: self.observed.lines(),
            sessions: self.sessions.len(),
            session_tokens: self.sessions.tokens(),
        }
    }

    /// Changes a flow and keeps the orders of its band right.
    fn edit<R>(&mut self, id: u32, change: impl FnOnce(&mut Flow) -> R) -> Option<R> {
        let flow = self.flows.get_mut(&id)?;
        let before = flow.place();
        let result = change(flow);
        let after = flow.place();
        if before != after {
            self.bands.entry(Reverse(flow.band)).or_default().moved(id, before, after);
        }
        match (flow.idle_since, flow.is_idle()) {
            (None, true) => {
                flow.idle_since = Some(self.now);
                self.idle.insert((self.now, id));
            }
            (Some(since), false) => {
                flow.idle_since = None;
                self.idle.remove(&(since, id));
            }
            _ => {}
        }
        Some(result)
    }
}

fn row(id: u32, flow: &Flow, order: &Order, head: &Entry, now: Nanos) -> FlowRow {
    FlowRow {
        id,
        name: Arc::clone(&flow.name),
        band: flow.band,
        length: u32::try_from(flow.waiting.len()).unwrap_or(u32::MAX),
        head_age_ms: now.saturating_sub(head.since) / MILLI,
        head_cost: head.cost,
        head_rank: order.rank,
        head_deadline_ms: Some(head.deadline.saturating_sub(now) / MILLI),
        weight: flow.weight,
        inflight_tokens: flow.inflight_tokens,
        served_tokens: flow.served_tokens,
    }
}
