//! A pool, a warm prefix index, and requests of a few thousand tokens.

use std::sync::Arc;

use sluicegate::clock::{Clock, RealClock};
use sluicegate::config::{Flags, from_flags};
use sluicegate::plugin::{Catalog, Runtime};
use sluicegate::policy::{Chain, PrefixSource, Registry, Request, Shadow, Stages};
use sluicegate::pool::{EndpointSpec, Pool, PoolSpec, Report};
use sluicegate::prefix::{Exact, Index, Sessions};
use sluicegate::route::{Lane, RouteMode, ShadowSink, Snapshot};
use sluicegate::types::{Api, Prompt, Role, Url};

use crate::native;

/// Tokens of a prompt: an agent's context.
const PROMPT_TOKENS: usize = 4_096;
/// Prompts that share nothing; their requests go round.
const PROMPTS: usize = 16;
/// Requests that run at most at an endpoint.
const RUNNING: usize = 4;

/// What is routed over.
pub(crate) struct World {
    pub(crate) lane: Arc<Lane>,
    catalog: Arc<Catalog>,
    _running: Vec<sluicegate::pool::Reservation>,
}

impl World {
    pub(crate) fn new(endpoints: usize, split: bool) -> Self {
        let registry = Arc::new(Registry::default());
        let clock: Arc<dyn Clock> = RealClock::start();
        let config = from_flags(Flags { backend: vec!["127.0.0.1:1".into()], ..Flags::default() }).unwrap();
        let runtime = Arc::new(Runtime::start(None).unwrap());
        let catalog = Catalog::load(&config, runtime, Arc::clone(&registry), Arc::clone(&clock));
        let lane = Arc::new(Lane {
            pool: Arc::new(Pool::new(spec(endpoints, split))),
            index: Arc::new(Index::new(256 << 20)),
            measure: Arc::default(),
            exact: Arc::new(Exact::new(256 << 20)),
            sessions: Arc::new(Sessions::new(1_024, u64::MAX)),
            windows: Arc::default(),
            registry,
            mode: RouteMode::Follow,
            shadows: Some(Arc::new(LetsGo)),
            clock,
        });
        let mut world = Self { lane, catalog, _running: Vec::new() };
        world.fill();
        world
    }

    /// Engines that have reported, run requests and hold prompts.
    fn fill(&mut self) {
        for (n, endpoint) in self.lane.pool.endpoints().iter().enumerate() {
            let waiting = (n % 3) as f32;
            let report = Report {
                at: self.lane.clock.now(),
                waiting: Some(waiting),
                running: Some(2.0),
                kv_usage: Some((n % 10) as f32 / 10.0),
                ..Report::default()
            };
            endpoint.publish(report);
            for _ in 0..n % RUNNING {
                self._running.push(endpoint.reserve(500, 4_000));
            }
            self.lane.sent(&self.request(n), endpoint);
        }
    }

    /// The n-th request.
    pub(crate) fn request(&self, n: usize) -> Arc<Request> {
        let text = format!("prompt {} ", n % PROMPTS).repeat(PROMPT_TOKENS * 4 / 10);
        let prompt = Prompt::Text(text.into_bytes());
        Arc::new(Request {
            id: format!("r{n}").into(),
            api: Api::Chat,
            path: "/v1/chat/completions".into(),
            model: "m".into(),
            adapter: None,
            tenant: None,
            flow: format!("flow{}", n % 8).into(),
            priority: 0,
            session: Some(format!("session{}", n % PROMPTS).into()),
            continues: None,
            turn: 3,
            prompt_tokens: prompt.tokens(),
            prompt_tokens_exact: false,
            tokenizer: None,
            max_output_tokens: Some(200),
            streaming: true,
            ttft_target_ms: None,
            tpot_target_ms: None,
            ttl_ms: None,
            arrived: self.lane.clock.now(),
            headers: http::HeaderMap::new(),
            body: bytes::Bytes::new(),
            prefix: Some(PrefixSource::new(prompt, 0, 16)),
        })
    }

    /// The default chain as it ships.
    pub(crate) fn wasm_chain(&self) -> Arc<Chain> {
        let chain = self.catalog.current().chain("default");
        assert!(chain.flow.is_some(), "the default plugins are not built: run `cargo xtask plugins`");
        chain
    }

    /// The same with each of its scorers as a shadow of itself.
    pub(crate) fn shadowed_chain(&self) -> Chain {
        let chain = Chain::clone(&self.wasm_chain());
        let shadows = chain.scorers.iter().map(|slot| {
            let stages = Stages { scorer: Some(Arc::clone(&slot.policy)), ..Stages::default() };
            let plugin = Arc::clone(&slot.plugin);
            Arc::new(Shadow { plugin, weight: slot.weight, stages, stats: Arc::default() })
        });
        Chain { shadows: shadows.collect(), ..chain }
    }

    /// The same policies, compiled into this process.
    pub(crate) fn native_chain(&self) -> Chain {
        native::chain(&self.lane.registry, Arc::clone(&self.wasm_chain().columns))
    }
}

/// Lets go of snapshots at once: what is left is what making them costs.
#[derive(Debug)]
struct LetsGo;

impl ShadowSink for LetsGo {
    fn has_room(&self) -> bool {
        true
    }

    fn offer(&self, snapshot: Snapshot) {
        drop(snapshot);
    }
}

fn spec(endpoints: usize, split: bool) -> PoolSpec {
    let endpoint = |n: usize| {
        let url = format!("http://10.{}.{}.{}:8000", n / 65_536, n / 256 % 256, n % 256);
        let role = match n % 4 {
            0 if split => Role::Prefill,
            _ if split => Role::Decode,
            _ => Role::Both,
        };
        EndpointSpec { role, ..EndpointSpec::new(Url::parse(&url).unwrap()) }
    };
    PoolSpec {
        name: "bench".into(),
        chain: "default".into(),
        models: vec!["m".into()],
        aliases: Vec::new(),
        engine: None,
        dialect: None,
        endpoints: (0..endpoints).map(endpoint).collect(),
        ..PoolSpec::default()
    }
}
