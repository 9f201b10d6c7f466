//! Every key that a configuration may hold: the one source of bounds, defaults and documentation.

mod callers;
mod health;
mod limits;
mod net;
mod plugins;
mod queue;

pub use self::callers::{ADMIN_TOKEN, CALLERS, OBJECTIVE, TENANT};
pub use self::health::HEALTH;
pub use self::limits::LIMITS;
pub use self::net::{POOL_TLS, TLS};
pub use self::plugins::{BESIDE, BESIDE_NEXT, GUARDRAILS, PLUGIN, PLUGINS, SHARE};
pub use self::queue::{BANDS, QUEUE};

/// What a value must be.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Any text.
    Text,
    /// `HOST:PORT` or `unix:/PATH`.
    Listen,
    /// `true` or `false`.
    Flag,
    /// A whole number within these bounds.
    Integer(u64, u64),
    /// The same where it may be negative.
    Signed(i64, i64),
    /// A number within these bounds.
    Number(f64, f64),
    /// Bytes: a whole number, or text such as `"64 MiB"`; within these bounds.
    Bytes(u64, u64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of these words, or a table with one of the keys of this section.
    Mode(&'static [&'static str], &'static Section),
    /// A list of texts.
    Texts,
    /// A list of these words.
    Words(&'static [&'static str]),
    /// A table from any key to a text.
    Map,
    /// A table of anything; it becomes JSON.
    Json,
    /// A table with these keys.
    Table(&'static Section),
    /// Any number of tables with these keys.
    Tables(&'static Section),
    /// A table with these keys, or just the value of the first of them.
    Short(&'static Section),
    /// A list whose items are tables with these keys, or just the value of the first of them.
    Items(&'static Section),
}

/// What holds when a key is not there.
#[derive(Debug, Clone, Copy)]
pub enum Otherwise {
    /// That is an error.
    Required,
    /// Nothing: the documentation says what that means.
    Nothing,
    /// This value, written in TOML.
    Is(&'static str),
}

/// One key.
#[derive(Debug)]
pub struct Key {
    /// As it is written.
    pub name: &'static str,
    /// What its value must be.
    pub kind: Kind,
    /// What holds without it.
    pub otherwise: Otherwise,
    /// What it does.
    pub doc: &'static str,
}

/// The keys of one table.
#[derive(Debug)]
pub struct Section {
    /// How the table is headed.
    pub title: &'static str,
    /// Its keys, in the order in which they are printed.
    pub keys: &'static [Key],
}

impl Section {
    /// The key of this name.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

impl Key {
    /// The section below this key.
    #[must_use]
    pub fn section(&self) -> Option<&'static Section> {
        match self.kind {
            Kind::Table(section)
            | Kind::Tables(section)
            | Kind::Items(section)
            | Kind::Short(section)
            | Kind::Mode(_, section) => Some(section),
            _ => None,
        }
    }
}

const fn required(name: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key { name, kind, otherwise: Otherwise::Required, doc }
}

const fn optional(name: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key { name, kind, otherwise: Otherwise::Nothing, doc }
}

const fn key(name: &'static str, kind: Kind, otherwise: &'static str, doc: &'static str) -> Key {
    Key { name, kind, otherwise: Otherwise::Is(otherwise), doc }
}

/// An hour, the longest of most waits.
const HOUR_MS: u64 = 3_600_000;
const GIB: u64 = 1 << 30;

use Kind::{Bytes, Flag, Integer, Items, Json, Map, Number, Table, Tables, Text, Texts, Word};

/// The whole file.
pub static ROOT: Section = Section {
    title: "",
    keys: &[
        key(
            "listen",
            Kind::Listen,
            r#""127.0.0.1:8080""#,
            "Where clients connect; a Unix socket is written `unix:/PATH`.",
        ),
        key(
            "admin",
            Kind::Listen,
            r#""127.0.0.1:9090""#,
            "Where the admin API, metrics and health checks answer.",
        ),
        key(
            "state_dir",
            Text,
            r#""state""#,
            "Directory of what must outlive a restart; relative to this file.",
        ),
        key("observe", Flag, "false", "Policies are asked and their decisions recorded, but not followed."),
        key(
            "forwarded",
            Word(&["append", "replace", "off"]),
            r#""append""#,
            "What `x-forwarded-for`, `-proto`, `-host` and `forwarded` tell engines: the client's address after what it says \
             itself, that alone, or nothing.",
        ),
        key(
            "traceparent",
            Word(&["pass", "make"]),
            r#""pass""#,
            "\"make\" gives requests without a W3C trace context one; a valid one is passed on in any case.",
        ),
        optional("plugins", Table(&PLUGINS), "The watched directory."),
        optional("tls", Table(&TLS), "TLS for clients. None: they are served in the clear."),
        optional("limits", Table(&LIMITS), "Bounds of the proxy itself."),
        optional("scrape", Table(&SCRAPE), "How endpoints are asked for their metrics."),
        optional("callers", Table(&CALLERS), "How callers are told apart."),
        optional(
            "tenant",
            Tables(&TENANT),
            "One of those who share the endpoints; with one, callers need a key.",
        ),
        optional("objective", Tables(&OBJECTIVE), "What requests may call their purpose, and its priority."),
        optional(
            "admin_token",
            Tables(&ADMIN_TOKEN),
            "A token of the admin API; with one, every call but the health checks needs one.",
        ),
        optional("plugin", Tables(&PLUGIN), "One plugin; those that are not named run with the defaults."),
        optional(
            "chain",
            Tables(&CHAIN),
            "Plugins that serve a pool together; without one every active plugin serves every pool.",
        ),
        optional("pool", Tables(&POOL), "Endpoints that serve the same models."),
    ],
};

/// `[scrape]`
pub static SCRAPE: Section = Section {
    title: "[scrape]",
    keys: &[
        key(
            "interval_ms",
            Integer(50, HOUR_MS),
            "1000",
            "Time between two readings of an endpoint's metrics.",
        ),
        key(
            "busy_interval_ms",
            Integer(50, HOUR_MS),
            "200",
            "The same while the endpoint has much to do; never longer than `interval_ms`.",
        ),
        key("timeout_ms", Integer(10, 60_000), "2000", "Time in which an endpoint must answer."),
        key(
            "models_interval_ms",
            Integer(50, 24 * HOUR_MS),
            "30000",
            "Time between two readings of an endpoint's list of models.",
        ),
        key("page_bytes", Bytes(1_024, GIB), r#""8 MiB""#, "Longest answer that is read."),
    ],
};

/// `[[chain]]`
pub static CHAIN: Section = Section {
    title: "[[chain]]",
    keys: &[
        required("name", Text, "By which pools refer to it."),
        key(
            "plugins",
            Items(&CHAIN_USE),
            "[]",
            "Its plugins, in the order in which they are asked; one that is not loaded is left out.",
        ),
    ],
};

/// An item of a chain's `plugins`.
pub static CHAIN_USE: Section = Section {
    title: "chain.plugins",
    keys: &[
        required("use", Text, "The plugin's name."),
        optional("weight", Number(0.0, 1e6), "Factor of its scores in this chain."),
        optional("config", Json, "Its configuration in this chain, in the place of the plugin's own."),
    ],
};

/// `[[pool]]`
pub static POOL: Section = Section {
    title: "[[pool]]",
    keys: &[
        required("name", Text, "For metrics and the admin API."),
        key("chain", Text, r#""default""#, "The chain whose plugins serve it."),
        key("models", Texts, "[]", "Models that it serves. None: what its endpoints list at /v1/models."),
        key(
            "aliases",
            Map,
            "{}",
            "Other names of models: alias = \"model\". The engine is sent the model's name.",
        ),
        key(
            "engine",
            Word(&["auto", "vllm", "sglang", "trtllm", "llamacpp"]),
            r#""auto""#,
            "The kind of its endpoints.",
        ),
        key(
            "dialect",
            Word(&["auto", "nixl", "mooncake", "sglang", "storage", "offloading", "trtllm", "moriio"]),
            r#""auto""#,
            "How prefill hands over to decode. \"auto\": as its engines usually do, and only where endpoints have one role alone.",
        ),
        key("endpoints", Items(&ENDPOINT), "[]", "Its endpoints: a URL, or a table."),
        key(
            "http_version",
            Word(&["auto", "1", "2"]),
            r#""auto""#,
            "The version of HTTP that is spoken to its endpoints: \"auto\" is 2 where an https endpoint offers it, else 1.1; \
             \"2\" is spoken in the clear too, by prior knowledge.",
        ),
        optional("tls", Table(&POOL_TLS), "Whom of its https endpoints to believe."),
        key(
            "connect_timeout_ms",
            Integer(10, HOUR_MS),
            "2000",
            "Time in which an endpoint must accept a connection.",
        ),
        key(
            "first_byte_timeout_ms",
            Integer(10, 24 * HOUR_MS),
            "600000",
            "Time in which an answer must begin.",
        ),
        key(
            "idle_timeout_ms",
            Integer(10, 24 * HOUR_MS),
            "300000",
            "Time in which an answer that began must go on.",
        ),
        optional(
            "total_timeout_ms",
            Integer(10, 24 * HOUR_MS),
            "Time from a request's arrival to the end of its answer, its wait included. None: no bound but the others.",
        ),
        key(
            "prefill_timeout_ms",
            Integer(10, 24 * HOUR_MS),
            "60000",
            "Time in which a prefill for another endpoint must be done; then it is tried elsewhere.",
        ),
        key(
            "retry_percent",
            Integer(0, 100),
            "20",
            "Share of requests that may be retried after a 5xx or a timeout.",
        ),
        key("retry_min_per_s", Integer(0, 1_000_000), "10", "Retries a second that are always allowed."),
        key(
            "inject_usage",
            Flag,
            "false",
            "Ask engines for the usage of streams; the extra chunk is not passed on.",
        ),
        key("block_tokens", Integer(1, 65_536), "16", "Tokens of one block of the prefix index."),
        key(
            "index_bytes",
            Bytes(1 << 16, 1 << 40),
            r#""256 MiB""#,
            "Memory of the prefix index at most; what engines report has as much again.",
        ),
        key(
            "session_ttl_ms",
            Integer(1_000, 7 * 24 * HOUR_MS),
            "3600000",
            "Time after its last request for which a session, and an answer that an engine has kept, is remembered.",
        ),
        key(
            "admin_endpoints",
            Flag,
            "false",
            "Whether the admin API may add endpoints, and take away those that it has added.",
        ),
        key(
            "resolve_ms",
            Integer(50, HOUR_MS),
            "5000",
            "Time between two look-ups of hosts whose `resolve` is not \"off\".",
        ),
        optional(
            "dns",
            Text,
            "`ADDRESS:PORT` of the DNS server that is asked for SRV records. None: those of the system.",
        ),
        key(
            "kv_events",
            Word(&["off", "auto"]),
            r#""off""#,
            "\"auto\" asks engines where they publish what they cache, at vLLM's /kv_event_sources.",
        ),
        optional(
            "tokenizer",
            Text,
            "Folder of the model's tokenizer and chat template, or its entry in a Hugging Face hub cache; relative to this file. None: prompts are measured by their bytes.",
        ),
        key(
            "tokenize_ms",
            Integer(1, 10_000),
            "20",
            "Time that a request waits for its tokens; later than that it goes on without them.",
        ),
        key(
            "tokenizer_cache_bytes",
            Bytes(0, 1 << 40),
            r#""64 MiB""#,
            "Memory of what was tokenized before at most.",
        ),
        optional(
            "api_key",
            Text,
            "Where the key lies that its endpoints are shown, \"file:PATH\" or \"env:NAME\"; it takes the place of the caller's.",
        ),
        key(
            "engine_priority",
            Word(&["off", "lower-first", "higher-first"]),
            r#""off""#,
            "Whether engines are told band and rank in the body's `priority`, in the place of what the client said there: vLLM takes the lower first.",
        ),
        optional("health", Table(&HEALTH), "When an endpoint is out, and how it comes back."),
        optional("queue", Table(&QUEUE), "What waits in front of this pool."),
    ],
};

/// An item of a pool's `endpoints`.
pub static ENDPOINT: Section = Section {
    title: "pool.endpoints",
    keys: &[
        required(
            "url",
            Text,
            "`http://HOST:PORT`, `https://HOST:PORT` or `unix:/PATH`; without a scheme it is http.",
        ),
        key(
            "resolve",
            Word(&["off", "addresses", "srv"]),
            r#""off""#,
            "What its host stands for: one endpoint, one for each address (A and AAAA) that it is resolved to, or one for each target of its SRV records.",
        ),
        key("role", Word(&["both", "prefill", "decode"]), r#""both""#, "What it may do."),
        key("weight", Number(0.001, 1e6), "1.0", "Its share against the others, for policies."),
        key("labels", Map, "{}", "For policies, under label:KEY."),
        optional("api_key", Text, "Where its own key lies. None: the pool's."),
        optional(
            "kv_events",
            Kind::Short(&KV_EVENTS),
            "Where its engine publishes what it caches. None: what the pool's `kv_events` says.",
        ),
        optional(
            "bootstrap_port",
            Integer(1, 65_535),
            "Port at which its engine introduces prefill and decode to each other. None: its dialect's usual one (8998; offloading 7777).",
        ),
    ],
};

/// An endpoint's `kv_events`.
pub static KV_EVENTS: Section = Section {
    title: "pool.endpoints.kv_events",
    keys: &[
        optional("connect", Text, "`tcp://HOST:PORT` where the engine's publisher listens."),
        optional(
            "bind",
            Text,
            "`tcp://HOST:PORT` where we listen, for an engine whose publisher connects; `*` is every address. \
             Whoever reaches it can say what the engine caches.",
        ),
        optional("replay", Text, "`tcp://HOST:PORT` where the engine can be asked for what was missed."),
        key("topic", Text, r#""""#, "With what the topic of its messages begins."),
        key(
            "ranks",
            Integer(1, 256),
            "1",
            "Data-parallel ranks; each publishes and replays one port further on.",
        ),
    ],
};
