//! The course of a run: whatever is due first happens next.

use super::args::{Args, By};
use super::cache_aware::CacheAware;
use super::engines::Engines;
use super::router::{Layout, Router, Sent};
use crate::load::{Conversation, Report, Sample, Trace, TraceError, Workload};
use crate::rng::{Rng, mix};
use crate::scheduler::{Event, Nanos, SequenceId, Transfer};
use crate::text::{Token, chat, completion, token_text};
use bytes::Bytes;
use sluicegate::config::ConfigErrors;
use sluicegate::plugin::engine::RuntimeError;
use sluicegate::types::Api;
use std::collections::HashMap;
use std::time::Duration;

/// The model that all engines serve.
pub(crate) const MODEL: &str = "sim";
/// Time between two readings of the engines' metrics: what the router takes by default.
const READING: Nanos = 1_000_000_000;

/// Why nothing could be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The recorded traffic cannot be used.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The router's configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// Plugins cannot run here.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// There is no place for what a router keeps from run to run.
    #[error("cannot make a temporary directory: {0}; set TMPDIR to one that can be written")]
    State(std::io::Error),
    /// A request that the router would have refused.
    #[error("a request is refused: {0}")]
    Refused(String),
    /// More engines than there are addresses, or none that decodes.
    #[error("there should be 1 to 60000 engines, and fewer that prefill for others or join later")]
    TooMany,
}

/// A request under way.
struct Running {
    sent: Sent,
    conversation: Conversation,
    /// What another engine keeps for it, where its prompt is computed elsewhere.
    kept: Kept,
    begun: Nanos,
    first: Option<Nanos>,
    text: String,
}

/// Blocks at an engine that computes a prompt for another.
struct Kept {
    engine: usize,
    name: String,
    prompt: Vec<Token>,
}

struct Replay<'a> {
    args: &'a Args,
    router: Router,
    cache_aware: CacheAware,
    engines: Engines,
    workload: Workload,
    running: HashMap<(usize, SequenceId), Running>,
    samples: Vec<Sample>,
    given: u64,
    limit: u64,
    deadline: Option<Nanos>,
    /// Closed loop: senders without a request.
    idle: usize,
}

/// Runs the traffic to its end.
///
/// # Errors
/// When the flags describe nothing that can be run.
pub fn replay(args: &Args) -> Result<Report, ReplayError> {
    if !(1..=60_000).contains(&args.engines) || args.prefill.max(args.joining) >= args.engines {
        return Err(ReplayError::TooMany);
    }
    let layout = Layout { engines: args.engines, prefill: args.prefill, hand_over: args.hand_over };
    let traffic = &args.traffic;
    let trace = traffic.trace.as_deref().map(Trace::read).transpose()?;
    let mut replay = Replay {
        args,
        router: Router::new(layout, args.config.clone(), args.plugins.clone())?,
        cache_aware: CacheAware::new(args.engines),
        engines: Engines::new(args.engines, args.sizes.scheduler()),
        workload: Workload::new(traffic, trace),
        running: HashMap::new(),
        samples: Vec::new(),
        given: 0,
        limit: traffic.limit(),
        deadline: traffic.duration.map(nanos),
        idle: 0,
    };
    let end = replay.run()?;
    Ok(Report::new(&replay.samples, Duration::from_nanos(end)))
}

impl Replay<'_> {
    /// The time at which the last answer ended.
    fn run(&mut self) -> Result<Nanos, ReplayError> {
        let mut arrivals = Arrivals::new(self.args);
        let mut reading = 0;
        let mut joining = self.hold_back();
        let mut now = 0;
        loop {
            let due = [self.engines.next_wake(), arrivals.next()].into_iter().flatten().min();
            let Some(due) = due.filter(|_| !self.over() || !self.running.is_empty()) else { return Ok(now) };
            now = due.min(reading).max(now);
            self.router.at(now + 1);
            if joining.take_if(|at| now >= *at).is_some() {
                self.router.know_all_but(0);
            }
            if now >= reading {
                self.router.read(self.engines.read());
                reading = now + READING;
            }
            for (engine, event) in self.engines.advance(now) {
                self.happened(engine, event, now)?;
            }
            while arrivals.next().is_some_and(|at| at <= now) {
                arrivals.arrived();
                match self.args.traffic.rate {
                    Some(_) => self.begin(now)?,
                    None => {
                        self.idle += 1;
                        self.fill(now)?;
                    }
                }
            }
            if self.over() {
                arrivals.end();
            }
        }
    }

    /// Leaves out the engines that join later; when they do.
    fn hold_back(&self) -> Option<Nanos> {
        if self.args.joining == 0 || self.args.by != By::Router {
            return None;
        }
        self.router.know_all_but(self.args.joining);
        Some(nanos(self.args.joining_after))
    }

    fn over(&self) -> bool {
        self.given >= self.limit || self.workload.is_over(self.running.len())
    }

    /// Gives requests to senders that have none.
    fn fill(&mut self, now: Nanos) -> Result<(), ReplayError> {
        while self.idle > 0 && self.begin_next(now)? {
            self.idle -= 1;
        }
        Ok(())
    }

    fn begin(&mut self, now: Nanos) -> Result<(), ReplayError> {
        self.begin_next(now).map(|_| ())
    }

    /// Begins the next request; whether there was one.
    fn begin_next(&mut self, now: Nanos) -> Result<bool, ReplayError> {
        if self.given >= self.limit || self.deadline.is_some_and(|deadline| now >= deadline) {
            self.limit = self.given;
            return Ok(false);
        }
        let Some(conversation) = self.workload.take() else { return Ok(false) };
        let number = self.given;
        self.given += 1;
        let api = match self.args.traffic.api {
            crate::load::Api::Chat => Api::Chat,
            crate::load::Api::Completions => Api::Completions,
        };
        let body = conversation.body(self.args.traffic.api, true, MODEL);
        let tokens = tokens(api, &body)?;
        let body = Bytes::from(body);
        let session = self.workload.has_sessions().then(|| format!("session-{}", conversation.id));
        let sent = match self.args.by {
            By::Router => self.router.send(api, body, number, session)?,
            By::RoundRobin => {
                let engine = usize::try_from(number).unwrap_or(0) % self.engines.len();
                self.router.send_to(engine, api, body, number)?
            }
            By::CacheAware => {
                let engine = self.cache_aware.choose(&tokens);
                self.router.send_to(engine, api, body, number)?
            }
        };
        let (name, output) = (format!("replay-{number}"), conversation.output_tokens());
        let (engine, output, transfer) = match &sent.ahead {
            None => (sent.engine, output, Transfer::None),
            Some(ahead) => (ahead.engine, 1, Transfer::Export(name.clone())),
        };
        let prompt = if sent.ahead.is_some() { tokens.clone() } else { Vec::new() };
        let id = self.engines.submit(engine, now, tokens, output, transfer);
        let kept = Kept { engine, name, prompt };
        let running = Running { sent, conversation, kept, begun: now, first: None, text: String::new() };
        if let Some(id) = id {
            self.running.insert((engine, id), running);
        }
        Ok(true)
    }

    /// The prompt of a request has been computed elsewhere: now its decode begins.
    fn hand_over(&mut self, mut running: Running, now: Nanos) {
        self.router.handed_over(&mut running.sent, now + 1);
        let prompt = std::mem::take(&mut running.kept.prompt);
        let (engine, output) = (running.sent.engine, running.conversation.output_tokens());
        if let Some(id) = self.engines.submit(engine, now, prompt, output, Transfer::Import) {
            self.running.insert((engine, id), running);
        }
    }

    fn happened(&mut self, engine: usize, event: Event, now: Nanos) -> Result<(), ReplayError> {
        let key = (engine, event.id());
        match event {
            Event::Fetched { .. } => {
                if let Some(running) = self.running.get(&key) {
                    self.engines.release(running.kept.engine, &running.kept.name, now);
                }
            }
            Event::Token { token, at, .. } => {
                if let Some(running) =
                    self.running.get_mut(&key).filter(|running| running.sent.ahead.is_none())
                {
                    running.first.get_or_insert(at);
                    token_text(token, &mut running.text);
                    self.router.token(&mut running.sent, at + 1);
                }
            }
            Event::Finished { usage, at, .. } => {
                let Some(running) = self.running.remove(&key) else { return Ok(()) };
                if running.sent.ahead.is_some() {
                    self.hand_over(running, now);
                    return Ok(());
                }
                let count = |tokens: usize| u32::try_from(tokens).unwrap_or(u32::MAX);
                let (prompt, cached, output) =
                    (count(usage.prompt), count(usage.cached), count(usage.output));
                self.router.done(running.sent, at + 1, prompt, cached, output);
                self.cache_aware.done(engine);
                self.samples.push(Sample {
                    ttft: running.first.map(|first| Duration::from_nanos(first - running.begun)),
                    latency: Duration::from_nanos(at - running.begun),
                    prompt_tokens: prompt.into(),
                    cached_tokens: cached.into(),
                    output_tokens: output.into(),
                    endpoint: Some(format!("engine-{engine}")),
                    trouble: None,
                });
                self.workload.give_back(running.conversation, Some(&running.text));
                if self.args.traffic.rate.is_none() {
                    self.idle += 1;
                    self.fill(now)?;
                }
            }
        }
        Ok(())
    }
}

/// When requests come in an open loop, and senders begin in a closed one.
struct Arrivals {
    gaps: Rng,
    /// Seconds between two in the mean; none: all senders one after another.
    mean: Option<f64>,
    at: f64,
    left: u64,
    step: f64,
}

impl Arrivals {
    fn new(args: &Args) -> Self {
        let traffic = &args.traffic;
        let senders = traffic.concurrency.max(1) as u64;
        let mut arrivals = Self {
            gaps: Rng::new(mix(traffic.seed ^ 0x9a95)),
            mean: traffic.rate.map(|rate| 1.0 / rate.max(1e-6)),
            at: 0.0,
            left: if traffic.rate.is_some() { u64::MAX } else { senders },
            step: traffic.ramp_s.max(0.0) / senders as f64,
        };
        if let Some(mean) = arrivals.mean {
            arrivals.at = arrivals.gaps.exponential(mean);
        }
        arrivals
    }

    fn next(&self) -> Option<Nanos> {
        (self.left > 0).then(|| nanos(self.at))
    }

    fn arrived(&mut self) {
        self.left -= 1;
        self.at += match self.mean {
            Some(mean) => self.gaps.exponential(mean),
            None => self.step,
        };
    }

    fn end(&mut self) {
        self.left = 0;
    }
}

/// The prompt as engines see it.
pub(crate) fn tokens(api: Api, body: &str) -> Result<Vec<Token>, ReplayError> {
    let refused = |error: &dyn std::fmt::Display| ReplayError::Refused(error.to_string());
    let value: serde_json::Value = serde_json::from_str(body).map_err(|error| refused(&error))?;
    let tokens = match api {
        Api::Chat => chat(&value),
        _ => completion(&value, "prompt").map(|prompts| prompts.into_iter().next().unwrap_or_default()),
    };
    tokens.map_err(|error| refused(&error))
}

fn nanos(seconds: f64) -> Nanos {
    (seconds.max(0.0) * 1e9) as Nanos
}
