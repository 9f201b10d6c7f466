//! Every key that a configuration may hold: the one source of bounds, defaults and documentation.

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
            Kind::Table(section) | Kind::Tables(section) | Kind::Items(section) | Kind::Mode(_, section) => {
                Some(section)
            }
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

use Kind::{Bytes, Flag, Integer, Items, Json, Map, Number, Table, Tables, Text, Texts, Word, Words};

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

/// `[plugins]`
pub static PLUGINS: Section = Section {
    title: "[plugins]",
    keys: &[
        optional(
            "dir",
            Text,
            "Directory that is watched, relative to this file: NAME.wasm replaces the built-in of that name, any other joins its stages. None: nothing is watched.",
        ),
        key(
            "unlisted",
            Word(&["active", "shadow", "refuse"]),
            r#""active""#,
            "What becomes of a file that no [[plugin]] names.",
        ),
        key(
            "watch",
            Word(&["auto", "poll"]),
            r#""auto""#,
            "How changes are noticed: by events where the system sends them and by listing, or by listing alone.",
        ),
        key(
            "poll_ms",
            Integer(50, HOUR_MS),
            "2000",
            "Time between two listings of the directory without an event.",
        ),
        key("allow", Texts, "[]", "SHA-256 of the files that may be loaded, in hex. None: any file."),
        key(
            "keys",
            Texts,
            "[]",
            "Public keys, NAME:BASE64, one of which must have signed every file. None: no signature is asked for.",
        ),
        key(
            "allow_older",
            Flag,
            "false",
            "Whether a file may be replaced by one signed with a lower version.",
        ),
        key("max_bytes", Bytes(1_024, GIB), r#""64 MiB""#, "Longest NAME.wasm; a longer one is not read."),
        key(
            "compile_s",
            Integer(1, 3_600),
            "60",
            "CPU time that compiling one file may take, seconds; the process is killed after ten times that by the clock.",
        ),
        key(
            "compile_mib",
            Integer(64, 1 << 20),
            "3072",
            "Address space of the process that compiles one file, MiB.",
        ),
        optional("guardrails", Table(&GUARDRAILS), "When a candidate that serves requests is rolled back."),
    ],
};

/// `[plugins.guardrails]`
pub static GUARDRAILS: Section = Section {
    title: "[plugins.guardrails]",
    keys: &[
        key(
            "window_s",
            Integer(10, 240),
            "60",
            "Seconds before a trial began, and of it up to now, that are compared for the whole pool.",
        ),
        key(
            "min_samples",
            Integer(2, 1_000_000),
            "50",
            "Requests on either side below which nothing but herding is judged.",
        ),
        key(
            "ttft_ratio",
            Number(0.0, 1e6),
            "1.5",
            "How many times the 90th percentile of the time to first token may be what it was; 0 turns this off.",
        ),
        key(
            "ttft_slack_ms",
            Integer(0, HOUR_MS),
            "50",
            "By how much it may be longer whatever the ratio says.",
        ),
        key(
            "hit_ratio_drop",
            Number(0.0, 1.0),
            "0.15",
            "By how much the share of prompt tokens found in caches may fall; 0 turns this off.",
        ),
        key(
            "error_rate",
            Number(0.0, 1.0),
            "0.02",
            "By how much the share of requests that failed or were refused may rise; 0 turns this off.",
        ),
        key(
            "preemption_ratio",
            Number(0.0, 1e6),
            "2.0",
            "How many times the engines' preemptions by request may be what they were; 0 turns this off.",
        ),
        key(
            "herding",
            Number(0.0, 1.0),
            "0.5",
            "Of what the old version sends past its busiest endpoints, the share that the candidate may put onto its own; 0 turns this off.",
        ),
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

/// `[[plugin]]`
pub static PLUGIN: Section = Section {
    title: "[[plugin]]",
    keys: &[
        required("name", Text, "The file's name without `.wasm`; the plugin's identity."),
        optional("weight", Number(0.0, 1e6), "Factor of its scores. None: what the plugin says of itself."),
        optional(
            "mode",
            Kind::Mode(&["active", "off", "shadow"], &SHARE),
            "Whether it runs: \"active\" (what holds without it), \"off\", or \"shadow\", asked and not heard. A table is for its candidate `NAME.next.wasm`, as it is for a [[plugin]] named `NAME.next`, whose default is \"shadow\".",
        ),
        key(
            "grant",
            Texts,
            "[]",
            "What it may read beside the facts of a request: \"body\", \"header:NAME\".",
        ),
        key(
            "profiles",
            Words(&["decode", "prefill"]),
            r#"["decode", "prefill"]"#,
            "The candidates that it judges.",
        ),
        key(
            "on_error",
            Word(&["default", "reject"]),
            r#""default""#,
            "What a failed call means: the stage's default, or 503.",
        ),
        key(
            "on_empty",
            Word(&["reject", "ignore"]),
            r#""reject""#,
            "What it means when it filters out every candidate: 503, or that it is not heard.",
        ),
        key("required", Flag, "false", "Whether its pools answer 503 while it is set aside."),
        key("deadline_ms", Integer(1, 10_000), "5", "CPU time of one call."),
        key("memory_mib", Integer(1, 4_096), "64", "Memory of one instance, MiB."),
        key(
            "wasi",
            Word(&["none", "stub"]),
            r#""none""#,
            "\"stub\" lets a guest import WASI and answers it with nothing.",
        ),
        key("config", Json, "{}", "Given to the plugin as JSON."),
    ],
};

/// What of the traffic a candidate is given; exactly one of them.
pub static SHARE: Section = Section {
    title: "mode",
    keys: &[
        optional("canary", Number(0.0, 100.0), "Sessions, per cent; a session stays where it is."),
        optional(
            "endpoints",
            Integer(1, 1_000_000),
            "So many endpoints of each pool, and their share of the sessions.",
        ),
        optional("pools", Texts, "These pools, flow control included."),
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
        key("index_bytes", Bytes(1 << 16, 1 << 40), r#""256 MiB""#, "Memory of the prefix index at most."),
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

/// `NAME.toml` beside `NAME.wasm`.
pub static BESIDE: Section = Section {
    title: "",
    keys: &[
        optional("weight", Number(0.0, 1e6), "Factor of its scores."),
        optional("config", Json, "Given to the plugin as JSON."),
    ],
};

/// `NAME.next.toml` beside `NAME.next.wasm`.
pub static BESIDE_NEXT: Section = Section {
    title: "",
    keys: &[
        optional("weight", Number(0.0, 1e6), "Factor of its scores."),
        optional("config", Json, "Given to the plugin as JSON."),
        optional("mode", Kind::Mode(&["shadow", "off"], &SHARE), "How the candidate is tried."),
    ],
};
