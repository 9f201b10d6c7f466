//! The thread of a pool on which its plugins' own instances live.
//!
//! It hears what happens to the pool's requests and, while somebody waits at the gate, lets them go as the
//! flow-control policy says. Events arrive in order and before the next `select`, so an own instance needs no
//! locks to be consistent. While nobody waits the thread rests for [`REST`] after each batch, however many
//! requests pass: handling their events together costs a fraction of waking for each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::catalog::Catalog;
use super::shadow::{Heard, Shadowing};
use crate::clock::{MILLI, Nanos, SECOND};
use crate::flow::{Controls, Gate, Limits, Room, dispatch};
use crate::policy::{CallError, Chain, EndpointView, Event, Own, OwnFactory, Plugin, Shadow, Slot};
use crate::route::Lane;
use crate::types::Arm;

/// How long the thread rests after a batch while nobody waits.
const REST: Duration = Duration::from_millis(2);
/// How long it waits without news: endpoints and policies change by themselves.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// The same while somebody waits: engines empty and recover without telling us, as far as they are asked.
const WAIT_WHILE_QUEUED: Duration = Duration::from_millis(20);
/// How often the own instances save their state.
const SAVE_EVERY: Nanos = SECOND;
/// How often shadows hear how full the pool is while nobody waits.
const IDLE_ROUNDS: Nanos = 50 * MILLI;
/// Events kept for a thread that does not keep up; what comes on top is dropped and counted.
const MAX_EVENTS: usize = 65_536;

#[derive(Debug, Default)]
struct Inbox {
    events: Vec<Event>,
    dropped: u64,
    urgent: bool,
    resting: bool,
}

/// How others reach the thread.
#[derive(Debug, Default)]
struct Signal {
    inbox: Mutex<Inbox>,
    news: Condvar,
    stop: AtomicBool,
    /// The pool under another configuration.
    lane: Mutex<Option<Arc<Lane>>>,
    /// What the own instances saved last, by plugin.
    saved: Mutex<BTreeMap<Box<str>, Vec<u8>>>,
    /// What those of another process saved, for those that have not got it yet.
    inherited: Mutex<BTreeMap<Box<str>, Vec<u8>>>,
}

impl Signal {
    /// The gate has something for the dispatcher.
    fn poke(&self) {
        let mut inbox = self.inbox.lock();
        if !inbox.urgent {
            inbox.urgent = true;
            self.news.notify_one();
        }
    }

    fn event(&self, event: Event) {
        let mut inbox = self.inbox.lock();
        if inbox.events.len() >= MAX_EVENTS {
            inbox.dropped += 1;
            return;
        }
        inbox.events.push(event);
        if inbox.events.len() == 1 && !inbox.resting {
            self.news.notify_one();
        }
    }

    /// Lets events gather for a while, unless something is urgent.
    fn rest(&self) {
        let mut inbox = self.inbox.lock();
        if inbox.urgent || self.stop.load(Ordering::Relaxed) {
            return;
        }
        inbox.resting = true;
        self.news.wait_for(&mut inbox, REST);
        inbox.resting = false;
    }

    /// Waits for news, and takes the events.
    fn wait(&self, at_most: Duration) -> Vec<Event> {
        let mut inbox = self.inbox.lock();
        if !inbox.urgent && inbox.events.is_empty() && !self.stop.load(Ordering::Relaxed) {
            self.news.wait_for(&mut inbox, at_most);
        }
        inbox.urgent = false;
        std::mem::take(&mut inbox.events)
    }
}

/// Handle of a pool's thread; dropping it ends the thread.
#[derive(Debug)]
pub struct Controller {
    gate: Arc<Gate>,
    signal: Arc<Signal>,
}

impl Controller {
    /// Starts the thread of a pool.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(
        lane: Arc<Lane>,
        catalog: Arc<Catalog>,
        shadowing: Arc<Shadowing>,
        limits: Limits,
    ) -> std::io::Result<Self> {
        let signal = Arc::new(Signal::default());
        let poked = Arc::clone(&signal);
        let gate = Gate::new(limits, Box::new(move || poked.poke()));
        let mut thread = Thread {
            lane,
            catalog,
            gate: Arc::clone(&gate),
            signal: Arc::clone(&signal),
            generation: 0,
            chain: Arc::default(),
            flow: None,
            observers: Vec::new(),
            shadowing,
            shadows: Arc::default(),
            shadowed_at: 0,
            saved_at: 0,
        };
        std::thread::Builder::new().name("pool-control".into()).spawn(move || thread.run())?;
        Ok(Self { gate, signal })
    }

    /// The pool's gate.
    #[must_use]
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// The pool has another configuration. Those who wait go on waiting, own instances stay.
    pub fn follow(&self, lane: Arc<Lane>, limits: Limits) {
        self.gate.set_limits(limits);
        *self.signal.lane.lock() = Some(lane);
        self.signal.poke();
    }

    /// What the own instances saved last, by plugin: at most a second old.
    #[must_use]
    pub fn saved(&self) -> BTreeMap<Box<str>, Vec<u8>> {
        self.signal.saved.lock().clone()
    }

    /// Gives the own instances what those of another process saved, before they hear of anything else.
    pub fn inherit(&self, saved: BTreeMap<Box<str>, Vec<u8>>) {
        *self.signal.inherited.lock() = saved;
        self.signal.poke();
    }

    /// Tells the own instances what happened.
    pub fn event(&self, event: Event) {
        self.signal.event(event);
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.signal.stop.store(true, Ordering::Relaxed);
        self.signal.poke();
    }
}

/// Failures in a row of `observe` or of `save` after which the plugin is set aside, however well its other stages
/// do: each holds this thread up, and with it all other plugins of the pool.
const STRIKES: u32 = 3;

/// An own instance, whose it is, and how often in a row its calls off the path of requests failed.
struct Owned {
    plugin: Arc<Plugin>,
    own: Box<dyn Own>,
    observe_failures: u32,
    save_failures: u32,
    select_failures: u32,
}

struct Thread {
    lane: Arc<Lane>,
    catalog: Arc<Catalog>,
    gate: Arc<Gate>,
    signal: Arc<Signal>,
    generation: u64,
    chain: Arc<Chain>,
    flow: Option<Owned>,
    observers: Vec<Owned>,
    shadowing: Arc<Shadowing>,
    /// Those of the chain that have own instances.
    shadows: Arc<[Arc<Shadow>]>,
    shadowed_at: Nanos,
    saved_at: Nanos,
}

impl Thread {
    fn run(&mut self) {
        while !self.signal.stop.load(Ordering::Relaxed) {
            let events = self.signal.wait(self.patience());
            if let Some(lane) = self.signal.lane.lock().take() {
                self.lane = lane;
                self.generation = 0;
            }
            self.follow_swaps();
            self.inherit();
            if !events.is_empty() {
                self.observe(&events.into());
            }
            self.gate.expire(self.lane.clock.now());
            while self.dispatch() {}
            self.save();
            if !self.gate.anybody_waits() {
                self.signal.rest();
            }
        }
        self.gate.close();
    }

    fn patience(&self) -> Duration {
        if self.gate.anybody_waits() { WAIT_WHILE_QUEUED } else { LONGEST_WAIT }
    }

    fn dispatch(&mut self) -> bool {
        let standing = self.lane.standing(&self.chain);
        let state = self.lane.state_of(&standing);
        self.gate.set_capacity(state.kv_tokens);
        // Before anybody goes: where they go shows in the loads.
        let seen = self.shadows_listen().then(|| standing.freeze());
        let endpoints: Arc<dyn EndpointView> = standing;
        let controls = self.flow.as_mut().map(|owned| Controls {
            own: &mut *owned.own,
            plugin: &owned.plugin,
            unselected: &mut owned.select_failures,
        });
        let room = Room { endpoints: &endpoints, answering: state.answering, requests: state.room };
        let round = dispatch(&self.gate, controls, &room, &*self.lane.clock);
        self.lane.pool.set_lets_in_to(self.gate.ceiling());
        let went = round.went > 0;
        if let Some(seen) = seen {
            self.shadowing.hear(&self.lane.pool.name, &self.shadows, Heard::Round(round, seen));
        }
        went
    }

    /// Whether shadows hear of the next round: of each while somebody waits.
    fn shadows_listen(&mut self) -> bool {
        if !self.shadows.iter().any(|shadow| shadow.stages.flow.is_some()) {
            return false;
        }
        let now = self.lane.clock.now();
        let due = self.gate.anybody_waits() || now.saturating_sub(self.shadowed_at) >= IDLE_ROUNDS;
        if due {
            self.shadowed_at = now;
        }
        due
    }

    fn observe(&mut self, events: &Arc<[Event]>) {
        if !self.shadows.is_empty() {
            self.shadowing.hear(&self.lane.pool.name, &self.shadows, Heard::Events(Arc::clone(events)));
        }
        let now = self.lane.clock.now();
        for owned in self.usable(now) {
            let answer = owned.own.observe(events);
            judge(&owned.plugin, "observer", &mut owned.observe_failures, answer, now);
        }
    }

    fn save(&mut self) {
        let now = self.lane.clock.now();
        if now.saturating_sub(self.saved_at) < SAVE_EVERY {
            return;
        }
        self.saved_at = now;
        let signal = Arc::clone(&self.signal);
        for owned in self.usable(now) {
            let saved = owned.own.save().map(|state| {
                let Some(state) = state.filter(|_| owned.plugin.arm == Arm::BASE) else { return };
                signal.saved.lock().insert(owned.plugin.name.clone(), state);
            });
            judge(&owned.plugin, "handoff", &mut owned.save_failures, saved, now);
        }
    }

    /// Gives own instances the state that is waiting for them.
    fn inherit(&mut self) {
        let signal = Arc::clone(&self.signal);
        let mut inherited = signal.inherited.lock();
        if inherited.is_empty() {
            return;
        }
        let now = self.lane.clock.now();
        for owned in self.usable(now).filter(|owned| owned.plugin.arm == Arm::BASE) {
            if let Some(state) = inherited.remove(&owned.plugin.name)
                && let Err(error) = owned.own.restore(&state)
            {
                tracing::warn!(plugin = &*owned.plugin.name, %error, "the state from before the restart is refused");
            }
        }
        // Who is not there now began without it.
        inherited.clear();
    }

    fn usable(&mut self, now: Nanos) -> impl Iterator<Item = &mut Owned> {
        let all = self.flow.iter_mut().chain(&mut self.observers);
        all.filter(move |owned| owned.plugin.health.usable(now))
    }

    /// Makes own instances of what a swap brought, with the state of what they replace.
    fn follow_swaps(&mut self) {
        let set = self.catalog.current();
        if set.generation == self.generation {
            return;
        }
        self.generation = set.generation;
        let pool = &self.lane.pool;
        self.chain = set.controlling(&pool.name, &pool.chain);
        let observers = set.observing(&pool.name, &pool.chain);
        let chain = Arc::clone(&self.chain);
        let mut old: BTreeMap<(Box<str>, Arm), Owned> = self
            .flow
            .take()
            .into_iter()
            .chain(std::mem::take(&mut self.observers))
            .map(|owned| ((owned.plugin.name.clone(), owned.plugin.arm), owned))
            .collect();
        let now = self.lane.clock.now();
        self.flow = chain.flow_own.as_ref().and_then(|slot| succeed(slot, &mut old, now));
        self.observers = observers.iter().filter_map(|slot| succeed(slot, &mut old, now)).collect();
        self.shadows = chain.shadows.iter().filter(|shadow| shadow.stages.own.is_some()).cloned().collect();
    }
}

/// Counts how a call off the path of requests went.
fn judge(plugin: &Plugin, stage: &str, in_a_row: &mut u32, answer: Result<(), CallError>, now: Nanos) {
    let Err(error) = answer else {
        *in_a_row = 0;
        return;
    };
    *in_a_row += 1;
    let set_aside =
        plugin.health.failed(error.reason, now) || (*in_a_row >= STRIKES && plugin.health.set_aside(now));
    tracing::warn!(plugin = &*plugin.name, stage, %error, set_aside, "plugin call failed");
}

/// The own instance for a slot: the one that is there if its plugin is the same, else a new one with its state.
fn succeed(
    slot: &Slot<dyn OwnFactory>,
    old: &mut BTreeMap<(Box<str>, Arm), Owned>,
    now: Nanos,
) -> Option<Owned> {
    let plugin = Arc::clone(&slot.plugin);
    let predecessor = old.remove(&(plugin.name.clone(), plugin.arm));
    if let Some(owned) = predecessor.as_ref()
        && Arc::ptr_eq(&owned.plugin, &plugin)
    {
        return predecessor;
    }
    let mut own = match slot.policy.own() {
        Ok(own) => own,
        Err(error) => {
            plugin.health.failed(error.reason, now);
            tracing::error!(plugin = &*plugin.name, %error, "no own instance; its stages take their defaults");
            return None;
        }
    };
    let state = predecessor.and_then(|mut owned| owned.own.save().ok().flatten());
    if let Some(state) = state
        && let Err(error) = own.restore(&state)
    {
        tracing::warn!(plugin = &*plugin.name, %error, "the state of the version before is refused; it starts clean");
    }
    Some(Owned { plugin, own, observe_failures: 0, save_failures: 0, select_failures: 0 })
}
