//! Every key that a configuration may hold: the one source of bounds, defaults and documentation.

mod plugins;

pub use self::plugins::{BESIDE, BESIDE_NEXT, GUARDRAILS, PLUGIN, PLUGINS, SHARE};

/// What a value must be.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Any text.
    Text,
    /// `HOST:PORT`.
    Listen,
    /// `true` or `false`.
    Flag,
    /// A whole number within these bounds.
    Integer(u64, u64),
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
        key("listen", Kind::Listen, r#""127.0.0.1:8080""#, "Where clients connect."),
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
        optional("plugins", Table(&PLUGINS), "The watched directory."),
        optional("limits", Table(&LIMITS), "Bounds of the proxy itself."),
        optional("scrape", Table(&SCRAPE), "How endpoints are asked for their metrics."),
        optional("plugin", Tables(&PLUGIN), "One plugin; those that are not named run with the defaults."),
        optional(
            "chain",
            Tables(&CHAIN),
            "Plugins that serve a pool together; without one every active plugin serves every pool.",
        ),
        optional("pool", Tables(&POOL), "Endpoints that serve the same models."),
    ],
};

/// `[limits]`
pub static LIMITS: Section = Section {
    title: "[limits]",
    keys: &[
        key(
            "body_bytes",
            Bytes(1_024, 16 * GIB),
            r#""64 MiB""#,
            "Longest request body; a longer one is answered 413.",
        ),
        key(
            "header_bytes",
            Bytes(8_192, 1 << 20),
            r#""64 KiB""#,
            "Longest request head; a longer one is answered 431.",
        ),
        key("connections", Integer(1, 1_000_000), "10000", "Client connections at a time."),
        key(
            "header_timeout_ms",
            Integer(10, HOUR_MS),
            "30000",
            "Time in which a client must send a request's head.",
        ),
        key(
            "body_timeout_ms",
            Integer(10, HOUR_MS),
            "60000",
            "Time in which a client must send more of a body that it began.",
        ),
        key(
            "drain_timeout_ms",
            Integer(0, 24 * HOUR_MS),
            "30000",
            "Time that running requests have when the proxy shuts down.",
        ),
        key(
            "policy_ms",
            Integer(1, 10_000),
            "10",
            "CPU time that all policies of one request have together; the rest then take their defaults.",
        ),
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
        key("endpoints", Items(&ENDPOINT), "[]", "Its endpoints: a URL, or a table."),
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
        optional("queue", Table(&QUEUE), "What waits in front of this pool."),
    ],
};

/// An item of a pool's `endpoints`.
pub static ENDPOINT: Section = Section {
    title: "pool.endpoints",
    keys: &[
        required("url", Text, "`http://HOST:PORT`; without a scheme it is http."),
        key("role", Word(&["both", "prefill", "decode"]), r#""both""#, "What it may do."),
        key("weight", Number(0.001, 1e6), "1.0", "Its share against the others, for policies."),
        key("labels", Map, "{}", "For policies, under label:KEY."),
        optional(
            "kv_events",
            Kind::Short(&KV_EVENTS),
            "Where its engine publishes what it caches. None: what the pool's `kv_events` says.",
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

/// A pool's `queue`.
pub static QUEUE: Section = Section {
    title: "[pool.queue]",
    keys: &[
        key("max_requests", Integer(0, 10_000_000), "10000", "Requests that wait at most; more are refused."),
        key("max_bytes", Bytes(0, 1 << 40), r#""1 GiB""#, "Bytes of bodies that wait at most."),
        key("ttl_ms", Integer(1, 24 * HOUR_MS), "60000", "Time that a request waits at most."),
        key(
            "empty_ttl_ms",
            Integer(1, 24 * HOUR_MS),
            "30000",
            "The same while the pool has no endpoint that can be used.",
        ),
    ],
};
