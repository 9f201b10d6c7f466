//! The router's part: its own routing over endpoints that are not there.

use super::args::Args;
use super::engines::Reading;
use super::run::{MODEL, ReplayError};
use bytes::Bytes;
use sluicegate::api::facts;
use sluicegate::clock::{Clock, ManualClock};
use sluicegate::config::{Config, Flags, from_flags};
use sluicegate::plugin::{Catalog, Runtime};
use sluicegate::policy::{Budget, PrefixSource, Registry, Request};
use sluicegate::pool::{Endpoint, EndpointSpec, Pool, PoolSpec, Report, Reservation, Windows};
use sluicegate::prefix::{self, Exact, Index, Sessions};
use sluicegate::route::{Lane, Measure, RouteMode, Trace, choose};
use sluicegate::types::{Api, Engine, Profile, Prompt, Url};
use std::sync::Arc;

/// A request that runs somewhere.
pub(super) struct Sent {
    pub(super) engine: usize,
    request: Arc<Request>,
    endpoint: Arc<Endpoint>,
    reservation: Reservation,
    /// Prompt tokens that the endpoint was believed to hold.
    held: u32,
    at: u64,
    first: Option<u64>,
}

pub(super) struct Router {
    lane: Arc<Lane>,
    catalog: Arc<Catalog>,
    clock: Arc<ManualClock>,
    now: u64,
    block_tokens: u32,
    _state: tempfile::TempDir,
}

impl Router {
    pub(super) fn new(args: &Args) -> Result<Self, ReplayError> {
        let address = |n: usize| format!("http://10.0.{}.{}:8000", n / 250, n % 250 + 1);
        let mut config = from_flags(Flags {
            config: args.config.clone(),
            plugins: args.plugins.clone(),
            backend: vec!["127.0.0.1:1".into()],
            ..Flags::default()
        })?;
        // What a router has promoted and refused is its own: nothing of it is used here, and nothing added.
        let state = tempfile::tempdir().map_err(ReplayError::State)?;
        config.state_dir = state.path().into();
        let clock = ManualClock::at(1);
        let registry = Arc::new(Registry::default());
        let runtime = Arc::new(Runtime::start(None)?);
        let catalog =
            Catalog::load(&config, runtime, Arc::clone(&registry), Arc::clone(&clock) as Arc<dyn Clock>);
        let specs = (0..args.engines)
            .map(|n| Url::parse(&address(n)).map(EndpointSpec::new).map_err(|_| ReplayError::TooMany));
        let spec = PoolSpec {
            name: "replay".into(),
            chain: sluicegate::config::DEFAULT.into(),
            models: vec![MODEL.into()],
            engine: Some(Engine::Vllm),
            endpoints: specs.collect::<Result<_, _>>()?,
            ..PoolSpec::default()
        };
        let pool = config.pools.first().ok_or(ReplayError::TooMany)?;
        let block_tokens = pool.block_tokens;
        let lane = lane(spec, &config, registry, Arc::clone(&clock) as Arc<dyn Clock>);
        Ok(Self { lane, catalog, clock, now: 1, block_tokens, _state: state })
    }

    /// Moves its clock on.
    pub(super) fn at(&mut self, now: u64) {
        self.clock.advance(now.saturating_sub(self.now));
        self.now = self.now.max(now);
    }

    /// Takes over what engines report.
    pub(super) fn read(&self, readings: impl Iterator<Item = Reading>) {
        for (endpoint, reading) in self.lane.pool.endpoints().iter().zip(readings) {
            self.lane.pool.publish(endpoint, report(reading, self.now));
        }
        self.lane.tend(self.block_tokens);
    }

    /// Decides where a request goes, and sends it.
    pub(super) fn send(
        &self,
        api: Api,
        body: Bytes,
        id: u64,
        session: Option<String>,
    ) -> Result<Sent, ReplayError> {
        let request = Arc::new(self.request(api, body, id, session)?);
        let serving = self.catalog.current().serving(self.lane.facts(), &request);
        let candidates = self.lane.candidates(&serving, &request, Profile::Decode);
        let mut trace = Trace::new(Arc::clone(&request), "replay", sluicegate::config::DEFAULT, self.now);
        let choice = choose(&self.lane, &serving, &request, &candidates, &Budget::default(), &mut trace)
            .map_err(|refusal| ReplayError::Refused(refusal.to_string()))?;
        let endpoint = Arc::clone(choice.reservation.endpoint());
        let all = self.lane.pool.endpoints();
        let engine = all.iter().position(|known| known.id == endpoint.id).unwrap_or_default();
        Ok(self.sent(engine, request, endpoint, choice.reservation))
    }

    /// Sends a request where somebody else has decided.
    pub(super) fn send_to(&self, engine: usize, api: Api, body: Bytes, id: u64) -> Result<Sent, ReplayError> {
        let request = Arc::new(self.request(api, body, id, None)?);
        let endpoint = self.lane.pool.endpoints().get(engine).cloned().ok_or(ReplayError::TooMany)?;
        let reservation = self.lane.reserve(&request, &endpoint);
        Ok(self.sent(engine, request, endpoint, reservation))
    }

    fn sent(
        &self,
        engine: usize,
        request: Arc<Request>,
        endpoint: Arc<Endpoint>,
        reservation: Reservation,
    ) -> Sent {
        let held = self.lane.cached_tokens(&request, &endpoint);
        self.lane.sent(&request, &endpoint);
        Sent { engine, request, endpoint, reservation, held, at: self.now, first: None }
    }

    fn request(
        &self,
        api: Api,
        body: Bytes,
        id: u64,
        session: Option<String>,
    ) -> Result<Request, ReplayError> {
        let facts = facts::parse(api, &body).map_err(|error| ReplayError::Refused(error.to_string()))?;
        let known = session.as_deref().and_then(|session| self.lane.sessions.get(session, self.now));
        let seed = prefix::seed(&[MODEL.as_bytes(), b""]);
        Ok(Request {
            api,
            model: MODEL.into(),
            session: session.map(String::into_boxed_str),
            turn: known.map_or(0, |(_, turns)| turns).max(facts.turn),
            prompt_tokens: facts.prompt.as_ref().map_or(0, Prompt::tokens),
            prompt_tokens_exact: facts.prompt.as_ref().is_some_and(Prompt::exact),
            max_output_tokens: facts.max_output_tokens,
            arrived: self.now,
            body,
            prefix: facts.prompt.map(|prompt| PrefixSource::new(prompt, seed, self.block_tokens)),
            ..Request::unremarkable(&format!("replay-{id}"))
        })
    }

    /// A token has come.
    pub(super) fn token(&self, sent: &mut Sent, at: u64) {
        if sent.first.is_none() {
            sent.first = Some(at);
            let uncached = sent.request.prompt_tokens.saturating_sub(sent.held);
            sent.endpoint.latency.first_token(ms(at - sent.at), uncached, sent.reservation.ahead());
        }
        sent.reservation.output(1);
    }

    /// The last one has, and the engine says what it found in its cache.
    pub(super) fn done(&self, sent: Sent, at: u64, prompt: u32, cached: u32, output: u32) {
        if let Some(first) = sent.first
            && output > 1
        {
            sent.endpoint.latency.output(ms(at - first), output - 1);
        }
        self.lane.reported(&sent.request, &sent.endpoint, sent.held, prompt, cached);
    }
}

fn lane(spec: PoolSpec, config: &Config, registry: Arc<Registry>, clock: Arc<dyn Clock>) -> Arc<Lane> {
    let bytes = config.pools.first().map_or(64 << 20, |pool| pool.index_bytes);
    Arc::new(Lane {
        pool: Arc::new(Pool::new(spec)),
        index: Index::new(bytes),
        measure: Measure::default(),
        exact: Arc::new(Exact::new(bytes)),
        sessions: Sessions::new(100_000, u64::MAX),
        windows: Windows::default(),
        registry,
        mode: RouteMode::Follow,
        shadows: None,
        clock,
    })
}

fn report(reading: Reading, now: u64) -> Report {
    Report {
        engine: Some(Engine::Vllm),
        at: now,
        waiting: Some(reading.waiting as f32),
        running: Some(reading.running as f32),
        kv_usage: Some(reading.kv_usage as f32),
        preemptions: Some(reading.preemptions as f32),
        block_tokens: u32::try_from(reading.block_tokens).ok(),
        kv_blocks: u64::try_from(reading.blocks).ok(),
        models: Arc::from([Box::from(MODEL)]),
        ..Report::default()
    }
}

fn ms(nanos: u64) -> f32 {
    nanos as f32 / 1e6
}
