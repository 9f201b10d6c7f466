//! A pool in virtual time: sessions with prompts that grow, endpoints with a queue and a cache each, and a canary.
//!
//! What is held: policies that differ and do no harm are let be, whatever the traffic; those that do harm are not.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use super::*;
use crate::clock::{Nanos, SECOND};
use crate::pool::Windows;
use crate::pool::window::{Ended, Sample};
use crate::types::{Arm, EndpointId};

const ARM: Arm = Arm(7);
const TRIAL: u64 = 60;

/// Where a policy sends a request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Policy {
    /// Anywhere.
    Random,
    /// In turn.
    RoundRobin,
    /// Where least waits.
    LeastLoaded,
    /// A session always to the same endpoint, chosen by a hash with this seed.
    Session(u64),
    /// A prefix always to the same endpoint, chosen by a hash with this seed.
    Prefix(u64),
    /// All to the first so many.
    Herd(u32),
    /// Of two, where more waits.
    BusierOfTwo,
}

/// One situation.
#[derive(Debug, Clone)]
struct Situation {
    endpoints: u32,
    /// Requests a second.
    rate: f64,
    /// By what the rate has been multiplied at the end of the trial.
    ramp: f64,
    /// Sessions at a time; none sends every request without one.
    sessions: Option<u64>,
    /// Prefixes, the k-th of them 1/k as frequent as the first.
    prefixes: u64,
    /// Per cent of the sessions that the candidate serves.
    canary: u64,
    /// Share of the endpoints' time that is busy before the ramp.
    busy: f64,
    base: Policy,
    arm: Policy,
    /// Whether sessions have contexts that their endpoints keep.
    caches: bool,
    /// Share of the arm's requests that fail.
    failing: f64,
}

impl Default for Situation {
    fn default() -> Self {
        Self {
            endpoints: 4,
            rate: 20.0,
            ramp: 1.0,
            sessions: None,
            prefixes: 1_000,
            canary: 10,
            busy: 0.5,
            caches: false,
            base: Policy::LeastLoaded,
            arm: Policy::LeastLoaded,
            failing: 0.0,
        }
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        hash(&self.0)
    }

    /// In 0..1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// With a mean of 1.
    fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }
}

fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

struct Pool {
    situation: Situation,
    random: Random,
    windows: Windows,
    /// Until when each endpoint is busy, seconds.
    busy_until: Vec<f64>,
    turn: u32,
    /// Tokens of each session, and at which endpoint they are.
    contexts: HashMap<u64, (f64, u32)>,
    arm_requests: u64,
}

/// How a trial went.
struct Verdict {
    evaluations: u32,
    tripped: Option<(Tripped, u64)>,
}

impl Pool {
    fn new(situation: Situation, seed: u64) -> Self {
        let endpoints = usize::try_from(situation.endpoints).unwrap();
        Self {
            situation,
            random: Random(seed << 32),
            windows: Windows::default(),
            busy_until: vec![0.0; endpoints],
            turn: 0,
            contexts: HashMap::new(),
            arm_requests: 0,
        }
    }

    /// A minute before, then a trial that is judged every second.
    fn run(mut self) -> Verdict {
        let rails = Guardrails::default();
        let began = 100.0;
        let mut at = began - 60.0;
        let mut trial: Option<Comparison> = None;
        let mut evaluations = 0;
        for second in 0..60 + TRIAL {
            let on_trial = second.saturating_sub(60);
            if second == 60 {
                let began = nanos(began);
                trial = Some(Comparison::begin(&self.windows, &rails, ARM, Split::Requests, began));
            }
            let end = began - 60.0 + (second + 1) as f64;
            let ramp = 1.0 + (self.situation.ramp - 1.0) * on_trial as f64 / TRIAL as f64;
            while at < end {
                self.request(at, trial.is_some());
                at += self.random.exponential() / (self.situation.rate * ramp);
            }
            let Some(trial) = &trial else { continue };
            evaluations += 1;
            if let Some(tripped) = judge(&rails, &trial.evidence(&self.windows, nanos(end))) {
                return Verdict { evaluations, tripped: Some((tripped, self.arm_requests)) };
            }
        }
        Verdict { evaluations, tripped: None }
    }

    fn request(&mut self, at: f64, on_trial: bool) {
        let session = match self.situation.sessions {
            // Half of the requests are those of few sessions.
            Some(sessions) => 1 + (self.random.unit().powi(2) * sessions as f64) as u64,
            None => 0,
        };
        let asked = if session == 0 { self.random.next() } else { session };
        let candidate = on_trial && hash(&(asked, "canary")) % 100 < self.situation.canary;
        let prefix = (self.situation.prefixes as f64).powf(hash(&asked) as f64 / u64::MAX as f64) as u64;
        let policy = if candidate { self.situation.arm } else { self.situation.base };
        let endpoint = self.endpoint(policy, at, asked, prefix);
        let (prompt, cached) = self.prompt(session, endpoint);
        let ttft = self.serve(endpoint, at, prompt - cached);
        let failed = candidate && self.random.unit() < self.situation.failing;
        self.arm_requests += u64::from(candidate);
        self.windows.arrived(nanos(at), prompt as u32);
        let sample = Sample {
            at: nanos(at),
            endpoint: Some(EndpointId(endpoint)),
            session: if session == 0 { 0 } else { hash(&session) },
            ended: if failed { Ended::Failed } else { Ended::Answered },
            ttft: (!failed).then(|| nanos(ttft)),
            prompt_tokens: prompt as u32,
            cached_tokens: Some(cached as u32),
        };
        self.windows.note(if candidate { ARM } else { Arm::BASE }, sample);
    }

    fn endpoint(&mut self, policy: Policy, at: f64, session: u64, prefix: u64) -> u32 {
        let endpoints = self.situation.endpoints;
        let any = (self.random.unit() * f64::from(endpoints)) as u32;
        let by = |of: u64, seed: u64| (hash(&(of, seed)) % u64::from(endpoints)) as u32;
        let wait = |endpoint: &u32| (self.busy_until[*endpoint as usize] - at).max(0.0);
        // Of equal ones any, beginning with a random one.
        let all = (0..endpoints).map(|endpoint| (endpoint + any) % endpoints);
        match policy {
            Policy::Random => any,
            Policy::RoundRobin => {
                self.turn += 1;
                self.turn % endpoints
            }
            Policy::LeastLoaded => all.min_by(|a, b| wait(a).total_cmp(&wait(b))).unwrap(),
            Policy::BusierOfTwo => all.take(2).max_by(|a, b| wait(a).total_cmp(&wait(b))).unwrap(),
            Policy::Session(seed) => by(session, seed),
            Policy::Prefix(seed) => by(prefix, seed),
            Policy::Herd(many) => any % many,
        }
    }

    /// Tokens of the next prompt of a session, and how many of them the endpoint holds.
    fn prompt(&mut self, session: u64, endpoint: u32) -> (f64, f64) {
        let new = 200.0 + 400.0 * self.random.exponential();
        if session == 0 || !self.situation.caches {
            return (new, 0.0);
        }
        let (context, held_by) = self.contexts.get(&session).copied().unwrap_or((0.0, endpoint));
        // A conversation that has grown long ends, and another one begins.
        let context = if context > 8_000.0 { 0.0 } else { context };
        self.contexts.insert(session, (context + new, endpoint));
        (context + new, if held_by == endpoint { context } else { 0.0 })
    }

    /// Seconds to the first token.
    fn serve(&mut self, endpoint: u32, at: f64, tokens: f64) -> f64 {
        // At the configured rate, with nothing in caches, this keeps endpoints busy as configured.
        let per_token =
            self.situation.busy * f64::from(self.situation.endpoints) / self.situation.rate / 600.0;
        let until = &mut self.busy_until[endpoint as usize];
        *until = until.max(at) + tokens * per_token;
        *until - at
    }
}

fn nanos(seconds: f64) -> Nanos {
    (seconds * SECOND as f64) as Nanos
}

/// Trials of a situation that tripped, of so many; and the evaluations of all.
fn trips(situation: &Situation, trials: u64) -> (Vec<Tripped>, u32) {
    let verdicts = (0..trials).map(|seed| Pool::new(situation.clone(), seed).run());
    verdicts.fold((Vec::new(), 0), |(mut trips, evaluations), verdict| {
        trips.extend(verdict.tripped.map(|(tripped, _)| tripped));
        (trips, evaluations + verdict.evaluations)
    })
}

/// Policies that are none the worse for being different, with the traffic that suits them. Where sessions or
/// prefixes stick, load is so low that the endpoint with the hottest of them is not overrun.
fn honest() -> Vec<Situation> {
    let mut all = Vec::new();
    for (endpoints, canary) in [(2, 50), (3, 10), (4, 10), (4, 1), (16, 25), (200, 10)] {
        let pool = Situation { endpoints, canary, ..Situation::default() };
        let idle = Situation { busy: 0.3 / f64::from(endpoints), ..pool.clone() };
        all.push(pool);
        all.extend([Policy::Random, Policy::RoundRobin].map(|arm| Situation { arm, ..idle.clone() }));
        for sessions in [5, 30, 300, 3_000] {
            let talks = Situation { sessions: Some(sessions), base: Policy::Session(1), ..idle.clone() };
            let caches = Situation { caches: true, busy: idle.busy / 5.0, ..talks.clone() };
            all.push(Situation { arm: Policy::Session(1), ..caches });
            let others = [Policy::Session(2), Policy::RoundRobin, Policy::Random];
            all.extend(others.map(|arm| Situation { arm, ..talks.clone() }));
            let spread = [Policy::RoundRobin, Policy::Random];
            all.extend(spread.map(|base| Situation { base, arm: Policy::Session(2), ..talks.clone() }));
        }
        for prefixes in [30, 1_000] {
            let hot = Situation { prefixes, base: Policy::Prefix(1), ..idle.clone() };
            all.extend([1, 2].map(|seed| Situation { arm: Policy::Prefix(seed), ..hot.clone() }));
        }
    }
    all
}

/// Fewer than one evaluation in 10,000 trips.
fn let_be(situations: &[Situation], trials: u64) {
    let (mut tripped, mut evaluations) = (Vec::new(), 0);
    for situation in situations {
        let (trips, evaluated) = trips(situation, trials);
        evaluations += evaluated as usize;
        tripped.extend(trips.into_iter().map(|trip| (situation, trip)));
    }
    for (situation, trip) in &tripped {
        println!("{situation:?}: {trip:?}");
    }
    assert!(tripped.len() * 10_000 < evaluations, "{} of {evaluations}", tripped.len());
}

#[test]
fn policies_that_do_no_harm_are_let_be() {
    let_be(&honest(), 2);
}

#[test]
#[ignore = "minutes long"]
fn policies_that_do_no_harm_are_let_be_in_many_trials() {
    let_be(&honest(), 60);
}

#[test]
fn a_rise_in_load_trips_nothing() {
    for ramp in [1.2, 2.0, 4.0] {
        let rising = Situation { ramp, ..Situation::default() };
        let talks = Situation { sessions: Some(300), base: Policy::Session(1), busy: 0.1, ..rising.clone() };
        let_be(&[rising, Situation { arm: Policy::Session(1), ..talks }], 10);
    }
}

/// Every trial trips on this rail; the arm's requests by then, at most.
fn caught(situation: &Situation, rail: Rail) -> u64 {
    let trials = (0..20).map(|seed| Pool::new(situation.clone(), seed).run().tripped);
    let requests = trials.map(|tripped| {
        let (tripped, requests) = tripped.unwrap_or_else(|| panic!("not caught: {situation:?}"));
        assert_eq!(tripped.rail, rail, "{}", tripped.text);
        requests
    });
    requests.max().unwrap()
}

#[test]
fn a_canary_that_herds_is_caught_within_forty_requests() {
    for base in [Policy::LeastLoaded, Policy::RoundRobin, Policy::Random] {
        for endpoints in [2, 4, 16, 1_000] {
            let herds =
                Situation { endpoints, base, arm: Policy::Herd(1), busy: 0.1, ..Situation::default() };
            let requests = caught(&herds, Rail::Herding);
            assert!(requests <= 40, "{requests}: {herds:?}");
        }
    }
}

#[test]
fn herding_is_told_from_what_is_concentrated_for_a_reason() {
    let sticks = Situation { endpoints: 16, base: Policy::Prefix(1), busy: 0.02, ..Situation::default() };
    caught(&Situation { arm: Policy::Herd(1), ..sticks }, Rail::Herding);
    let many = Situation { endpoints: 1_000, rate: 60.0, busy: 0.01, ..Situation::default() };
    caught(&Situation { arm: Policy::Herd(6), ..many }, Rail::Herding);
    let talks =
        Situation { sessions: Some(400), base: Policy::Session(1), busy: 0.05, ..Situation::default() };
    caught(&Situation { arm: Policy::Herd(1), ..talks }, Rail::Herding);
}

#[test]
fn a_canary_that_fails_or_is_slow_or_forgets_is_caught() {
    let usual = Situation { endpoints: 16, rate: 100.0, ..Situation::default() };
    caught(&Situation { failing: 0.2, ..usual.clone() }, Rail::Errors);
    caught(&Situation { busy: 0.7, arm: Policy::BusierOfTwo, ..usual.clone() }, Rail::Ttft);
    let talks = Situation { sessions: Some(1_000), caches: true, busy: 0.0005, canary: 25, ..usual };
    caught(&Situation { base: Policy::Session(1), arm: Policy::Random, ..talks }, Rail::HitRatio);
}

#[test]
fn trials_are_as_long_as_a_window() {
    assert_eq!(Guardrails::default().window, Duration::from_secs(TRIAL));
}
