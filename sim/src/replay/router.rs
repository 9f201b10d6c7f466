//! The router's part: its own routing over endpoints that are not there.

use super::engines::Reading;
use super::run::{MODEL, ReplayError};
use bytes::Bytes;
use sluicegate::api::facts;
use sluicegate::clock::{Clock, ManualClock};
use sluicegate::config::{Config, Flags, from_flags};
use sluicegate::plugin::{Catalog, Runtime};
use sluicegate::policy::{Budget, PrefixSource, Registry, Request};
use sluicegate::pool::{Endpoint, EndpointSpec, Pool, PoolSpec, Report, Reservation};
use sluicegate::prefix::{self, Exact, Index, Sessions};
use sluicegate::route::{Lane, RouteMode, Trace, choose};
use sluicegate::types::{Api, Dialect, Engine, Profile, Prompt, Role, Url};
use std::path::PathBuf;
use std::sync::Arc;

/// A prompt that is computed for another engine.
pub(crate) struct Ahead {
    pub(crate) engine: usize,
    endpoint: Arc<Endpoint>,
    reservation: Reservation,
    uncached: u32,
    at: u64,
}

/// A request that runs somewhere.
pub(crate) struct Sent {
    pub(crate) engine: usize,
    /// Where its prompt is computed, if that is elsewhere.
    pub(crate) ahead: Option<Ahead>,
    /// Prompt tokens that are fetched, once they are.
    fetches: Option<u32>,
    pub(crate) request: Arc<Request>,
    pub(crate) endpoint: Arc<Endpoint>,
    reservation: Reservation,
    /// Prompt tokens that the endpoint was believed to hold.
    held: u32,
    at: u64,
    first: Option<u64>,
}

/// Which engines there are.
pub(crate) struct Layout {
    pub(crate) engines: usize,
    /// Of them, those that prefill for the others, which decode; 0: all do both.
    pub(crate) prefill: usize,
    /// Whether those that do both hand over to each other.
    pub(crate) hand_over: bool,
}

pub(crate) struct Router {
    pub(crate) lane: Arc<Lane>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) clock: Arc<ManualClock>,
    now: u64,
    block_tokens: u32,
    specs: Vec<EndpointSpec>,
    _state: tempfile::TempDir,
}

impl Router {
    pub(crate) fn new(
        layout: Layout,
        config: Option<PathBuf>,
        plugins: Option<PathBuf>,
    ) -> Result<Self, ReplayError> {
        let address = |n: usize| format!("http://10.0.{}.{}:8000", n / 250, n % 250 + 1);
        let mut config =
            from_flags(Flags { config, plugins, backend: vec!["127.0.0.1:1".into()], ..Flags::default() })?;
        // What a router has promoted and refused is its own: nothing of it is used here, and nothing added.
        let state = tempfile::tempdir().map_err(ReplayError::State)?;
        config.state_dir = state.path().into();
        let clock = ManualClock::at(1);
        let registry = Arc::new(Registry::default());
        let runtime = Arc::new(Runtime::start(None)?);
        let catalog =
            Catalog::load(&config, runtime, Arc::clone(&registry), Arc::clone(&clock) as Arc<dyn Clock>);
        let role = |n: usize| match (layout.prefill, n < layout.prefill) {
            (0, _) => Role::Both,
            (_, true) => Role::Prefill,
            (_, false) => Role::Decode,
        };
        let specs = (0..layout.engines).map(|n| {
            let url = Url::parse(&address(n)).map_err(|_| ReplayError::TooMany)?;
            Ok::<_, ReplayError>(EndpointSpec { role: role(n), ..EndpointSpec::new(url) })
        });
        let specs: Vec<_> = specs.collect::<Result<_, _>>()?;
        let spec = PoolSpec {
            name: "replay".into(),
            chain: sluicegate::config::DEFAULT.into(),
            models: vec![MODEL.into()],
            engine: Some(Engine::Vllm),
            dialect: layout.hand_over.then_some(Dialect::Nixl),
            endpoints: specs.clone(),
            ..PoolSpec::default()
        };
        let pool = config.pools.first().ok_or(ReplayError::TooMany)?;
        let block_tokens = pool.block_tokens;
        let lane = lane(spec, &config, registry, Arc::clone(&clock) as Arc<dyn Clock>);
        Ok(Self { lane, catalog, clock, now: 1, block_tokens, specs, _state: state })
    }

    /// What its clock says.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// From now on it knows all endpoints but the last `missing`.
    pub(crate) fn know_all_but(&self, missing: usize) {
        let known = self.specs.len().saturating_sub(missing);
        self.lane.pool.update(self.specs.iter().take(known).cloned().collect());
    }

    /// Moves its clock on.
    pub(crate) fn at(&mut self, now: u64) {
        self.clock.advance(now.saturating_sub(self.now));
        self.now = self.now.max(now);
    }

    /// Takes over what engines report.
    pub(crate) fn read(&self, readings: impl Iterator<Item = Reading>) {
        for (endpoint, reading) in self.lane.pool.endpoints().iter().zip(readings) {
            self.lane.pool.publish(endpoint, report(reading, self.now));
            self.lane.pool.learn_limit(endpoint, self.now);
        }
        self.lane.tend(self.block_tokens);
    }

    /// Decides where a request goes, and sends it.
    pub(crate) fn send(
        &self,
        api: Api,
        body: Bytes,
        id: u64,
        session: Option<String>,
    ) -> Result<Sent, ReplayError> {
        self.choose(Arc::new(self.request(api, body, id, session)?))
    }

    /// Chooses where a request goes, now.
    pub(crate) fn choose(&self, request: Arc<Request>) -> Result<Sent, ReplayError> {
        let serving = self.catalog.current().serving(self.lane.facts(), &request);
        let candidates = self.lane.candidates(&serving, &request, Profile::Decode);
        let mut trace = Trace::new(Arc::clone(&request), "replay", sluicegate::config::DEFAULT, self.now);
        let choice = choose(&self.lane, &serving, &request, &candidates, &Budget::default(), &mut trace)
            .map_err(|refusal| ReplayError::Refused(refusal.to_string()))?;
        let endpoint = Arc::clone(choice.reservation.endpoint());
        let leg = choice.legs.unwrap_or_default().into_iter().next();
        let ahead = leg.and_then(|leg| leg.order.first().map(|prefill| self.ahead(&request, prefill)));
        let mut sent = self.sent(self.position(&endpoint), request, endpoint, choice.reservation);
        if let Some(ahead) = ahead {
            sent.reservation.first_token();
            sent.ahead = Some(ahead);
        }
        Ok(sent)
    }

    fn position(&self, endpoint: &Endpoint) -> usize {
        let all = self.lane.pool.endpoints();
        all.iter().position(|known| known.id == endpoint.id).unwrap_or_default()
    }

    fn ahead(&self, request: &Request, endpoint: &Arc<Endpoint>) -> Ahead {
        let uncached = request.prompt_tokens.saturating_sub(self.lane.cached_tokens(request, endpoint));
        let reservation = self.lane.reserve(request, endpoint);
        Ahead {
            engine: self.position(endpoint),
            endpoint: Arc::clone(endpoint),
            reservation,
            uncached,
            at: self.now,
        }
    }

    /// A prompt has been computed for another engine, which is asked now.
    pub(crate) fn handed_over(&self, sent: &mut Sent, at: u64) {
        let Some(ahead) = sent.ahead.take() else { return };
        ahead.endpoint.latency.first_token(ms(at - ahead.at), ahead.uncached, ahead.reservation.ahead());
        self.lane.sent(&sent.request, &ahead.endpoint);
        let is_busy = sent.endpoint.load.prefill_tokens() > 0;
        sent.fetches = (!is_busy).then(|| sent.request.prompt_tokens.saturating_sub(sent.held));
        sent.held = sent.request.prompt_tokens;
        sent.at = at;
    }

    /// Sends a request where somebody else has decided.
    pub(crate) fn send_to(&self, engine: usize, api: Api, body: Bytes, id: u64) -> Result<Sent, ReplayError> {
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
        Sent {
            engine,
            ahead: None,
            fetches: None,
            request,
            endpoint,
            reservation,
            held,
            at: self.now,
            first: None,
        }
    }

    /// A request as policies see it.
    pub(crate) fn request(
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
    pub(crate) fn token(&self, sent: &mut Sent, at: u64) {
        if sent.first.is_none() {
            sent.first = Some(at);
            let uncached = sent.request.prompt_tokens.saturating_sub(sent.held);
            if let Some(tokens) = sent.fetches {
                sent.endpoint.latency.fetched(ms(at - sent.at), tokens);
            }
            sent.endpoint.latency.first_token(ms(at - sent.at), uncached, sent.reservation.ahead());
        }
        sent.reservation.output(1);
    }

    /// The last one has, and the engine says what it found in its cache.
    pub(crate) fn done(&self, sent: Sent, at: u64, prompt: u32, cached: u32, output: u32) {
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
        index: Arc::new(Index::new(bytes)),
        measure: Arc::default(),
        exact: Arc::new(Exact::new(bytes)),
        sessions: Arc::new(Sessions::new(100_000, u64::MAX)),
        windows: Arc::default(),
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
