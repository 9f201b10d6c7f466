//! From a parsed file to a [`Config`], section by section.

mod net;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;

use self::net::{health, pool_tls, tls};
use super::callers::{admin_tokens, callers, objectives, open_admin, tenants};
use super::error::nearest;
use super::model::{
    AskForEvents, ChainConfig, ChainUse, Config, DialectChoice, EndpointConfig, EngineChoice, EnginePriority,
    Forwarded, Grants, Guardrails, HttpVersion, Limits, Listen, Mode, PluginConfig, PoolConfig, Resolve,
    Scrape, Traceparent, TrialMode, Unlisted, Wasi, Watch, WatchMode,
};
use super::queue::queue;
use super::read::{Item, Table};
use super::secret::secret;
use super::supply::supply;
use crate::types::{Attach, EventSource, Publisher, Role, TcpAddress, Url};

/// Characters of a name at most: names become file names, metric labels and parts of URLs.
pub(crate) const NAME_LENGTH: usize = 64;

/// Reads the whole. `dir` is what relative paths are relative to.
pub(super) fn config(root: &Table<'_>, dir: &Path) -> Config {
    let watched = root.table("plugins");
    let chains = chains(root);
    let pools = pools(root, &chains, dir);
    let tenants = tenants(root);
    let (supply, compile) = supply(&watched);
    let config = Config {
        listen: root.with("listen", listen).unwrap_or_else(|| Listen(String::new())),
        admin: root.with("admin", listen).unwrap_or_else(|| Listen(String::new())),
        state_dir: dir.join(&*root.text("state_dir")),
        observe: root.flag("observe"),
        plugins_dir: watched.text_option("dir").map(|path| dir.join(&*path)),
        unlisted: watched.word("unlisted").unwrap_or(Unlisted::Refuse),
        guardrails: guardrails(&watched.table("guardrails")),
        watch: Watch {
            mode: watched.word("watch").unwrap_or(WatchMode::Auto),
            poll: watched.millis("poll_ms"),
        },
        supply,
        compile,
        tls: tls(&root.table("tls"), dir),
        forwarded: root.word("forwarded").unwrap_or(Forwarded::Append),
        traceparent: root.word("traceparent").unwrap_or(Traceparent::Pass),
        limits: limits(&root.table("limits")),
        scrape: scrape(&root.table("scrape")),
        callers: callers(&root.table("callers"), &tenants),
        tenants,
        objectives: objectives(root),
        admin_tokens: admin_tokens(root, dir),
        plugins: plugins(root),
        chains,
        pools,
    };
    if config.admin.socket().is_some() {
        root.error("admin", "is no Unix socket; write `HOST:PORT`", None);
    }
    if config.listen == config.admin && !config.listen.any_port() {
        root.error("admin", "is the same address as `listen`", None);
    }
    if let Some(problem) = open_admin(&config.admin, &config.admin_tokens)
        && !config.admin.as_str().is_empty()
    {
        root.error("admin", problem, None);
    }
    config
}

fn listen(item: &Item<'_, '_>) -> Option<Listen> {
    Listen::parse(item.text()?).map_err(|problem| item.error(problem)).ok()
}

fn guardrails(table: &Table<'_>) -> Guardrails {
    let number = |name| table.number(name).unwrap_or_default();
    Guardrails {
        window: table.seconds("window_s"),
        min_samples: table.u32("min_samples"),
        ttft_ratio: number("ttft_ratio"),
        ttft_slack: table.millis("ttft_slack_ms"),
        hit_ratio_drop: number("hit_ratio_drop"),
        error_rate: number("error_rate"),
        preemption_ratio: number("preemption_ratio"),
        herding: number("herding"),
        files: table.flag("files"),
    }
}

fn limits(table: &Table<'_>) -> Limits {
    Limits {
        body_bytes: table.usize("body_bytes"),
        header_bytes: table.usize("header_bytes"),
        connections: table.usize("connections"),
        header_timeout: table.millis("header_timeout_ms"),
        body_timeout: table.millis("body_timeout_ms"),
        drain_timeout: table.millis("drain_timeout_ms"),
        handover_timeout: table.millis("handover_timeout_ms"),
        write_timeout: table.millis("write_timeout_ms"),
        requests: table.usize("requests"),
        buffered_bytes: table.usize("buffered_bytes"),
        policy: table.millis("policy_ms"),
    }
}

fn scrape(table: &Table<'_>) -> Scrape {
    Scrape {
        interval: table.millis("interval_ms"),
        busy_interval: table.millis("busy_interval_ms").min(table.millis("interval_ms")),
        timeout: table.millis("timeout_ms"),
        models_interval: table.millis("models_interval_ms"),
        page_bytes: table.usize("page_bytes"),
    }
}

fn plugins(root: &Table<'_>) -> Vec<PluginConfig> {
    let mut names = BTreeSet::new();
    root.tables("plugin").iter().map(|table| plugin(table, &mut names)).collect()
}

fn plugin(table: &Table<'_>, names: &mut BTreeSet<Box<str>>) -> PluginConfig {
    let name = unique_name(table, names);
    let mode = match (name.strip_suffix(".next"), mode(table)) {
        (None, mode) => mode.unwrap_or(Mode::Active),
        (Some(_), None) => Mode::Trial(TrialMode::Shadow),
        (Some(plugin), Some(Mode::Active)) => {
            let message = format!(
                "a candidate becomes active by `POST /plugins/{plugin}/promote` or under the name `{plugin}`"
            );
            table.error("mode", message, Some("shadow"));
            Mode::Off
        }
        (Some(_), Some(mode)) => mode,
    };
    let profiles = table.words("profiles");
    if profiles.is_empty() {
        table.error("profiles", "names no profile; `mode = \"off\"` turns a plugin off", None);
    }
    PluginConfig {
        name,
        weight: table.number("weight"),
        mode,
        grant: grants(table),
        profiles,
        on_error: table.word("on_error").unwrap_or_default(),
        on_empty: table.word("on_empty").unwrap_or_default(),
        required: table.flag("required"),
        deadline: table.millis("deadline_ms"),
        memory_bytes: table.usize("memory_mib").saturating_mul(1 << 20),
        wasi: table.word("wasi").unwrap_or(Wasi::None),
        config: table.json("config").unwrap_or_default(),
    }
}

/// The mode that a table says, if it says one.
pub(super) fn mode(table: &Table<'_>) -> Option<Mode> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Word {
        Active,
        Off,
        Shadow,
    }
    let is_table = table.with("mode", |item| Some(item.value().as_table().is_some()))?;
    if is_table {
        return share(&table.table("mode")).map(Mode::Trial);
    }
    Some(match table.word("mode")? {
        Word::Active => Mode::Active,
        Word::Off => Mode::Off,
        Word::Shadow => Mode::Trial(TrialMode::Shadow),
    })
}

fn share(table: &Table<'_>) -> Option<TrialMode> {
    let canary = table.number("canary").map(TrialMode::Canary);
    let endpoints = table.u32_option("endpoints").map(TrialMode::Endpoints);
    let pools = table.texts("pools");
    let pools = (!pools.is_empty()).then_some(TrialMode::Pools(pools));
    let mut said = [canary, endpoints, pools].into_iter().flatten();
    match (said.next(), said.next()) {
        (Some(share), None) => Some(share),
        _ => {
            table.error("", "expected exactly one of canary, endpoints and pools", None);
            None
        }
    }
}

fn grants(table: &Table<'_>) -> Grants {
    let mut grants = Grants::default();
    let headers = table.each("grant", |item| {
        let text = item.text()?;
        match text.split_once(':') {
            None if text == "body" => Some(None),
            Some(("header", name)) => match http::HeaderName::from_bytes(name.as_bytes()) {
                Ok(name) => Some(Some(Box::from(name.as_str()))),
                Err(_) => {
                    item.error(format!("`{name}` is no header's name"));
                    None
                }
            },
            _ => {
                item.error(format!("`{text}` cannot be granted, only \"body\" and \"header:NAME\""));
                None
            }
        }
    });
    for header in headers {
        match header {
            None => grants.body = true,
            Some(header) if grants.headers.contains(&header) => {}
            Some(header) => grants.headers.push(header),
        }
    }
    grants
}

fn chains(root: &Table<'_>) -> Vec<ChainConfig> {
    let mut names = BTreeSet::new();
    let chain = |table: &Table<'_>| {
        let mut used = BTreeSet::new();
        ChainConfig {
            name: unique_name(table, &mut names),
            plugins: table.tables("plugins").iter().map(|table| chain_use(table, &mut used)).collect(),
        }
    };
    root.tables("chain").iter().map(chain).collect()
}

fn chain_use(table: &Table<'_>, used: &mut BTreeSet<Box<str>>) -> ChainUse {
    let plugin = table.text("use");
    if !plugin.is_empty() && !used.insert(plugin.clone()) {
        table.error("use", format!("`{plugin}` is named twice in this chain"), None);
    }
    ChainUse { plugin, weight: table.number("weight"), config: table.json("config") }
}

/// What pools must not share.
#[derive(Default)]
struct Taken {
    names: BTreeSet<Box<str>>,
    /// Endpoint to pool.
    endpoints: BTreeMap<String, Box<str>>,
    /// Model or alias to pool.
    models: BTreeMap<Box<str>, Box<str>>,
}

fn pools(root: &Table<'_>, chains: &[ChainConfig], dir: &Path) -> Vec<PoolConfig> {
    let mut taken = Taken::default();
    root.tables("pool").iter().map(|table| pool(table, chains, dir, &mut taken)).collect()
}

fn pool(table: &Table<'_>, chains: &[ChainConfig], dir: &Path, taken: &mut Taken) -> PoolConfig {
    let name = unique_name(table, &mut taken.names);
    let chain = table.text("chain");
    let implied = chains.is_empty() && &*chain == super::DEFAULT;
    if !implied && !chain.is_empty() && chains.iter().all(|known| known.name != chain) {
        let near = nearest(&chain, chains.iter().map(|known| &*known.name));
        table.error("chain", format!("no [[chain]] is named `{chain}`"), near);
    }
    let models = table.texts("models");
    let aliases = table.map("aliases");
    for model in &models {
        claim(table, "models", &mut taken.models, model, &name);
    }
    for (alias, model) in &aliases {
        claim(table, "aliases", &mut taken.models, alias, &name);
        if !models.is_empty() && !models.contains(model) {
            let near = nearest(model, models.iter().map(|known| &**known));
            table.error(
                "aliases",
                format!("`{alias}` stands for `{model}`, which is none of this pool's models"),
                near,
            );
        }
    }
    let endpoints =
        table.tables("endpoints").iter().filter_map(|table| endpoint(table, dir, &name, taken)).collect();
    PoolConfig {
        chain,
        models,
        aliases,
        engine: table.with("engine", engine).unwrap_or(EngineChoice::Auto),
        dialect: table.with("dialect", dialect).unwrap_or(DialectChoice::Auto),
        endpoints,
        http_version: table.word("http_version").unwrap_or(HttpVersion::Auto),
        tls: pool_tls(&table.table("tls"), dir),
        connect_timeout: table.millis("connect_timeout_ms"),
        first_byte_timeout: table.millis("first_byte_timeout_ms"),
        idle_timeout: table.millis("idle_timeout_ms"),
        prefill_timeout: table.millis("prefill_timeout_ms"),
        total_timeout: table.millis_option("total_timeout_ms"),
        retry_percent: table.u32("retry_percent"),
        retry_min_per_s: table.u32("retry_min_per_s"),
        inject_usage: table.flag("inject_usage"),
        block_tokens: table.u32("block_tokens"),
        index_bytes: table.usize("index_bytes"),
        session_ttl: table.millis("session_ttl_ms"),
        admin_endpoints: table.flag("admin_endpoints"),
        resolve_every: table.millis("resolve_ms"),
        dns: dns(table),
        ask_for_events: table.word("kv_events").unwrap_or(AskForEvents::Off),
        tokenizer: table.text_option("tokenizer").map(|path| dir.join(&*path)),
        tokenize: table.millis("tokenize_ms"),
        tokenizer_cache_bytes: table.usize("tokenizer_cache_bytes"),
        api_key: secret(table, "api_key", dir),
        engine_priority: table.word("engine_priority").unwrap_or(EnginePriority::Off),
        health: health(&table.table("health")),
        queue: queue(&table.table("queue")),
        name,
    }
}

fn claim(table: &Table<'_>, key: &str, taken: &mut BTreeMap<Box<str>, Box<str>>, model: &str, pool: &str) {
    if let Some(other) = taken.insert(model.into(), pool.into()) {
        let message = match &*other == pool {
            true => format!("`{model}` is named twice"),
            false => format!("`{model}` is already served by pool `{other}`"),
        };
        table.error(key, message, None);
    }
}

fn dns(table: &Table<'_>) -> Option<SocketAddr> {
    table.with("dns", |item| match item.text()?.parse() {
        Ok(server) => Some(server),
        Err(_) => {
            item.error("expected ADDRESS:PORT, such as 10.0.0.53:53");
            None
        }
    })
}

fn engine(item: &Item<'_, '_>) -> Option<EngineChoice> {
    match item.value().as_str() {
        Some("auto") => Some(EngineChoice::Auto),
        _ => item.word().map(EngineChoice::Is),
    }
}

fn dialect(item: &Item<'_, '_>) -> Option<DialectChoice> {
    match item.value().as_str() {
        Some("auto") => Some(DialectChoice::Auto),
        _ => item.word().map(DialectChoice::Is),
    }
}

fn endpoint(table: &Table<'_>, dir: &Path, pool: &str, taken: &mut Taken) -> Option<EndpointConfig> {
    let url = table.with("url", |item| match Url::parse(item.text()?) {
        Ok(url) => Some(url),
        Err(error) => {
            item.error(error.to_string());
            None
        }
    });
    // The rest is read in any case, for its errors.
    let resolve = table.word("resolve").unwrap_or(Resolve::Off);
    let role = table.word("role").unwrap_or(Role::Both);
    let weight = table.number("weight").unwrap_or(1.0);
    let labels = table.map("labels");
    let api_key = secret(table, "api_key", dir);
    let kv_events = table.has("kv_events").then(|| event_source(&table.table("kv_events"))).flatten();
    let bootstrap_port = table.u32_option("bootstrap_port").and_then(|port| u16::try_from(port).ok());
    let url = url?;
    if let Some(other) = taken.endpoints.insert(url.name(), pool.into()) {
        table.error("url", format!("`{}` is already an endpoint of pool `{other}`", url.name()), None);
    }
    Some(EndpointConfig { url, resolve, role, weight, labels, api_key, kv_events, bootstrap_port })
}

fn event_source(table: &Table<'_>) -> Option<EventSource> {
    let address = |name: &str| {
        table.with(name, |item| TcpAddress::parse(item.text()?).map_err(|problem| item.error(problem)).ok())
    };
    let (connect, bind, replay) = (address("connect"), address("bind"), address("replay"));
    if table.is_there() && table.has("connect") == table.has("bind") {
        table.error("", "expected exactly one of connect and bind", None);
    }
    for (name, address) in [("connect", &connect), ("replay", &replay)] {
        if address.as_ref().is_some_and(TcpAddress::is_wildcard) {
            table.error(name, "stands for every address of a machine; name one, or `bind`", None);
        }
    }
    let attach = connect.map(Attach::Connect).or(bind.map(Attach::Bind));
    let ranks = u16::try_from(table.u32("ranks")).unwrap_or(1);
    let first = Publisher { attach: attach?, replay, topic: table.text("topic") };
    let source = EventSource { first, ranks };
    if source.publishers().len() < usize::from(ranks) {
        table.error("ranks", "there are not as many ports behind the first", None);
    }
    Some(source)
}

pub(super) fn unique_name(table: &Table<'_>, taken: &mut BTreeSet<Box<str>>) -> Box<str> {
    let Some(name) = table.with("name", |item| item.text().map(Box::<str>::from)) else {
        return Box::default();
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.is_empty() || name.len() > NAME_LENGTH || name.starts_with('.') || !name.bytes().all(plain) {
        let message =
            format!("a name is 1 to {NAME_LENGTH} of A-Z a-z 0-9 - _ . and does not begin with a dot");
        table.error("name", message, None);
    } else if !taken.insert(name.clone()) {
        table.error("name", format!("`{name}` is named twice"), None);
    }
    name
}
