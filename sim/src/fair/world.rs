//! The course of a run: whatever is due first happens next.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::path::PathBuf;

use bytes::Bytes;
use sluicegate::flow::Pass;
use sluicegate::policy::EventKind;
use sluicegate::types::Api;

use super::clients::{Ask, Client};
use super::queue::{Fate, Passed, Queue};
use super::report::{Outcome, Tally};
use super::scenarios::FairError;
use crate::replay::engines::Engines;
use crate::replay::router::{Layout, Router, Sent};
use crate::replay::tokens;
use crate::scheduler::{Config, Event, Nanos, SequenceId, Transfer};
use crate::text::token_text;

/// Time between two readings of the engines: what the router takes while they are busy.
const READING: Nanos = 200_000_000;
/// Time between two looks at the queue while nothing else happens.
const LOOK: Nanos = 20_000_000;

/// One run.
pub(super) struct Run {
    pub(super) name: &'static str,
    pub(super) config: Option<PathBuf>,
    pub(super) clients: Vec<Client>,
    pub(super) seconds: f64,
    /// How long a request may wait.
    pub(super) ttl: Nanos,
}

struct Running {
    ask: Ask,
    came: Nanos,
    first: Option<Nanos>,
    sent: Sent,
    pass: Pass,
    text: String,
    output: u32,
}

pub(super) struct World {
    router: Router,
    queue: Queue,
    engines: Engines,
    clients: Vec<Client>,
    due: BinaryHeap<Reverse<(Nanos, u64)>>,
    asks: HashMap<u64, (Ask, Nanos)>,
    running: HashMap<(usize, SequenceId), Running>,
    tally: Tally,
    next: u64,
    seed: u64,
}

impl World {
    pub(super) fn new(
        run: &Run,
        engines: usize,
        scheduler: Config,
        plugins: Option<PathBuf>,
        seed: u64,
    ) -> Result<Self, FairError> {
        let layout = Layout { engines, prefill: 0, hand_over: false };
        let router = Router::new(layout, run.config.clone(), plugins)?;
        let mut world = Self {
            queue: Queue::new(&router, run.ttl),
            router,
            engines: Engines::new(engines, scheduler),
            clients: run.clients.clone(),
            due: BinaryHeap::new(),
            asks: HashMap::new(),
            running: HashMap::new(),
            tally: Tally::new(run.name, run.seconds),
            next: 0,
            seed,
        };
        for (n, client) in run.clients.iter().enumerate() {
            for (at, ask) in client.begin(n, run.seconds, seed) {
                world.ask(at, ask);
            }
        }
        Ok(world)
    }

    fn ask(&mut self, at: Nanos, ask: Ask) {
        self.due.push(Reverse((at, self.next)));
        self.asks.insert(self.next, (ask, at));
        self.next += 1;
    }

    pub(super) fn run(mut self) -> Result<Outcome, FairError> {
        let (mut reading, mut look) = (0, 0);
        loop {
            let ask = self.due.peek().map(|Reverse((at, _))| *at);
            let waits = (!self.queue.is_empty()).then_some(look);
            let Some(due) = [self.engines.next_wake(), ask, waits].into_iter().flatten().min() else { break };
            let now = due.min(reading.max(self.router.now().saturating_sub(1)));
            self.router.at(now + 1);
            if now >= reading {
                self.router.read(self.engines.read());
                reading = now + READING;
            }
            for (engine, event) in self.engines.advance(now) {
                self.happened(engine, event);
            }
            while let Some(Reverse((at, number))) =
                self.due.peek().copied().filter(|Reverse((at, _))| *at <= now)
            {
                self.due.pop();
                self.enter(number, at, now)?;
            }
            self.work(now)?;
            look = now + LOOK;
        }
        let preemptions = self.engines.read().map(|reading| reading.preemptions).sum();
        Ok(self.tally.outcome(preemptions, self.asks.len()))
    }

    fn enter(&mut self, number: u64, at: Nanos, now: Nanos) -> Result<(), FairError> {
        let Some((ask, _)) = self.asks.get(&number) else { return Ok(()) };
        let Some(client) = self.clients.get(ask.client) else { return Ok(()) };
        let session = ask.session.map(|(session, _)| format!("session-{session}"));
        let mut request = self.router.request(Api::Completions, Bytes::from(ask.body()), number, session)?;
        request.flow = client.flow.as_str().into();
        self.tally.came(client, at);
        match self.queue.enter(&self.router, number, request) {
            Some(fate) => self.settle(number, fate, now),
            None => Ok(()),
        }
    }

    fn work(&mut self, now: Nanos) -> Result<(), FairError> {
        loop {
            let fates = self.queue.round(&self.router);
            if fates.is_empty() {
                return Ok(());
            }
            for (number, fate) in fates {
                self.settle(number, fate, now)?;
            }
        }
    }

    fn settle(&mut self, number: u64, fate: Fate, now: Nanos) -> Result<(), FairError> {
        let Some((ask, came)) = self.asks.remove(&number) else { return Ok(()) };
        let Some(client) = self.clients.get(ask.client) else { return Ok(()) };
        let Passed { request, mut pass, estimate } = match fate {
            Fate::Goes(passed) => passed,
            Fate::Refused { retry_after_s } => {
                self.tally.refused(client, retry_after_s);
                return Ok(());
            }
        };
        if let Some((estimate, waited)) = estimate {
            self.tally.estimated(estimate, waited);
        }
        let sent = self.router.choose(request)?;
        pass.settled();
        self.queue.event(EventKind::Dispatched, &sent, &pass, now, 0, None);
        let engine = sent.engine;
        let prompt = tokens(Api::Completions, &ask.body())?;
        let output = ask.output_tokens;
        if let Some(id) = self.engines.submit(engine, now, prompt, output, Transfer::None) {
            let running = Running { ask, came, first: None, sent, pass, text: String::new(), output: 0 };
            self.running.insert((engine, id), running);
        }
        Ok(())
    }

    fn happened(&mut self, engine: usize, event: Event) {
        let key = (engine, event.id());
        match event {
            Event::Fetched { .. } => {}
            Event::Token { token, at, .. } => {
                let Some(running) = self.running.get_mut(&key) else { return };
                token_text(token, &mut running.text);
                running.output += 1;
                if running.first.is_none() {
                    running.first = Some(at);
                    self.queue.event(EventKind::FirstToken, &running.sent, &running.pass, at, 0, None);
                }
                self.router.token(&mut running.sent, at + 1);
            }
            Event::Finished { usage, at, .. } => {
                let Some(running) = self.running.remove(&key) else { return };
                let Running { ask, came, first, sent, mut pass, text, output } = running;
                let count = |tokens: usize| u32::try_from(tokens).unwrap_or(u32::MAX);
                let (prompt, cached) = (count(usage.prompt), count(usage.cached));
                self.queue.event(EventKind::Completed, &sent, &pass, at, output, Some(cached));
                pass.served(u64::from(prompt) + u64::from(output));
                drop(pass);
                self.router.done(sent, at + 1, prompt, cached, output);
                if let Some(client) = self.clients.get(ask.client) {
                    self.tally.answered(
                        client,
                        &ask,
                        came,
                        first.unwrap_or(at),
                        at,
                        (prompt, cached, output),
                    );
                }
                if let Some((pause, next)) = ask.next(&text, self.seed) {
                    self.ask(at + pause, next);
                }
            }
        }
    }
}
