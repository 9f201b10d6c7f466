//! Who may use the admin API, and what is written down of what they do.

use std::fs;

use sluicegate_tests::{
    Engine, PluginDir, Request, Router, Value, another, builtin, get, places, post, wait,
};

const READ: &str = "token-to-read-0123456789";
const OPERATE: &str = "token-to-operate-0123456789";

/// A router with both tokens, and where it keeps its state.
async fn guarded(engine: &Engine, more: &str) -> (Router, tempfile::TempDir) {
    let folder = tempfile::TempDir::new().unwrap();
    for (name, token) in [("read", READ), ("operate", OPERATE)] {
        fs::write(folder.path().join(name), format!("{token}\n")).unwrap();
    }
    let dir = folder.path().display();
    let config = format!(
        "state_dir = \"{dir}/state\"\n[[admin_token]]\nname = \"prometheus\"\ntoken = \"file:{dir}/read\"\n\
         [[admin_token]]\nname = \"alice\"\ntoken = \"file:{dir}/operate\"\nmay = \"operate\"\n\
         [[pool]]\nname = \"p\"\nendpoints = [\"{}\"]\n{more}",
        engine.url()
    );
    (Router::with(config).start().await, folder)
}

fn with(request: Request, token: &str) -> Request {
    request.header("authorization", &format!("Bearer {token}"))
}

fn audit(folder: &std::path::Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("audit.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn with_tokens_every_call_but_the_health_checks_needs_one() {
    let engine = Engine::start().await;
    let (router, _folder) = guarded(&engine, "").await;
    for path in ["/healthz", "/readyz"] {
        router.admin(path).await.expect(200).await;
    }
    for path in ["/", "/metrics", "/plugins", "/endpoints", "/decisions", "/config", "/tenants", "/nothing"] {
        let answer = router.admin(path).await.expect(401).await;
        assert!(answer.header("www-authenticate").is_some(), "{path}");
        with(get(router.admin_url(path)), "wrong").send().await.expect(401).await;
        let known = if path == "/nothing" { 404 } else { 200 };
        with(get(router.admin_url(path)), READ).send().await.expect(known).await;
        with(get(router.admin_url(path)), OPERATE).send().await.expect(known).await;
    }
    // "x:token-to-read-0123456789"
    let basic =
        get(router.admin_url("/")).header("authorization", "Basic eDp0b2tlbi10by1yZWFkLTAxMjM0NTY3ODk=");
    basic.send().await.expect(200).await;
    let drain = post(router.admin_url(&format!("/endpoints/{}/drain", engine.id())), "");
    drain.clone().send().await.expect(401).await;
    with(drain.clone(), READ).send().await.expect(403).await;
    with(drain.clone().header("origin", "https://elsewhere.example"), OPERATE).send().await.expect(403).await;
    with(drain.header("host", "sluice.example:9090"), OPERATE).send().await.expect(200).await;
    let shown = with(get(router.admin_url("/config")), READ).send().await.text().await;
    assert!(shown.contains("alice") && !shown.contains(OPERATE), "{shown}");
    assert!(!router.log().contains("token-to"), "{}", router.log());
}

#[tokio::test]
async fn an_admin_api_that_others_reach_is_refused_without_a_token() {
    let engine = Engine::start().await;
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("sluicegate.toml");
    let check = |config: &str| {
        fs::write(&file, config).unwrap();
        let mut command = std::process::Command::new(places::router());
        let output = command.args(["check", "--config"]).arg(&file).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let pool = format!("[[pool]]\nname = \"p\"\nendpoints = [\"{}\"]\n", engine.url());
    let (code, said) = check(&format!("admin = \"0.0.0.0:9090\"\n{pool}"));
    assert_eq!(code, Some(1));
    assert!(said.contains("sluicegate.toml:1: admin:") && said.contains("[[admin_token]]"), "{said}");
    let token = "[[admin_token]]\nname = \"a\"\ntoken = \"file:token\"\n";
    let (code, said) = check(&format!("admin = \"0.0.0.0:9090\"\n{token}{pool}"));
    assert_eq!(code, Some(1), "the token is not there");
    assert!(said.contains("admin_token `a`"), "{said}");
    fs::write(folder.path().join("token"), OPERATE).unwrap();
    let (code, said) = check(&format!("admin = \"0.0.0.0:9090\"\n{token}{pool}"));
    assert_eq!(code, Some(0), "{said}");
}

#[tokio::test]
async fn what_is_done_is_written_down_with_who_and_when() {
    let engine = Engine::start().await;
    let plugins = PluginDir::new();
    let directory = format!("[plugins]\ndir = \"{}\"\n", plugins.path().display());
    let (router, folder) = guarded(&engine, &directory).await;
    let state = folder.path().join("state");
    let act = async |path: &str, status: u16| {
        with(post(router.admin_url(path), ""), OPERATE).send().await.expect(status).await;
    };
    act(&format!("/endpoints/{}/drain", engine.id()), 200).await;
    act("/plugins/fairness/off", 200).await;
    act("/plugins/nobody/promote", 404).await;
    plugins.put("fairness", &another(&builtin("fairness"), 1));
    act("/plugins/fairness/on", 200).await;
    let mut seen = Vec::new();
    wait::until("the new file's swap is written down", async || {
        seen = audit(&state);
        seen.iter().any(|deed| deed["what"] == "plugin.in_force" && deed["on"] == "fairness")
    })
    .await;
    let asked: Vec<_> = seen.iter().filter(|deed| deed["by"] == "alice").collect();
    let deeds: Vec<_> =
        asked.iter().map(|deed| (deed["what"].as_str().unwrap(), deed["done"].as_bool())).collect();
    assert_eq!(
        deeds,
        [
            ("endpoint.drain", Some(true)),
            ("plugin.off", Some(true)),
            ("plugin.promote", Some(false)),
            ("plugin.on", Some(true))
        ]
    );
    assert!(asked.iter().all(|deed| deed["at_unix_ms"].as_u64().is_some_and(|at| at > 1_700_000_000_000)));
    assert!(
        asked.iter().all(|deed| deed["peer"].as_str().is_some_and(|peer| peer.starts_with("127.0.0.1:")))
    );
    assert_eq!(asked[0]["on"], *engine.id());
}

#[tokio::test]
async fn a_secret_that_is_rotated_is_in_use_without_another_configuration() {
    let engine = Engine::start().await;
    let keys = tempfile::tempdir().unwrap();
    let key = keys.path().join("upstream");
    fs::write(&key, "first-upstream-key").unwrap();
    let (router, folder) = guarded(&engine, &format!("api_key = \"file:{}\"\n", key.display())).await;
    let shown = async || {
        router.chat("hello").send().await.expect(200).await.bytes().await;
        engine.received().last().unwrap().header("authorization").unwrap_or_default().to_owned()
    };
    assert_eq!(shown().await, "Bearer first-upstream-key");
    fs::write(&key, "second-upstream-key").unwrap();
    wait::until("the new key is shown", async || shown().await == "Bearer second-upstream-key").await;
    let drain = format!("/endpoints/{}/undrain", engine.id());
    let changed = "another-token-0123456789";
    fs::write(folder.path().join("operate"), changed).unwrap();
    let may = async |token| with(post(router.admin_url(&drain), ""), token).send().await.status();
    wait::until("the new token is taken", async || may(changed).await == 200).await;
    assert_eq!(may(OPERATE).await, 401);
    // One that is gone leaves the one before, and the router says so.
    fs::remove_file(&key).unwrap();
    wait::until("it is told of", async || router.log().contains("cannot be read")).await;
    assert_eq!(shown().await, "Bearer second-upstream-key");
}
