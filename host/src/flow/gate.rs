//! The gate of one pool: the queue, its bounds, and the fast way through.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::band::Entry;
use super::limits::{Amount, Full, Limits};
use super::queue::{Queue, Taken, Ticket};
use super::sessions::Claim;
use super::status::{GateStatus, Standing};
use crate::clock::{MILLI, Nanos};
use crate::policy::{Flows, Placement};

/// What a waiting request is told.
#[derive(Debug)]
pub enum Outcome {
    /// It goes, with this pass.
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

/// A request on its way through the gate.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Where the policy puts it.
    pub placement: &'a Placement,
    /// Bytes that it keeps while it waits.
    pub bytes: usize,
    /// Tokens of its prompt.
    pub tokens: u32,
    /// What it claims of the caches for its session.
    pub claim: Option<Claim>,
    /// When its wait ends.
    pub deadline: Nanos,
    /// Whether there is an endpoint to go to at all.
    pub open: bool,
}

impl Place<'_> {
    fn amount(&self) -> Amount {
        Amount { requests: 1, bytes: self.bytes, tokens: self.tokens.into() }
    }
}

/// What happened at the gate.
pub enum Entered {
    /// It goes.
    Go(Pass),
    /// It waits; its waiter will be told.
    Waits(Waiting),
    /// It is refused.
    Full(Full),
}

/// Who waits for less is not kept waiting for the policy while there is room.
const ANSWER: Nanos = 100 * MILLI;

/// The gate of one pool.
pub struct Gate {
    queue: Mutex<Queue>,
    limits: ArcSwap<Limits>,
    saturation: AtomicU32,
    waiting: AtomicUsize,
    /// Requests that may still go by the fast way before the saturation is asked for again.
    room: AtomicUsize,
    /// Passed, but not yet reserved an endpoint: the load does not show them yet.
    unsettled: AtomicUsize,
    running: AtomicUsize,
    closed: AtomicBool,
    /// Called when the dispatcher has something to do.
    poke: Box<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").field("status", &self.status()).finish()
    }
}

impl Gate {
    /// An empty gate. `poke` is called when somebody waits and something changed; it must be quick.
    #[must_use]
    pub fn new(limits: Limits, poke: Box<dyn Fn() + Send + Sync>) -> Arc<Self> {
        Arc::new(Self {
            queue: Mutex::default(),
            limits: ArcSwap::from_pointee(limits),
            saturation: AtomicU32::new(0),
            waiting: AtomicUsize::new(0),
            room: AtomicUsize::new(usize::MAX),
            unsettled: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            poke,
        })
    }

    /// Lets a request through, or makes it wait, or refuses it.
    pub fn enter(self: &Arc<Self>, place: Place<'_>, now: Nanos, waiter: impl FnOnce() -> Waiter) -> Entered {
        let placement = place.placement;
        let mut queue = self.queue.lock();
        queue.at(now);
        let id = queue.flow(placement);
        let taken = Taken { flow: id, band: placement.band, cost: placement.cost, claim: place.claim };
        let free = place.open
            && !queue.waits_at_or_above(placement.band)
            && self.saturation() < placement.ceiling
            && queue.fits(place.claim, 0)
            && !self.is_to_be_asked(&queue, id, &place, now)
            && self.take_room();
        if free {
            queue.started(taken, 0);
            drop(queue);
            return Entered::Go(self.pass(taken));
        }
        let displaced = match queue.make_room(id, place.amount(), &self.limits.load()) {
            Ok(displaced) => displaced,
            Err(full) => return Entered::Full(full),
        };
        let standing = queue.standing(id);
        let entry = Entry {
            waiter: waiter(),
            since: now,
            deadline: place.deadline,
            amount: place.amount(),
            cost: placement.cost,
            ceiling: placement.ceiling,
            claim: place.claim,
        };
        // A closed gate has told everybody; who comes after must not wait for ever.
        let ticket = if self.closed.load(Ordering::Relaxed) {
            (entry.waiter)(Outcome::ShuttingDown);
            None
        } else {
            queue.push(id, placement.rank, entry)
        };
        self.waiting.store(queue.len(), Ordering::Relaxed);
        drop(queue);
        for entry in displaced {
            (entry.waiter)(Outcome::Displaced);
        }
        (self.poke)();
        Entered::Waits(Waiting { gate: Arc::clone(self), ticket, standing })
    }

    /// Whether the policy is asked about a request that could go: its flow has more under way than there is room, and it
    /// may wait for the answer.
    fn is_to_be_asked(&self, queue: &Queue, id: u32, place: &Place<'_>, now: Nanos) -> bool {
        queue.is_greedy(id, self.room.load(Ordering::Relaxed))
            && place.deadline.saturating_sub(now) >= ANSWER
            && queue.full(id, place.amount(), &self.limits.load()).is_none()
    }

    /// Bounds the queue so from now on. Whoever waits already goes on waiting.
    pub fn set_limits(&self, limits: Limits) {
        if **self.limits.load() != limits {
            self.limits.store(Arc::new(limits));
        }
    }

    /// Where a request of this placement would stand that came now.
    pub fn standing(&self, placement: &Placement, now: Nanos) -> Standing {
        let mut queue = self.queue.lock();
        queue.at(now);
        let id = queue.flow(placement);
        queue.standing(id)
    }

    /// Who may be chosen now, `most` flows at most.
    pub(super) fn flows(&self, now: Nanos, most: usize) -> Flows {
        let mut queue = self.queue.lock();
        queue.at(now);
        queue.snapshot(self.saturation(), most)
    }

    /// Lets the first request of each of these flows go; says how many went.
    pub(super) fn release(self: &Arc<Self>, flows: &[u32]) -> usize {
        let mut queue = self.queue.lock();
        let released: Vec<_> = flows.iter().filter_map(|id| queue.start_first(*id)).collect();
        self.waiting.store(queue.len(), Ordering::Relaxed);
        drop(queue);
        let count = released.len();
        for (entry, taken) in released {
            (entry.waiter)(Outcome::Go(self.pass(taken)));
        }
        count
    }

    /// Ends the wait of those whose time is up; says when the next one's is.
    pub fn expire(&self, now: Nanos) -> Option<Nanos> {
        let mut queue = self.queue.lock();
        queue.at(now);
        let expired = queue.expired();
        let next = queue.next_deadline();
        self.waiting.store(queue.len(), Ordering::Relaxed);
        drop(queue);
        for entry in expired {
            (entry.waiter)(Outcome::Expired);
        }
        next
    }

    /// Sends everybody away; nobody waits from now on.
    pub fn close(&self) {
        let mut queue = self.queue.lock();
        self.closed.store(true, Ordering::Relaxed);
        let waiting = queue.drain();
        self.waiting.store(0, Ordering::Relaxed);
        drop(queue);
        for entry in waiting {
            (entry.waiter)(Outcome::ShuttingDown);
        }
    }

    /// Whether it lets nobody wait any more: the process shuts down.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Whether anybody waits.
    #[must_use]
    pub fn anybody_waits(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Requests that passed and have not reserved an endpoint yet.
    #[must_use]
    pub fn unsettled(&self) -> usize {
        self.unsettled.load(Ordering::Relaxed)
    }

    /// How full the pool may be for those who wait to be let in; none while nobody waits.
    #[must_use]
    pub fn ceiling(&self) -> Option<f32> {
        if self.anybody_waits() { self.queue.lock().ceiling() } else { None }
    }

    /// The saturation that the fast way goes by.
    #[must_use]
    pub fn saturation(&self) -> f32 {
        f32::from_bits(self.saturation.load(Ordering::Relaxed))
    }

    /// Sets the saturation that the fast way goes by, and how many requests may do so before it is set again.
    pub fn set_saturation(&self, saturation: f32, room: usize) {
        self.saturation.store(saturation.to_bits(), Ordering::Relaxed);
        self.room.store(room, Ordering::Relaxed);
    }

    /// Sets how many tokens of sessions' contexts the caches hold; none where that is not known.
    pub fn set_capacity(&self, tokens: Option<u64>) {
        self.queue.lock().sessions.set_capacity(tokens);
    }

    /// The state, for metrics and the admin API.
    #[must_use]
    pub fn status(&self) -> GateStatus {
        GateStatus {
            saturation: self.saturation(),
            running: self.running.load(Ordering::Relaxed),
            ..self.queue.lock().status()
        }
    }

    fn take_room(&self) -> bool {
        self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| room.checked_sub(1)).is_ok()
    }

    fn pass(self: &Arc<Self>, taken: Taken) -> Pass {
        self.unsettled.fetch_add(1, Ordering::Relaxed);
        self.running.fetch_add(1, Ordering::Relaxed);
        Pass { gate: Arc::clone(self), taken, served: 0, settled: false }
    }

    fn poke_if_waiting(&self) {
        if self.anybody_waits() {
            (self.poke)();
        }
    }
}

/// A place in the queue. Dropping it leaves the queue at once.
#[derive(Debug)]
pub struct Waiting {
    gate: Arc<Gate>,
    /// None when the gate was closed already.
    ticket: Option<Ticket>,
    standing: Standing,
}

impl Waiting {
    /// Where it stood when it came.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.standing
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut queue = self.gate.queue.lock();
        let left = queue.remove(ticket);
        self.gate.waiting.store(queue.len(), Ordering::Relaxed);
        drop(queue);
        drop(left);
    }
}

/// A request that passed the gate. Dropping it makes room for the next.
#[derive(Debug)]
pub struct Pass {
    gate: Arc<Gate>,
    taken: Taken,
    served: u64,
    settled: bool,
}

impl Pass {
    /// The flow's handle.
    #[must_use]
    pub fn flow(&self) -> u32 {
        self.taken.flow
    }

    /// An endpoint is reserved: from now on the load shows the request.
    pub fn settled(&mut self) {
        if !self.settled {
            self.settled = true;
            self.gate.unsettled.fetch_sub(1, Ordering::Relaxed);
            self.gate.poke_if_waiting();
        }
    }

    /// The band that it was placed in.
    #[must_use]
    pub fn band(&self) -> i32 {
        self.taken.band
    }

    /// Tokens that the request used, for its flow's account.
    pub fn served(&mut self, tokens: u64) {
        self.served = tokens;
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if !self.settled {
            self.gate.unsettled.fetch_sub(1, Ordering::Relaxed);
        }
        self.gate.running.fetch_sub(1, Ordering::Relaxed);
        self.gate.queue.lock().finished(self.taken, self.served);
        self.gate.poke_if_waiting();
    }
}
