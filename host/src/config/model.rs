//! A valid configuration. What it serialises to has the keys of the file.

mod handover;
mod health;
mod net;
mod plugins;
mod queue;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;

pub use self::handover::DialectChoice;
pub use self::health::HealthConfig;
pub use self::net::{Forwarded, HttpVersion, PoolTls, TlsConfig, Traceparent};
pub use self::plugins::{
    Grants, Guardrails, Mode, PluginConfig, TrialMode, Unlisted, Wasi, Watch, WatchMode,
};
pub use self::queue::{BandConfig, EnginePriority, QueueBounds, QueueConfig};
use super::callers::{AdminToken, Callers, Objective, TenantConfig};
use super::secret::SecretSource;
use super::supply::{CompileConfig, SupplyConfig};
use crate::types::{Engine, EventSource, Role, Url};

/// Everything that an operator decides.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Where clients connect.
    pub listen: Listen,
    /// Where the admin API answers.
    pub admin: Listen,
    /// Directory of what must outlive a restart.
    pub state_dir: PathBuf,
    /// Policies are asked but not followed.
    pub observe: bool,
    /// The watched directory.
    pub plugins_dir: Option<PathBuf>,
    /// What becomes of a file that no [`PluginConfig`] names.
    pub unlisted: Unlisted,
    /// When a candidate is rolled back.
    pub guardrails: Guardrails,
    /// How the directory is watched.
    pub watch: Watch,
    /// Which bytes may be plugins.
    pub supply: SupplyConfig,
    /// What compiling one file may cost.
    pub compile: CompileConfig,
    /// TLS for clients; none speaks in the clear.
    pub tls: Option<TlsConfig>,
    /// What engines are told of clients.
    pub forwarded: Forwarded,
    /// Whether requests without a trace are given one.
    pub traceparent: Traceparent,
    /// Bounds of the proxy itself.
    pub limits: Limits,
    /// How endpoints are read.
    pub scrape: Scrape,
    /// How callers are told apart.
    pub callers: Callers,
    /// Those who share the endpoints, with unique names; none: everybody may call.
    pub tenants: Vec<TenantConfig>,
    /// What requests may call their purpose; names are unique.
    pub objectives: Vec<Objective>,
    /// Who may use the admin API; some, unless it listens on loopback.
    pub admin_tokens: Vec<AdminToken>,
    /// The plugins that are named; names are unique.
    pub plugins: Vec<PluginConfig>,
    /// Chains with unique names; none means one of every active plugin, named [`super::DEFAULT`].
    pub chains: Vec<ChainConfig>,
    /// Pools with unique names, whose chains exist.
    pub pools: Vec<PoolConfig>,
}

impl Serialize for Config {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let dir = self.plugins_dir.as_ref().map(|dir| dir.to_string_lossy());
        let SupplyConfig { allow, keys, allow_older, max_bytes } = &self.supply;
        let CompileConfig { cpu, memory_bytes } = &self.compile;
        json!({
            "listen": self.listen, "admin": self.admin, "state_dir": self.state_dir.to_string_lossy(),
            "observe": self.observe,
            "plugins": {
                "dir": dir, "unlisted": self.unlisted, "watch": self.watch.mode,
                "poll_ms": whole_millis(self.watch.poll), "allow": allow, "keys": keys,
                "allow_older": allow_older, "max_bytes": max_bytes, "compile_s": cpu.as_secs(),
                "compile_mib": memory_bytes >> 20, "guardrails": self.guardrails,
            },
            "tls": self.tls, "forwarded": self.forwarded, "traceparent": self.traceparent,
            "limits": self.limits, "scrape": self.scrape,
            "callers": self.callers, "tenant": self.tenants, "objective": self.objectives,
            "admin_token": self.admin_tokens,
            "plugin": self.plugins, "chain": self.chains, "pool": self.pools,
        })
        .serialize(serializer)
    }
}

/// `HOST:PORT`, or `unix:/PATH`; port 0 takes any free one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Listen(pub String);

impl Listen {
    /// Reads `HOST:PORT` or `unix:/PATH`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const FORM: &str =
            "an address is written `HOST:PORT`, such as `127.0.0.1:8080` or `[::]:8080`, or `unix:/PATH`";
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.starts_with('/') && !path.contains('\0') {
                Ok(Self(text.to_owned()))
            } else {
                Err(FORM)
            };
        }
        let (host, port) = text.rsplit_once(':').ok_or(FORM)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let valid = match bare {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => !host.is_empty() && !host.contains(|c: char| c == ':' || c == '/' || c.is_whitespace()),
        };
        if !valid || port.parse::<u16>().is_err() {
            return Err(FORM);
        }
        Ok(Self(text.to_owned()))
    }

    /// The path of the Unix socket, where it is one.
    #[must_use]
    pub fn socket(&self) -> Option<&str> {
        self.0.strip_prefix("unix:")
    }

    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether only this machine can reach it.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let host = self.0.rsplit_once(':').map_or("", |(host, _)| host);
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        host.eq_ignore_ascii_case("localhost")
            || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Whether the port is given out by the system.
    #[must_use]
    pub fn any_port(&self) -> bool {
        self.0.ends_with(":0")
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Bounds of the proxy itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Longest request body.
    pub body_bytes: usize,
    /// Longest request head.
    pub header_bytes: usize,
    /// Client connections at a time.
    pub connections: usize,
    /// Time in which a client must send a head.
    #[serde(rename = "header_timeout_ms", serialize_with = "millis")]
    pub header_timeout: Duration,
    /// Time in which a client must send more of a body.
    #[serde(rename = "body_timeout_ms", serialize_with = "millis")]
    pub body_timeout: Duration,
    /// Time that running requests have at shutdown.
    #[serde(rename = "drain_timeout_ms", serialize_with = "millis")]
    pub drain_timeout: Duration,
    /// Time that running requests have after another process has taken over.
    #[serde(rename = "handover_timeout_ms", serialize_with = "millis")]
    pub handover_timeout: Duration,
    /// Time in which a client must take more of an answer.
    #[serde(rename = "write_timeout_ms", serialize_with = "millis")]
    pub write_timeout: Duration,
    /// Requests at a time.
    pub requests: usize,
    /// Bytes of all bodies that are held at a time.
    pub buffered_bytes: usize,
    /// CPU time of all policies of one request.
    #[serde(rename = "policy_ms", serialize_with = "millis")]
    pub policy: Duration,
}

/// How endpoints are asked for their metrics.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Scrape {
    /// Time between two readings of metrics.
    #[serde(rename = "interval_ms", serialize_with = "millis")]
    pub interval: Duration,
    /// The same while an endpoint has much to do.
    #[serde(rename = "busy_interval_ms", serialize_with = "millis")]
    pub busy_interval: Duration,
    /// Time in which an endpoint must answer.
    #[serde(rename = "timeout_ms", serialize_with = "millis")]
    pub timeout: Duration,
    /// Time between two readings of the models.
    #[serde(rename = "models_interval_ms", serialize_with = "millis")]
    pub models_interval: Duration,
    /// Longest answer that is read.
    pub page_bytes: usize,
}

/// Plugins that serve a pool together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChainConfig {
    /// By which pools refer to it.
    pub name: Box<str>,
    /// In the order in which they are asked; a name need not be loaded (yet).
    pub plugins: Vec<ChainUse>,
}

/// A plugin's place in a chain.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChainUse {
    /// The plugin's name.
    #[serde(rename = "use")]
    pub plugin: Box<str>,
    /// Factor of its scores here.
    #[serde(serialize_with = "short_option")]
    pub weight: Option<f32>,
    /// Its configuration here.
    pub config: Option<serde_json::Value>,
}

/// Endpoints that serve the same models.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PoolConfig {
    /// For metrics and the admin API.
    pub name: Box<str>,
    /// The chain whose plugins serve it.
    pub chain: Box<str>,
    /// Models that it serves; none: what its endpoints list.
    pub models: Vec<Box<str>>,
    /// Alias and model.
    #[serde(serialize_with = "map")]
    pub aliases: Vec<(Box<str>, Box<str>)>,
    /// The kind of its endpoints.
    pub engine: EngineChoice,
    /// How they hand over KV.
    pub dialect: DialectChoice,
    /// Its endpoints; no two of a configuration have the same name.
    pub endpoints: Vec<EndpointConfig>,
    /// The version of HTTP that is spoken to its endpoints.
    pub http_version: HttpVersion,
    /// Whom of its https endpoints to believe.
    pub tls: PoolTls,
    /// Time in which an endpoint must accept a connection.
    #[serde(rename = "connect_timeout_ms", serialize_with = "millis")]
    pub connect_timeout: Duration,
    /// Time in which an answer must begin.
    #[serde(rename = "first_byte_timeout_ms", serialize_with = "millis")]
    pub first_byte_timeout: Duration,
    /// Time in which an answer that began must go on.
    #[serde(rename = "idle_timeout_ms", serialize_with = "millis")]
    pub idle_timeout: Duration,
    /// Time in which a leg before decode must be done.
    #[serde(rename = "prefill_timeout_ms", serialize_with = "millis")]
    pub prefill_timeout: Duration,
    /// Time from a request's arrival to the end of its answer.
    #[serde(rename = "total_timeout_ms", serialize_with = "millis_option")]
    pub total_timeout: Option<Duration>,
    /// Share of requests that may be retried, percent.
    pub retry_percent: u32,
    /// Retries a second that are always allowed.
    pub retry_min_per_s: u32,
    /// Whether engines are asked for the usage of streams.
    pub inject_usage: bool,
    /// Tokens of one block of the prefix index.
    pub block_tokens: u32,
    /// Memory of the prefix index at most.
    pub index_bytes: usize,
    /// How long a session is remembered after its last request.
    #[serde(rename = "session_ttl_ms", serialize_with = "millis")]
    pub session_ttl: Duration,
    /// Whether the admin API may add endpoints.
    pub admin_endpoints: bool,
    /// Time between two look-ups of hosts that stand for several endpoints.
    #[serde(rename = "resolve_ms", serialize_with = "millis")]
    pub resolve_every: Duration,
    /// The server that is asked for SRV records; none asks the system's.
    pub dns: Option<SocketAddr>,
    /// Whether engines are asked where they publish what they cache.
    #[serde(rename = "kv_events")]
    pub ask_for_events: AskForEvents,
    /// Folder of the model's tokenizer.
    #[serde(serialize_with = "path_option")]
    pub tokenizer: Option<PathBuf>,
    /// Time that a request waits for its tokens.
    #[serde(rename = "tokenize_ms", serialize_with = "millis")]
    pub tokenize: Duration,
    /// Memory of what was tokenized before at most.
    pub tokenizer_cache_bytes: usize,
    /// The key that endpoints without one of their own are shown.
    pub api_key: Option<SecretSource>,
    /// Whether engines are told how important a request is.
    pub engine_priority: EnginePriority,
    /// When an endpoint is out, and how it comes back.
    pub health: HealthConfig,
    /// What waits in front of it.
    pub queue: QueueConfig,
}

/// Whether engines are asked where they publish what they cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AskForEvents {
    /// They are not.
    Off,
    /// They are, those of which nothing is configured.
    Auto,
}

/// What the host of an endpoint stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resolve {
    /// One endpoint, wherever its name leads when it is connected to.
    Off,
    /// An endpoint for each of its addresses.
    Addresses,
    /// An endpoint for each target of its SRV records.
    Srv,
}

/// The kind of a pool's endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineChoice {
    /// Found out from each endpoint.
    Auto,
    /// Known.
    Is(Engine),
}

impl EngineChoice {
    /// The engine, when it is known.
    #[must_use]
    pub fn known(self) -> Option<Engine> {
        match self {
            Self::Auto => None,
            Self::Is(engine) => Some(engine),
        }
    }
}

impl Serialize for EngineChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.known().map_or("auto", Engine::as_str))
    }
}

/// One endpoint.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EndpointConfig {
    /// Where it listens.
    pub url: Url,
    /// What its host stands for.
    pub resolve: Resolve,
    /// What it may do.
    pub role: Role,
    /// Its share against the others.
    #[serde(serialize_with = "short")]
    pub weight: f32,
    /// For policies.
    #[serde(serialize_with = "map")]
    pub labels: Vec<(Box<str>, Box<str>)>,
    /// The key that it is shown in the place of the pool's.
    pub api_key: Option<SecretSource>,
    /// Where its engine publishes what it caches.
    pub kv_events: Option<EventSource>,
    /// Where its engine introduces prefill and decode to each other.
    pub bootstrap_port: Option<u16>,
}

fn millis<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(whole_millis(*time))
}

fn millis_option<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(whole_millis).serialize(serializer)
}

fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn path_option<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.to_string_lossy()).serialize(serializer)
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(time.as_secs())
}

fn mib<S: Serializer>(bytes: &usize, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64((*bytes >> 20) as u64)
}

fn map<S: Serializer>(pairs: &[(Box<str>, Box<str>)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}

/// The shortest decimal that reads back as the same `f32`.
fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_else(|_| f64::from(value))
}

pub(super) fn short<S: Serializer>(value: &f32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(shortest(*value))
}

fn short_option<S: Serializer>(value: &Option<f32>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => short(value, serializer),
        None => serializer.serialize_none(),
    }
}
