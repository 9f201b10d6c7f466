//! The gate of one pool: the queue, its bounds, and the fast way through.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::queue::{Entry, Full, Outcome, Queue, Ticket, Waiter};
use crate::clock::Nanos;
use crate::policy::{Flows, Placement};

/// Bounds of a pool's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests that may wait.
    pub max_requests: usize,
    /// Bytes of their bodies.
    pub max_bytes: usize,
}

/// A request on its way through the gate.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Where the policy puts it.
    pub placement: &'a Placement,
    /// Bytes that it keeps while it waits.
    pub bytes: usize,
    /// When its wait ends.
    pub deadline: Nanos,
    /// Whether there is an endpoint to go to at all.
    pub open: bool,
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

/// The state of a gate, for metrics and the admin API.
#[derive(Debug, Clone, PartialEq)]
pub struct GateStatus {
    /// Requests that wait, by band.
    pub waiting: Vec<(i32, usize)>,
    /// Bytes that they keep.
    pub bytes: usize,
    /// The pool's saturation as last asked.
    pub saturation: f32,
    /// Requests that passed and are not done.
    pub running: usize,
}

/// The gate of one pool.
pub struct Gate {
    queue: Mutex<Queue>,
    limits: Limits,
    saturation: AtomicU32,
    waiting: AtomicUsize,
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
            limits,
            saturation: AtomicU32::new(0),
            waiting: AtomicUsize::new(0),
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
        let id = queue.flow(placement);
        let free =
            place.open && !queue.waits_at_or_above(placement.band) && self.saturation() < placement.ceiling;
        if free {
            queue.started(id, placement.cost);
            drop(queue);
            return Entered::Go(self.pass(id, placement.cost));
        }
        let mut displaced = None;
        if let Some(full) = self.full(&queue, place.bytes) {
            match queue.displace(placement.band) {
                None => {
                    queue.forget_if_idle(id);
                    return Entered::Full(full);
                }
                Some(entry) => displaced = Some(entry.waiter),
            }
        }
        let entry = Entry {
            waiter: waiter(),
            since: now,
            deadline: place.deadline,
            bytes: place.bytes,
            cost: placement.cost,
            ceiling: placement.ceiling,
        };
        let ticket = queue.push(id, placement.rank, entry);
        self.waiting.store(queue.len(), Ordering::Relaxed);
        drop(queue);
        if let Some(waiter) = displaced {
            waiter(Outcome::Displaced);
        }
        (self.poke)();
        match ticket {
            Some(ticket) => Entered::Waits(Waiting { gate: Arc::clone(self), ticket }),
            None => Entered::Full(Full::Requests),
        }
    }

    /// Who may be chosen now.
    pub(super) fn flows(&self, now: Nanos) -> Flows {
        self.queue.lock().snapshot(now, self.saturation())
    }

    /// Lets the first request of each of these flows go; says how many went.
    pub(super) fn release(self: &Arc<Self>, flows: &[u32]) -> usize {
        let mut queue = self.queue.lock();
        let released: Vec<_> =
            flows.iter().filter_map(|id| queue.start_first(*id).map(|entry| (*id, entry))).collect();
        self.waiting.store(queue.len(), Ordering::Relaxed);
        drop(queue);
        let count = released.len();
        for (flow, entry) in released {
            (entry.waiter)(Outcome::Go(self.pass(flow, entry.cost)));
        }
        count
    }

    /// Ends the wait of those whose time is up; says when the next one's is.
    pub fn expire(&self, now: Nanos) -> Option<Nanos> {
        let mut queue = self.queue.lock();
        let expired = queue.expired(now);
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
        self.closed.store(true, Ordering::Relaxed);
        let waiting = self.queue.lock().drain();
        self.waiting.store(0, Ordering::Relaxed);
        for entry in waiting {
            (entry.waiter)(Outcome::ShuttingDown);
        }
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

    /// The saturation that the fast way goes by.
    #[must_use]
    pub fn saturation(&self) -> f32 {
        f32::from_bits(self.saturation.load(Ordering::Relaxed))
    }

    /// Sets the saturation that the fast way goes by.
    pub fn set_saturation(&self, saturation: f32) {
        self.saturation.store(saturation.to_bits(), Ordering::Relaxed);
    }

    /// The state, for metrics and the admin API.
    #[must_use]
    pub fn status(&self) -> GateStatus {
        let queue = self.queue.lock();
        GateStatus {
            waiting: queue.waiting_by_band(),
            bytes: queue.bytes(),
            saturation: self.saturation(),
            running: self.running.load(Ordering::Relaxed),
        }
    }

    fn pass(self: &Arc<Self>, flow: u32, cost: u32) -> Pass {
        self.unsettled.fetch_add(1, Ordering::Relaxed);
        self.running.fetch_add(1, Ordering::Relaxed);
        Pass { gate: Arc::clone(self), flow, cost, served: 0, settled: false }
    }

    fn full(&self, queue: &Queue, bytes: usize) -> Option<Full> {
        if queue.len() >= self.limits.max_requests {
            Some(Full::Requests)
        } else if queue.bytes() + bytes > self.limits.max_bytes {
            Some(Full::Bytes)
        } else {
            None
        }
    }
}

/// A place in the queue. Dropping it leaves the queue at once.
#[derive(Debug)]
pub struct Waiting {
    gate: Arc<Gate>,
    ticket: Ticket,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut queue = self.gate.queue.lock();
        let left = queue.remove(self.ticket);
        self.gate.waiting.store(queue.len(), Ordering::Relaxed);
        drop(queue);
        drop(left);
    }
}

/// A request that passed the gate. Dropping it makes room for the next.
#[derive(Debug)]
pub struct Pass {
    gate: Arc<Gate>,
    flow: u32,
    cost: u32,
    served: u64,
    settled: bool,
}

impl Pass {
    /// The flow's handle.
    #[must_use]
    pub fn flow(&self) -> u32 {
        self.flow
    }

    /// An endpoint is reserved: from now on the load shows the request.
    pub fn settled(&mut self) {
        if !self.settled {
            self.settled = true;
            self.gate.unsettled.fetch_sub(1, Ordering::Relaxed);
            self.gate.poke_if_waiting();
        }
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
        self.gate.queue.lock().finished(self.flow, self.cost, self.served);
        self.gate.poke_if_waiting();
    }
}

impl Gate {
    fn poke_if_waiting(&self) {
        if self.anybody_waits() {
            (self.poke)();
        }
    }
}
