//! The keys of plugins.

use super::Kind::{Bytes, Flag, Integer, Json, Number, Table, Text, Texts, Word, Words};
use super::{GIB, HOUR_MS, Kind, Section, key, optional, required};

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
        key(
            "files",
            Flag,
            "false",
            "Whether a file that replaces the version in force is held to them too, for one window.",
        ),
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
