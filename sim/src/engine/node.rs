//! One engine as its connections share it: the scheduler, the clock that drives it, and who waits for what.

use super::args::Args;
use super::faults::Fault;
use super::kv::{self, Remote, Store};
use super::kv_events::KvEvents;
use super::records::Records;
use super::vocabulary::Vocabulary;
use crate::scheduler::{Core, Event, Gauges, LeaseState, Nanos, Request, SequenceId, Stats};
use crate::text::{Token, token_text};
use crate::web::{self, Http};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, mpsc};

/// What all connections of one engine share.
pub(super) struct Node {
    pub(super) args: Args,
    /// Absent when the simulation has tokens of its own.
    pub(super) vocabulary: Option<Vocabulary>,
    /// As the P/D protocol names this engine.
    pub(super) engine_id: String,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) records: Mutex<Records>,
    pub(super) fault: Mutex<Fault>,
    pub(super) http: Http,
    pub(super) kv_events: KvEvents,
    pub(super) store: Store,
    started: Instant,
    started_unix: Duration,
    state: Mutex<State>,
    wake: Notify,
}

struct State {
    core: Core,
    routes: HashMap<SequenceId, Route>,
    events: Vec<Event>,
}

/// Who waits for a sequence.
struct Route {
    to: mpsc::Sender<Event>,
    /// The prefill engine to be told when its blocks have been fetched.
    from: Option<Remote>,
}

impl Node {
    pub(super) fn new(
        args: Args,
        vocabulary: Option<Vocabulary>,
        address: std::net::SocketAddr,
        kv_events: KvEvents,
    ) -> Arc<Self> {
        let mut core = Core::new(args.sizes.scheduler());
        if kv_events.is_on() {
            core.keep_changes();
        }
        let started_unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unique = crate::rng::mix(started_unix.as_nanos() as u64 ^ u64::from(address.port()));
        Arc::new(Self {
            engine_id: format!("{}-{unique:016x}", args.name),
            host: address.ip().to_string(),
            port: address.port(),
            records: Mutex::new(Records::new(args.keep_records.max(1))),
            fault: Mutex::new(args.first_fault()),
            http: web::client(32),
            kv_events,
            store: Store::new(args.store.clone()),
            started: Instant::now(),
            started_unix,
            state: Mutex::new(State { core, routes: HashMap::new(), events: Vec::new() }),
            wake: Notify::new(),
            vocabulary,
            args,
        })
    }

    /// Appends a token's text to `out`.
    pub(super) fn token_text(&self, token: Token, out: &mut String) {
        match &self.vocabulary {
            Some(vocabulary) => vocabulary.words.text(token, out),
            None => token_text(token, out),
        }
    }

    /// Time since the engine started.
    pub(super) fn now(&self) -> Nanos {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(Nanos::MAX)
    }

    /// Seconds since 1970 of a moment on the engine's clock.
    pub(super) fn unix_seconds(&self, at: Nanos) -> f64 {
        self.started_unix.as_secs_f64() + at as f64 / 1e9
    }

    /// Drives the scheduler for ever.
    pub(super) async fn drive(self: Arc<Self>) {
        loop {
            let next = self.with_core(|core, _| core.next_wake());
            match next {
                None => self.wake.notified().await,
                Some(at) => {
                    let due = self.started + Duration::from_nanos(at);
                    tokio::select! {
                        () = tokio::time::sleep_until(due.into()) => {}
                        () = self.wake.notified() => {}
                    }
                }
            }
        }
    }

    /// Queues all `requests` as one unit of work; `from` says where each finds its cache, if anywhere.
    pub(super) fn start(
        self: &Arc<Self>,
        requests: Vec<Request>,
        from: Vec<Remote>,
        record: u64,
    ) -> Generation {
        // Room for every event that can come, so that the scheduler never waits for a slow client.
        let room: usize = requests.iter().map(|request| request.max_output as usize + 4).sum();
        let (to, events) = mpsc::channel(room.max(1));
        let mut state = self.state.lock();
        let now = self.now();
        self.catch_up(&mut state, now);
        let mut from = from.into_iter();
        let ids = requests
            .into_iter()
            .map(|request| {
                let id = state.core.submit(now, request);
                state.routes.insert(id, Route { to: to.clone(), from: from.next() });
                id
            })
            .collect();
        drop(state);
        self.wake.notify_one();
        Generation { node: Arc::clone(self), open: ids, events, record, first: None, output: 0, cached: 0 }
            .with_first()
    }

    /// What the engine is doing and has counted.
    pub(super) fn snapshot(&self) -> (Gauges, Stats) {
        self.with_core(|core, _| (core.gauges(), core.stats().clone()))
    }

    /// See [`Core::lease`].
    pub(super) fn lease(&self, id: &str) -> LeaseState {
        self.with_core(|core, now| core.lease(id, now))
    }

    /// See [`Core::lease_state`].
    pub(super) fn lease_state(&self, id: &str) -> LeaseState {
        self.with_core(|core, _| core.lease_state(id))
    }

    /// See [`Core::release_lease`].
    pub(super) fn release_lease(&self, id: &str) -> bool {
        let released = self.with_core(|core, now| core.release_lease(id, now));
        self.wake.notify_one();
        released
    }

    /// See [`Core::clear_cache`].
    pub(super) fn clear_cache(&self) {
        self.with_core(|core, _| core.clear_cache());
    }

    fn abort(&self, ids: &[SequenceId]) {
        let mut state = self.state.lock();
        let now = self.now();
        self.catch_up(&mut state, now);
        for id in ids {
            state.routes.remove(id);
            state.core.abort(*id, now);
        }
        drop(state);
        self.wake.notify_one();
    }

    fn with_core<T>(&self, job: impl FnOnce(&mut Core, Nanos) -> T) -> T {
        let mut state = self.state.lock();
        let now = self.now();
        self.catch_up(&mut state, now);
        let result = job(&mut state.core, now);
        self.kv_events.publish(state.core.take_changes());
        result
    }

    /// Lets the scheduler do what is due and hands out what happened.
    fn catch_up(&self, state: &mut State, now: Nanos) {
        let State { core, routes, events } = state;
        core.advance(now, events);
        // Before anybody is told what came of it, as the engine's cache is then seen to be so.
        self.kv_events.publish(core.take_changes());
        for event in events.drain(..) {
            let id = event.id();
            let Some(route) = routes.get_mut(&id) else { continue };
            if let Event::Fetched { .. } = event
                && let Some(remote) = route.from.take()
            {
                tokio::spawn(kv::release(self.http.clone(), remote));
            }
            let finished = matches!(event, Event::Finished { .. });
            // There is room; it fails only when the client has gone, and then the sequence is given up anyway.
            let _gone = route.to.try_send(event);
            if finished {
                routes.remove(&id);
            }
        }
    }
}

/// The sequences of one HTTP request. Dropping it gives up those that have not ended.
pub(super) struct Generation {
    node: Arc<Node>,
    open: Vec<SequenceId>,
    events: mpsc::Receiver<Event>,
    record: u64,
    first: Option<SequenceId>,
    output: usize,
    cached: usize,
}

impl Generation {
    fn with_first(mut self) -> Self {
        self.first = self.open.first().copied();
        self
    }

    /// The next event with the position of its sequence; `None` when all have ended.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<(usize, Event)>> {
        if self.open.is_empty() {
            return Poll::Ready(None);
        }
        match self.events.poll_recv(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Ready(Some(event)) => {
                let id = event.id();
                match &event {
                    Event::Token { .. } => self.output += 1,
                    Event::Finished { usage, .. } => {
                        self.cached += usage.cached;
                        self.open.retain(|open| *open != id);
                        if self.open.is_empty() {
                            self.note("finished");
                        }
                    }
                    Event::Fetched { .. } => {}
                }
                let position = id - self.first.unwrap_or(id);
                Poll::Ready(Some((usize::try_from(position).unwrap_or(0), event)))
            }
        }
    }

    /// As [`Generation::poll_next`], to be awaited.
    pub(super) async fn next(&mut self) -> Option<(usize, Event)> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// As [`Node::token_text`].
    pub(super) fn token_text(&self, token: Token, out: &mut String) {
        self.node.token_text(token, out);
    }

    /// Marks the request as struck by a fault.
    pub(super) fn note_fault(&self) {
        self.note("fault");
    }

    fn note(&self, outcome: &str) {
        self.node.records.lock().update(self.record, |record| {
            record.output_tokens = self.output;
            record.cached_tokens = self.cached;
            if record.outcome == "running" {
                outcome.clone_into(&mut record.outcome);
            }
        });
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        if !self.open.is_empty() {
            self.node.abort(&self.open);
            self.note("aborted");
        }
    }
}
