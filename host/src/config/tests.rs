use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;

use super::keys::{Key, Kind, Otherwise, ROOT, Section};
use super::*;
use crate::types::{Attach, Engine, EventSource, OnError, Profile, Role, TcpAddress};

fn read(text: &str) -> Result<Config, ConfigErrors> {
    from_text("f.toml", text, Path::new("/etc/s"))
}

fn errors(text: &str) -> Vec<String> {
    read(text).unwrap_err().to_string().lines().map(str::to_owned).collect()
}

/// The example of the design, with what it leaves to a choice spelt out.
const EXAMPLE: &str = r#"
listen = "127.0.0.1:8080"
admin  = "127.0.0.1:9090"
state_dir = "state"

[plugins]
dir = "plugins"
unlisted = "refuse"
watch = "poll"
poll_ms = 250

[[plugin]]
name = "prefix-affinity"
weight = 1.5
mode = "active"
grant = ["body", "header:X-Tenant"]
profiles = ["decode"]
on_error = "reject"
required = true
deadline_ms = 7
memory_mib = 32
wasi = "stub"
config = { a = 1, b = [true, "x", 0.5], c = { d = -3 } }

[[plugin]]
name = "fairness.next"
mode = { pools = ["llama"] }

[[plugin]]
name = "pd-split"
mode = { canary = 10 }

[[plugin]]
name = "other"
mode = { endpoints = 2 }

[callers]
header = "X-Tenant"
trusted = ["10.0.0.0/8"]
anonymous = "free"

[[tenant]]
name = "free"
requests_per_minute = 20
tokens_per_minute = 1000
max_requests = 2

[[objective]]
name = "batch"
priority = -10

[tls]
cert = "tls.crt"
key = "tls.key"
client_ca = "ca.crt"

[[admin_token]]
name = "ops"
token = "env:OPS_TOKEN"
may = "operate"

[[chain]]
name = "default"
plugins = ["fairness", { use = "prefix-affinity", weight = 2, config = {} }, "pd-split"]

[[pool]]
name = "llama"
chain = "default"
models = ["llama-3.1-8b"]
aliases = { "gpt-4o" = "llama-3.1-8b" }
engine = "vllm"
index_bytes = "1 GiB"
dns = "10.0.0.53:53"
queue = { max_requests = 5, ttl_ms = 100 }
api_key = "file:keys/llama"
total_timeout_ms = 600000
health = { path = "/health" }
tls = { ca = "ca.crt", cert = "own.crt", key = "own.key", server_name = "engine" }
kv_events = "auto"
endpoints = [
    "http://10.0.0.1:8000",
    { url = "10.0.0.2:8000", role = "prefill", labels = { zone = "a" }, bootstrap_port = 8998, kv_events = "tcp://10.0.0.2:5557" },
    { url = "10.0.0.3:8000", kv_events = { bind = "tcp://*:5557", replay = "tcp://10.0.0.3:6557", ranks = 2 } },
]
"#;

#[test]
fn the_example_is_read() {
    let config = read(EXAMPLE).unwrap();
    assert_eq!(config.plugins_dir.as_deref(), Some(Path::new("/etc/s/plugins")));
    assert_eq!(config.state_dir, PathBuf::from("/etc/s/state"));
    assert_eq!(config.unlisted, Unlisted::Refuse);
    assert_eq!(config.watch, Watch { mode: WatchMode::Poll, poll: Duration::from_millis(250) });
    let plugin = &config.plugins[0];
    assert_eq!((plugin.weight, plugin.on_error, plugin.required), (Some(1.5), OnError::Reject, true));
    assert_eq!(plugin.grant, Grants { body: true, headers: vec!["x-tenant".into()] });
    assert_eq!((plugin.deadline, plugin.memory_bytes), (Duration::from_millis(7), 32 << 20));
    assert_eq!(plugin.config, serde_json::json!({ "a": 1, "b": [true, "x", 0.5], "c": { "d": -3 } }));
    let uses: Vec<_> = config.chains[0].plugins.iter().map(|place| (&*place.plugin, place.weight)).collect();
    assert_eq!(uses, [("fairness", None), ("prefix-affinity", Some(2.0)), ("pd-split", None)]);
    let pool = &config.pools[0];
    assert_eq!(pool.engine, EngineChoice::Is(Engine::Vllm));
    assert_eq!(pool.aliases, [("gpt-4o".into(), "llama-3.1-8b".into())]);
    assert_eq!((pool.index_bytes, pool.queue.pool.requests), (1 << 30, 5));
    assert_eq!(pool.queue.ttl, Duration::from_millis(100));
    assert_eq!(pool.endpoints[1].url.to_string(), "http://10.0.0.2:8000");
    assert_eq!(pool.endpoints[1].role, Role::Prefill);
    assert_eq!(pool.ask_for_events, AskForEvents::Auto);
    let publishers = |place: usize| pool.endpoints[place].kv_events.as_ref().map(EventSource::publishers);
    let address = |text| TcpAddress::parse(text).unwrap();
    assert_eq!(publishers(0), None);
    let one = publishers(1).unwrap();
    assert_eq!((one.len(), &one[0].attach), (1, &Attach::Connect(address("tcp://10.0.0.2:5557"))));
    let two = publishers(2).unwrap();
    assert_eq!(two[1].attach, Attach::Bind(address("tcp://*:5558")));
    assert_eq!(two[1].replay, Some(address("tcp://10.0.0.3:6558")));
}

#[test]
fn nothing_written_is_all_defaults() {
    let config = read("[[plugin]]\nname = \"a\"\n[[pool]]\nname = \"p\"").unwrap();
    assert_eq!((config.listen.as_str(), config.admin.as_str()), ("127.0.0.1:8080", "127.0.0.1:9090"));
    assert_eq!((config.limits.body_bytes, config.limits.header_bytes), (64 << 20, 64 << 10));
    assert_eq!((config.plugins_dir, config.unlisted), (None, Unlisted::Active));
    assert_eq!(config.guardrails, Guardrails::default());
    assert_eq!(config.watch, Watch { mode: WatchMode::Auto, poll: Duration::from_secs(2) });
    let plugin = &config.plugins[0];
    assert_eq!((plugin.weight, plugin.mode.clone(), plugin.wasi), (None, Mode::Active, Wasi::None));
    assert_eq!((plugin.deadline, plugin.memory_bytes), (Duration::from_millis(5), 64 << 20));
    assert_eq!(plugin.profiles, [Profile::Decode, Profile::Prefill]);
    assert_eq!(plugin.config, serde_json::json!({}));
    assert!(config.pools[0].endpoints.is_empty());
    assert_eq!(&*config.pools[0].chain, DEFAULT);
}

#[test]
fn all_errors_come_at_once_with_file_line_key_and_nearest() {
    let text = r#"listne = "a:1"
admin = "nowhere"
deadline_ms = 5
[plugins]
unlisted = "activ"
[[plugin]]
nmae = "x"
memory = 3
[[plugin]]
name = "x"
deadline_ms = 0
weight = -1
config = { when = 2020-01-01, n = nan }
grant = ["head:x", "header:a b", 3]
profiles = []
[[plugin]]
name = "x"
mode = "shadwo"
[[plugin]]
name = "y"
mode = { canary = 10, endpoints = 1 }
[[chain]]
name = "main"
plugins = ["a", { use = "a" }, { weight = 1.0 }, 7]
[[pool]]
name = "p"
chain = "mian"
endpoints = ["http://a:1", { url = "a:1", rol = "prefill" }, "ftp://b"]
engine = "llama"
queue = { max_requests = "many" }
"#;
    assert_eq!(
        errors(text),
        [
            "f.toml:1: listne: unknown key (did you mean `listen`?)",
            "f.toml:2: admin: an address is written `HOST:PORT`, such as `127.0.0.1:8080` or `[::]:8080`, or `unix:/PATH`",
            "f.toml:3: deadline_ms: unknown key; it belongs in [[plugin]]",
            "f.toml:5: plugins.unlisted: `activ` is none of active, shadow, refuse (did you mean `active`?)",
            "f.toml:6: plugin[0].name: is required",
            "f.toml:7: plugin[0].nmae: unknown key (did you mean `name`?)",
            "f.toml:8: plugin[0].memory: unknown key (did you mean `memory_mib`?)",
            "f.toml:11: plugin[1].deadline_ms: expected a whole number from 1 to 10000, found 0",
            "f.toml:12: plugin[1].weight: expected a number from 0 to 1000000, found -1",
            "f.toml:13: plugin[1].config: JSON has no infinity and no NaN",
            "f.toml:14: plugin[1].grant[0]: `head:x` cannot be granted, only \"body\" and \"header:NAME\"",
            "f.toml:14: plugin[1].grant[1]: `a b` is no header's name",
            "f.toml:14: plugin[1].grant[2]: expected text, found 3",
            "f.toml:15: plugin[1].profiles: names no profile; `mode = \"off\"` turns a plugin off",
            "f.toml:17: plugin[2].name: `x` is named twice",
            "f.toml:18: plugin[2].mode: `shadwo` is none of active, off, shadow (did you mean `shadow`?)",
            "f.toml:21: plugin[3].mode: expected exactly one of canary, endpoints and pools",
            "f.toml:24: chain[0].plugins[1].use: `a` is named twice in this chain",
            "f.toml:24: chain[0].plugins[2].use: is required",
            "f.toml:24: chain[0].plugins[3]: expected text or a table, found 7",
            "f.toml:27: pool[0].chain: no [[chain]] is named `mian` (did you mean `main`?)",
            "f.toml:28: pool[0].endpoints[1].rol: unknown key (did you mean `role`?)",
            "f.toml:28: pool[0].endpoints[1].url: `a:1` is already an endpoint of pool `p`",
            "f.toml:28: pool[0].endpoints[2].url: the scheme `ftp` is not spoken, only http and https",
            "f.toml:29: pool[0].engine: `llama` is none of auto, vllm, sglang, trtllm, llamacpp (did you mean `llamacpp`?)",
            "f.toml:30: pool[0].queue.max_requests: expected a whole number from 0 to 10000000, found \"many\"",
        ]
    );
}

#[test]
fn candidates_and_their_shares() {
    let text = r#"
[[plugin]]
name = "x"
mode = { canary = 2.5 }
[[plugin]]
name = "y.next"
mode = { endpoints = 2 }
[[plugin]]
name = "z.next"
[[plugin]]
name = "s"
mode = "shadow"
[[plugin]]
name = "w.next"
mode = { pools = ["a", "b"] }
"#;
    let config = from_text("f.toml", text, Path::new("")).unwrap();
    let modes: Vec<_> = config.plugins.iter().map(|plugin| plugin.mode.clone()).collect();
    let trials = [
        TrialMode::Canary(2.5),
        TrialMode::Endpoints(2),
        TrialMode::Shadow,
        TrialMode::Shadow,
        TrialMode::Pools(vec!["a".into(), "b".into()]),
    ];
    assert_eq!(modes, trials.map(Mode::Trial));
    assert_eq!(from_text("f.toml", &print(&config), Path::new("")).unwrap().plugins, config.plugins);
    assert_eq!(
        errors("[[plugin]]\nname = \"y.next\"\nmode = \"active\"\n"),
        [
            "f.toml:3: plugin[0].mode: a candidate becomes active by `POST /plugins/y/promote` or under the name `y` (did you mean `shadow`?)"
        ]
    );
}

#[test]
fn pools_do_not_share_models_or_endpoints() {
    let text = r#"pool = [
  { name = "a", models = ["m", "m"], endpoints = ["x:1"] },
  { name = "b", models = ["m"], aliases = { k = "l" }, endpoints = ["X:1"] },
  { name = "a" }, { name = "" }, { name = "a/b" },
]"#;
    let errors = errors(text).join("\n");
    for expected in [
        "pool[0].models: `m` is named twice",
        "pool[1].models: `m` is already served by pool `a`",
        "pool[1].aliases: `k` stands for `l`, which is none of this pool's models",
        "pool[1].endpoints[0].url: `x:1` is already an endpoint of pool `a`",
        "pool[2].name: `a` is named twice",
        "pool[3].name: a name is",
        "pool[4].name: a name is",
    ] {
        assert!(errors.contains(expected), "{expected}\n{errors}");
    }
}

#[test]
fn broken_syntax_and_wrong_shapes_are_errors() {
    assert!(errors("listen = \n\nadmin = \"x")[0].starts_with("f.toml:1: "));
    assert_eq!(errors("\npool = 3"), ["f.toml:2: pool: expected tables, each headed [[pool]], found 3"]);
    assert_eq!(
        errors("[pool]\nname = 1")[0],
        "f.toml:1: pool: expected tables, each headed [[pool]], found a table"
    );
    assert_eq!(errors("limits = 3"), ["f.toml:1: limits: expected a table, found 3"]);
    assert_eq!(
        errors("limits.body_bytes = \"9 Mb\""),
        [
            "f.toml:1: limits.body_bytes: expected 1024 to 17179869184 bytes (a whole number, or text such as \"64 MiB\"), found \"9 Mb\""
        ]
    );
    assert_eq!(
        errors("listen = \"[::1]:1\"\nadmin = \"[::1]:1\""),
        ["f.toml:2: admin: is the same address as `listen`"]
    );
    let missing = from_file(Path::new("/no/such.toml")).unwrap_err().to_string();
    assert!(missing.starts_with("/no/such.toml: cannot be read: "), "{missing}");
}

fn backends(backend: &[&str]) -> Flags {
    Flags { backend: backend.iter().map(|text| (*text).into()).collect(), ..Flags::default() }
}

#[test]
fn backends_alone_are_a_configuration() {
    let config =
        from_flags(Flags { listen: Some("0.0.0.0:1".into()), ..backends(&["a:1", "https://b"]) }).unwrap();
    assert_eq!(config.listen.as_str(), "0.0.0.0:1");
    assert_eq!((&*config.pools[0].name, &*config.pools[0].chain), (DEFAULT, DEFAULT));
    let urls: Vec<_> = config.pools[0].endpoints.iter().map(|endpoint| endpoint.url.to_string()).collect();
    assert_eq!(urls, ["http://a:1", "https://b:443"]);
    assert_eq!(config.pools[0].queue, read("pool = [{ name = \"p\" }]").unwrap().pools[0].queue);
}

#[test]
fn flags_override_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.toml");
    std::fs::write(
        &path,
        "chain = [{ name = \"c\" }]\n[[pool]]\nname = \"p\"\nchain = \"c\"\nendpoints = [\"a:1\"]",
    )
    .unwrap();
    let flags =
        Flags { config: Some(path.clone()), plugins: Some("w".into()), observe: true, ..backends(&["b:1"]) };
    let config = from_flags(flags).unwrap();
    assert_eq!((config.pools.len(), &*config.pools[0].name), (1, "p"));
    assert_eq!(config.pools[0].endpoints[0].url.name(), "b:1");
    assert!(config.observe);
    assert_eq!(config.plugins_dir.as_deref(), Some(Path::new("w")));

    std::fs::write(&path, "chain = [{ name = \"c\" }]").unwrap();
    let config = from_flags(Flags { config: Some(path.clone()), ..backends(&["b:1"]) }).unwrap();
    assert_eq!(&*config.pools[0].chain, "c");
    let nothing = from_flags(Flags { config: Some(path), ..Flags::default() }).unwrap_err();
    assert!(nothing.to_string().contains("nothing to serve"), "{nothing}");
}

#[test]
fn wrong_flags_are_named() {
    let flags = Flags { listen: Some("x".into()), ..backends(&["a:1", "a:1", "ftp://x"]) };
    let errors = from_flags(flags).unwrap_err().to_string();
    for expected in
        ["--listen: an address", "--backend: `a:1` is named twice", "--backend: `ftp://x`: the scheme"]
    {
        assert!(errors.contains(expected), "{errors}");
    }
    assert!(from_flags(Flags::default()).unwrap_err().to_string().contains("nothing to serve"));
}

#[test]
fn a_file_beside_a_plugin_may_set_weight_and_config_only() {
    let dir = tempfile::tempdir().unwrap();
    let wasm = dir.path().join("p.wasm");
    assert_eq!(beside(&wasm), Ok(None));
    std::fs::write(dir.path().join("p.toml"), "weight = 2\n[config]\nx = 1").unwrap();
    assert_eq!(
        beside(&wasm),
        Ok(Some(Beside { weight: Some(2.0), config: Some(serde_json::json!({ "x": 1 })), mode: None }))
    );
    std::fs::write(dir.path().join("p.toml"), "grant = [\"body\"]").unwrap();
    let error = beside(&wasm).unwrap_err().to_string();
    assert!(error.ends_with("p.toml:1: grant: unknown key; it belongs in [[plugin]]"), "{error}");
}

fn every_key(section: &'static Section, see: &mut dyn FnMut(&'static Section, &'static Key)) {
    for key in section.keys {
        see(section, key);
        if let Some(below) = key.section() {
            every_key(below, see);
        }
    }
}

#[test]
fn a_source_of_events_is_reached_in_one_way() {
    let text = r#"[[pool]]
name = "p"
endpoints = [
    { url = "a:1", kv_events = "10.0.0.1:5557" },
    { url = "b:1", kv_events = "tcp://*:5557" },
    { url = "c:1", kv_events = { topic = "kv" } },
    { url = "d:1", kv_events = { connect = "tcp://d:1", bind = "tcp://*:1" } },
    { url = "e:1", kv_events = { bind = "tcp://*:65535", ranks = 2 } },
    { url = "f:1", kv_events = 5557 },
]
"#;
    assert_eq!(
        errors(text),
        [
            "f.toml:4: pool[0].endpoints[0].kv_events.connect: an address is written `tcp://HOST:PORT`",
            "f.toml:5: pool[0].endpoints[1].kv_events.connect: stands for every address of a machine; name one, or `bind`",
            "f.toml:6: pool[0].endpoints[2].kv_events: expected exactly one of connect and bind",
            "f.toml:7: pool[0].endpoints[3].kv_events: expected exactly one of connect and bind",
            "f.toml:8: pool[0].endpoints[4].kv_events.ranks: there are not as many ports behind the first",
            "f.toml:9: pool[0].endpoints[5].kv_events: expected text or a table, found 5557",
        ]
    );
}

#[test]
fn every_key_is_printed_and_listed() {
    let printed = print(&read(EXAMPLE).unwrap());
    let listed = schema();
    every_key(&ROOT, &mut |section, key| {
        assert!(printed.contains(key.name), "{}.{}\n{printed}", section.title, key.name);
        assert!(listed.as_array().unwrap().iter().any(|entry| entry["doc"] == key.doc), "{}", key.name);
    });
}

/// A value that the key accepts by its kind alone, written in TOML.
fn valid(key: &'static Key) -> BoxedStrategy<String> {
    let quoted = |text: String| serde_json::to_string(&text).unwrap().replace('\u{7f}', "\\u007F");
    let list = |items: Vec<String>| format!("[{}]", items.join(", "));
    let map = prop::collection::btree_map("[a-z.]{1,4}", any::<String>(), 0..3).prop_map(move |map| {
        map.into_iter().map(|(k, v)| format!("{} = {}", quoted(k), quoted(v))).collect::<Vec<_>>().join(", ")
    });
    match (key.name, key.kind) {
        ("name" | "use", _) => "[a-e]{1,2}".prop_map(quoted).boxed(),
        ("chain", Kind::Text) => Just("\"default\"".to_owned()).boxed(),
        ("url", _) => "[a-z]{3}:[1-9]{3}".prop_map(quoted).boxed(),
        ("path", Kind::Text) => "/[a-z]{0,9}".prop_map(quoted).boxed(),
        ("connect" | "bind" | "replay", _) => "tcp://[a-z]{3}:[1-9]{3}".prop_map(quoted).boxed(),
        ("grant", _) => prop::collection::vec("body|header:[a-z]{1,5}", 0..3)
            .prop_map(move |words| list(words.into_iter().map(quoted).collect()))
            .boxed(),
        ("allow", _) => prop::collection::vec("[0-9a-f]{64}", 0..3)
            .prop_map(move |digests| list(digests.into_iter().map(quoted).collect()))
            .boxed(),
        ("keys", _) => prop::collection::vec("[a-z]{1,5}:[a-zA-Z0-9+/]{42}[AEIMQUYcgkosw048]=", 0..3)
            .prop_map(move |keys| list(keys.into_iter().map(quoted).collect()))
            .boxed(),
        ("key_hashes", _) => prop::collection::vec("sha256:[0-9a-f]{64}", 0..3)
            .prop_map(move |hashes| list(hashes.into_iter().map(quoted).collect()))
            .boxed(),
        ("trusted", _) => prop::collection::vec("10\\.0\\.0\\.[0-9]/[0-9]", 1..3)
            .prop_map(move |networks| list(networks.into_iter().map(quoted).collect()))
            .boxed(),
        ("dns", _) => "10\\.0\\.0\\.[0-9]:[1-9][0-9]{0,3}".prop_map(quoted).boxed(),
        ("header", _) => "x-[a-z]{1,5}".prop_map(quoted).boxed(),
        ("anonymous", _) => "[a-e]{1,2}".prop_map(quoted).boxed(),
        ("api_key" | "token", _) => "env:[A-Z]{1,5}".prop_map(quoted).boxed(),
        (_, Kind::Signed(min, max)) => (min..=max).prop_map(|value| value.to_string()).boxed(),
        (_, Kind::Text) => any::<String>().prop_map(quoted).boxed(),
        (_, Kind::Listen) => "[a-z]{1,9}:[1-9][0-9]{0,3}".prop_map(quoted).boxed(),
        (_, Kind::Flag) => any::<bool>().prop_map(|flag| flag.to_string()).boxed(),
        (_, Kind::Integer(min, max) | Kind::Bytes(min, max)) => {
            (min..=max).prop_map(|value| value.to_string()).boxed()
        }
        (_, Kind::Number(min, max)) => (min..=max).prop_map(|value| format!("{value:?}")).boxed(),
        (_, Kind::Word(words)) => {
            prop::sample::select(words).prop_map(move |word| quoted(word.into())).boxed()
        }
        (_, Kind::Words(words)) => prop::collection::vec(prop::sample::select(words), 1..3)
            .prop_map(move |words| list(words.into_iter().map(|word| quoted(word.into())).collect()))
            .boxed(),
        (_, Kind::Mode(words, section)) => prop_oneof![
            prop::sample::select(words).prop_map(move |word| quoted(word.into())),
            prop::sample::select(section.keys.iter().collect::<Vec<_>>()).prop_flat_map(
                |key: &'static Key| valid(key)
                    .prop_filter("none is no share", |value| value != "[]")
                    .prop_map(|value| format!("{{ {} = {value} }}", key.name))
            )
        ]
        .boxed(),
        (_, Kind::Texts) => prop::collection::vec("[a-z]{6}", 0..2)
            .prop_map(move |texts| list(texts.into_iter().map(quoted).collect()))
            .boxed(),
        (_, Kind::Map | Kind::Json) => map.prop_map(|entries| format!("{{ {entries} }}")).boxed(),
        (_, Kind::Table(section)) => entries(section),
        (_, Kind::Short(section)) => {
            let first = &section.keys[0];
            let table = move |value| format!("{{ {} = {value} }}", first.name);
            prop_oneof![valid(first), valid(first).prop_map(table)].boxed()
        }
        (_, Kind::Tables(section) | Kind::Items(section)) => {
            prop::collection::vec(entries(section), 0..3).prop_map(list).boxed()
        }
    }
}

/// Some of the keys of a section, as an inline table.
fn entries(section: &'static Section) -> BoxedStrategy<String> {
    let keys: Vec<_> = section
        .keys
        .iter()
        .map(|key| {
            let written = valid(key).prop_map(move |value| format!("{} = {value}", key.name));
            match key.otherwise {
                Otherwise::Required => written.prop_map(Some).boxed(),
                _ => prop::option::of(written).boxed(),
            }
        })
        .collect();
    keys.prop_map(|keys| format!("{{ {} }}", keys.into_iter().flatten().collect::<Vec<_>>().join(", ")))
        .boxed()
}

proptest! {
    /// A configuration that is valid is printed as a file that reads back as the same configuration; one
    /// that is not has nothing but clashes between its parts wrong with it.
    #[test]
    fn printing_reads_back(values in ROOT.keys.iter().map(|key| prop::option::of(valid(key))).collect::<Vec<_>>()) {
        let text: String = ROOT.keys.iter().zip(values)
            .filter_map(|(key, value)| value.map(|value| format!("{} = {value}\n", key.name)))
            .collect();
        match read(&text) {
            Ok(config) => {
                let printed = print(&config);
                prop_assert_eq!(from_text("printed", &printed, Path::new("/etc/s")), Ok(config), "{}", printed);
            }
            Err(errors) => for error in errors.0 {
                let clash = [
                    "twice", "already", "same address", "no [[chain]]", "none of this pool's", "or neither",
                    "not supported in this version", "reached by others", "needs", "no [[tenant]]", "nobody can be it",
                    "no whole number",
                ];
                prop_assert!(clash.iter().any(|clash| error.message.contains(clash)), "{}\n{}", error, text);
            },
        }
    }

    /// No text does worse than to be refused, and every error has its line.
    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        if let Err(errors) = read(&text) {
            prop_assert!(!errors.0.is_empty());
            prop_assert!(errors.0.iter().all(|error| error.line.is_some()));
        }
    }

    /// The same for what is nearly a configuration.
    #[test]
    fn a_damaged_file_is_read_or_refused(at in 0..EXAMPLE.len(), length in 0..20usize, with in "[a-z\\[\\]{}=\",0-9\n]{0,3}") {
        let end = (at + length).min(EXAMPLE.len());
        let damaged = format!("{}{with}{}", &EXAMPLE[..at], &EXAMPLE[end..]);
        if let Err(errors) = read(&damaged) {
            prop_assert!(!errors.0.is_empty());
        }
    }
}

#[test]
fn a_plugin_that_nothing_names_has_the_defaults_of_one_that_is_named() {
    let config = from_text("test.toml", "[[plugin]]\nname = \"mine\"\n", std::path::Path::new("")).unwrap();
    assert_eq!(config.plugins, [PluginConfig::named("mine")]);
}
