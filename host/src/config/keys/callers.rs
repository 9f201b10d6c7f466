//! The keys of those who call, and of those who operate.

use super::Kind::{Flag, Integer, Number, Signed, Text, Texts, Word};
use super::{Section, key, optional, required};

const PRIORITY: super::Kind = Signed(i32::MIN as i64, i32::MAX as i64);
/// The largest rate or count.
const MANY: u64 = 4_000_000_000;

/// `[callers]`
pub static CALLERS: Section = Section {
    title: "[callers]",
    keys: &[
        optional(
            "header",
            Text,
            "Header in which a trusted peer, such as a gateway that has checked the caller, names the tenant.",
        ),
        key(
            "trusted",
            Texts,
            "[]",
            "Addresses and networks whose word in `header` is taken; from others it is dropped.",
        ),
        optional("anonymous", Text, "Tenant of requests that show no key. None: they are answered 401."),
    ],
};

/// `[[tenant]]`
pub static TENANT: Section = Section {
    title: "[[tenant]]",
    keys: &[
        required("name", Text, "For policies, metrics and decisions."),
        key(
            "key_hashes",
            Texts,
            "[]",
            "Its API keys as `sha256:HEX`; `sluicegate tenant key` makes a key and prints its hash.",
        ),
        key("weight", Number(0.001, 1e6), "1.0", "Its share against other tenants, for flow control."),
        optional(
            "priority",
            PRIORITY,
            "Priority of requests that ask for none. None: 0, or `max_priority` where that is lower.",
        ),
        key(
            "max_priority",
            PRIORITY,
            "0",
            "Highest priority of its requests; one that asks for more gets this.",
        ),
        optional(
            "requests_per_minute",
            Integer(1, MANY),
            "Requests a minute; so many may come at once after a quiet minute. None: no bound.",
        ),
        optional(
            "tokens_per_minute",
            Integer(1, MANY),
            "Tokens of prompts and answers a minute, in the same way. None: no bound.",
        ),
        optional(
            "max_requests",
            Integer(1, MANY),
            "Requests at a time, those that wait included. None: no bound.",
        ),
        key("models", Texts, "[]", "Models and aliases that it may use. None: all."),
        key(
            "paths",
            Texts,
            "[]",
            "Paths that it may use beside the inference APIs and /v1/models; `*` at the end stands for any rest.",
        ),
        key(
            "isolation",
            Flag,
            "false",
            "Whether its prompts share no cache with those of other tenants: engines are sent a `cache_salt` of its own.",
        ),
    ],
};

/// `[[objective]]`
pub static OBJECTIVE: Section = Section {
    title: "[[objective]]",
    keys: &[
        required("name", Text, "As `x-llm-d-inference-objective` names it."),
        required("priority", PRIORITY, "Priority of its requests; below 0 they are the first to be refused."),
    ],
};

/// `[[admin_token]]`
pub static ADMIN_TOKEN: Section = Section {
    title: "[[admin_token]]",
    keys: &[
        required("name", Text, "Whose it is; stands in the audit."),
        required("token", Text, "Where it lies: \"file:PATH\" or \"env:NAME\". 16 characters or more."),
        key(
            "may",
            Word(&["read", "operate"]),
            r#""read""#,
            "What it is good for; \"operate\" includes \"read\".",
        ),
    ],
};
