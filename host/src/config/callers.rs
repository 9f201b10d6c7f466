//! Who may call, and what each may use: tenants, objectives, and the tokens of the admin API.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use http::HeaderName;
use serde::{Deserialize, Serialize, Serializer};

use super::build::unique_name;
use super::error::nearest;
use super::key_hash::KeyHash;
use super::model::{Listen, short};
use super::network::Network;
use super::read::Table;
use super::secret::{SecretSource, secret};

/// How callers are told apart.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Callers {
    /// The header in which a trusted peer names the tenant.
    #[serde(serialize_with = "header_name")]
    pub header: Option<HeaderName>,
    /// The peers that are trusted with it; none without a header.
    pub trusted: Vec<Network>,
    /// The tenant of those who show no key; none refuses them. It is one of the tenants.
    pub anonymous: Option<Box<str>>,
}

/// One of those who share the endpoints.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TenantConfig {
    /// For metrics, decisions and policies.
    pub name: Box<str>,
    /// Hashes of its keys; no two tenants have one in common.
    pub key_hashes: Vec<KeyHash>,
    /// Its share against the other tenants, for policies.
    #[serde(serialize_with = "short")]
    pub weight: f32,
    /// Priority of requests that ask for none; at most `max_priority`.
    pub priority: i32,
    /// The highest priority that its requests can have.
    pub max_priority: i32,
    /// Requests a minute.
    pub requests_per_minute: Option<u32>,
    /// Tokens a minute, of prompts and answers together.
    pub tokens_per_minute: Option<u32>,
    /// Requests at a time, those that wait included.
    pub max_requests: Option<u32>,
    /// Models that it may use; none: all.
    pub models: Vec<Box<str>>,
    /// Paths that it may use beside the inference APIs.
    pub paths: Vec<Box<str>>,
    /// Whether its prompts share no cache with those of others.
    pub isolation: bool,
}

/// What requests may call their purpose, and what priority that is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Objective {
    /// As requests name it.
    pub name: Box<str>,
    /// The priority of its requests.
    pub priority: i32,
}

/// What a token of the admin API is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// Everything that changes nothing.
    Read,
    /// Everything.
    Operate,
}

/// Who may use the admin API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AdminToken {
    /// Whose it is; stands in the audit.
    pub name: Box<str>,
    /// Where it lies.
    pub token: SecretSource,
    /// What it is good for.
    pub may: Right,
}

/// Reads `[callers]`, which speaks of the tenants.
pub(super) fn callers(table: &Table<'_>, tenants: &[TenantConfig]) -> Callers {
    let header = table.with("header", |item| {
        let name = HeaderName::from_bytes(item.text()?.as_bytes()).ok();
        let name = name.filter(|name| !crate::types::CREDENTIALS.contains(name));
        if name.is_none() {
            item.error("is no header that can name a tenant");
        }
        name
    });
    let trusted = table
        .each("trusted", |item| Network::parse(item.text()?).map_err(|problem| item.error(problem)).ok());
    if header.is_some() && trusted.is_empty() {
        table.error("header", "needs `trusted`: anybody else could name any tenant", None);
    }
    if !trusted.is_empty() && !table.has("header") {
        table.error("trusted", "needs `header`: these peers are trusted with nothing", None);
    }
    let anonymous = table.text_option("anonymous");
    if let Some(name) = &anonymous
        && tenants.iter().all(|tenant| tenant.name != *name)
    {
        let near = nearest(name, tenants.iter().map(|tenant| &*tenant.name));
        table.error("anonymous", format!("no [[tenant]] is named `{name}`"), near);
    }
    let callers = Callers { header, trusted, anonymous };
    if callers.header.is_some() && tenants.is_empty() {
        table.error("header", "needs a [[tenant]] that it can name", None);
    }
    callers
}

/// Reads every `[[tenant]]`.
pub(super) fn tenants(root: &Table<'_>) -> Vec<TenantConfig> {
    let mut names = BTreeSet::new();
    let mut keys = BTreeMap::new();
    let callers = root.table("callers");
    let anonymous = callers.text_option("anonymous");
    let tenant = |table: &Table<'_>| {
        let tenant = tenant(table, &mut names, &mut keys);
        let called = callers.has("header") || anonymous.as_deref() == Some(&*tenant.name);
        if tenant.key_hashes.is_empty() && !called {
            let message = "nobody can be it: it has no key, and `callers` neither has a header nor takes it for the anonymous one";
            table.error("key_hashes", message, None);
        }
        tenant
    };
    root.tables("tenant").iter().map(tenant).collect()
}

fn tenant(
    table: &Table<'_>,
    names: &mut BTreeSet<Box<str>>,
    keys: &mut BTreeMap<String, Box<str>>,
) -> TenantConfig {
    let name = unique_name(table, names);
    // A text that is no hash may be the key itself: it is not repeated.
    let key_hashes: Vec<KeyHash> = table.each("key_hashes", |item| {
        KeyHash::parse(item.value().as_str().unwrap_or_default()).map_err(|problem| item.error(problem)).ok()
    });
    for (n, hash) in key_hashes.iter().enumerate() {
        if let Some(other) = keys.insert(hash.to_string(), name.clone()) {
            let message = format!("number {} is already a key of `{other}`", n + 1);
            table.error("key_hashes", message, None);
        }
    }
    let max_priority = table.i32("max_priority").unwrap_or_default();
    let priority = table.i32("priority").unwrap_or(max_priority.min(0));
    if priority > max_priority {
        table.error("priority", format!("is already above `max_priority`, {max_priority}"), None);
    }
    TenantConfig {
        name,
        key_hashes,
        weight: table.number("weight").unwrap_or(1.0),
        priority,
        max_priority,
        requests_per_minute: table.u32_option("requests_per_minute"),
        tokens_per_minute: table.u32_option("tokens_per_minute"),
        max_requests: table.u32_option("max_requests"),
        models: table.texts("models"),
        paths: table.texts("paths"),
        isolation: table.flag("isolation"),
    }
}

/// Reads every `[[objective]]`.
pub(super) fn objectives(root: &Table<'_>) -> Vec<Objective> {
    let mut names = BTreeSet::new();
    let objective = |table: &Table<'_>| Objective {
        name: unique_name(table, &mut names),
        priority: table.i32("priority").unwrap_or_default(),
    };
    root.tables("objective").iter().map(objective).collect()
}

/// Reads every `[[admin_token]]`.
pub(super) fn admin_tokens(root: &Table<'_>, dir: &Path) -> Vec<AdminToken> {
    let mut names = BTreeSet::new();
    let token = |table: &Table<'_>| {
        let name = unique_name(table, &mut names);
        let may = table.word("may").unwrap_or(Right::Read);
        Some(AdminToken { name, token: secret(table, "token", dir)?, may })
    };
    root.tables("admin_token").iter().filter_map(token).collect()
}

/// Why an admin API at this address cannot be left open, when it cannot.
pub(super) fn open_admin(admin: &Listen, tokens: &[AdminToken]) -> Option<String> {
    (tokens.is_empty() && !admin.is_loopback()).then(|| {
        format!(
            "`{admin}` is reached by others than this machine: name an [[admin_token]], or a loopback address"
        )
    })
}

fn header_name<S: Serializer>(name: &Option<HeaderName>, serializer: S) -> Result<S::Ok, S::Error> {
    name.as_ref().map(HeaderName::as_str).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigErrors, from_text, print};

    fn read(text: &str) -> Result<crate::config::Config, ConfigErrors> {
        from_text("t.toml", text, Path::new("/etc/s"))
    }

    #[test]
    fn tenants_are_read_and_printed_without_secrets() {
        let text = format!(
            "admin = \"0.0.0.0:9090\"\n[callers]\nheader = \"X-Tenant\"\ntrusted = [\"10.0.0.0/8\"]\nanonymous = \"free\"\n\
             [[tenant]]\nname = \"acme\"\nkey_hashes = [\"{}\"]\nmax_priority = 5\nweight = 2\nisolation = true\n\
             requests_per_minute = 60\n[[tenant]]\nname = \"free\"\nmax_priority = -1\n\
             [[objective]]\nname = \"batch\"\npriority = -10\n\
             [[admin_token]]\nname = \"ops\"\ntoken = \"file:ops.token\"\nmay = \"operate\"\n",
            KeyHash::of("k")
        );
        let config = read(&text).unwrap();
        assert_eq!(config.callers.header.as_ref().map(HeaderName::as_str), Some("x-tenant"));
        let [acme, free] = &config.tenants[..] else { panic!("{:?}", config.tenants) };
        assert_eq!((acme.priority, acme.max_priority, acme.requests_per_minute), (0, 5, Some(60)));
        assert_eq!((free.priority, free.max_priority), (-1, -1));
        assert_eq!(config.objectives, [Objective { name: "batch".into(), priority: -10 }]);
        assert_eq!(config.admin_tokens[0].token.to_string(), "file:/etc/s/ops.token");
        assert_eq!(read(&print(&config)), Ok(config));
    }

    #[test]
    fn what_would_leave_a_door_open_is_refused() {
        let hash = KeyHash::of("k");
        let cases = [
            ("admin = \"0.0.0.0:9090\"".into(), "admin: `0.0.0.0:9090` is reached by others"),
            ("[callers]\nheader = \"x-t\"".into(), "callers.header: needs `trusted`"),
            (
                "[callers]\nheader = \"Authorization\"\ntrusted = [\"::1\"]".into(),
                "is no header that can name",
            ),
            ("[callers]\ntrusted = [\"::1\"]".into(), "callers.trusted: needs `header`"),
            ("[callers]\nanonymous = \"x\"".into(), "no [[tenant]] is named `x`"),
            ("[[tenant]]\nname = \"a\"".into(), "nobody can be it"),
            ("[[tenant]]\nname = \"a\"\nkey_hashes = [\"sk-plain\"]".into(), "the key itself is not written"),
            (
                format!(
                    "[[tenant]]\nname = \"a\"\nkey_hashes = [\"{hash}\"]\n[[tenant]]\nname = \"b\"\nkey_hashes = [\"{hash}\"]"
                ),
                "tenant[1].key_hashes: number 1 is already a key of `a`",
            ),
            (
                format!("[[tenant]]\nname = \"a\"\nkey_hashes = [\"{hash}\"]\npriority = 1"),
                "is already above `max_priority`, 0",
            ),
            ("[[admin_token]]\nname = \"a\"\ntoken = \"sk-plain\"".into(), "a secret is not written here"),
        ];
        for (text, expected) in cases {
            let errors = read(&text).unwrap_err().to_string();
            assert!(errors.contains(expected), "{expected}\n{errors}");
            assert!(!errors.contains("sk-plain"), "{errors}");
        }
    }
}
