//! With the model's tokenizer prompts have their true length.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sluicegate_tests::{Engine, LlamaServer, Router, SimEngine, Value, json, places};

/// The tokenizer that the unit tests use too, with a template of this text.
fn model(template: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/src/tokens/fixtures/bytes");
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(fixtures.join(file), folder.path().join(file)).unwrap();
    }
    fs::write(folder.path().join("chat_template.jinja"), template).unwrap();
    folder
}

const TEMPLATE: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

fn config(urls: &[String], folder: &Path, more: &str) -> String {
    format!(
        "[[pool]]\nname = \"tiny\"\nmodels = [\"tiny\"]\nendpoints = {}\ntokenizer = {:?}\n{more}",
        json!(urls),
        folder.to_str().unwrap()
    )
}

/// What a router with these settings says of the decision about a body.
async fn decided(router: &Router, path: &str, id: &str, body: impl Into<bytes::Bytes>) -> Value {
    router.post(path, body).header("x-request-id", id).send().await.expect(200).await.bytes().await;
    router.decision(id).await
}

#[tokio::test]
async fn a_decision_shows_the_length_that_the_engine_reports() {
    let folder = model(TEMPLATE);
    let flag = folder.path().to_str().unwrap();
    let engine = SimEngine::with(&["--speed-up", "100", "--tokenizer", flag]).await;
    let config = config(&[engine.url()], folder.path(), "tokenize_ms = 10000");
    let router = Router::with(config).start().await;
    let messages = json!([{"role": "system", "content": "The weather of cities. ".repeat(30)}, {"role": "user", "content": "What is it? 日本 🦀"}]);
    for (path, id, body) in [
        ("/v1/chat/completions", "chat", json!({"model": "tiny", "max_tokens": 3, "messages": messages})),
        (
            "/v1/completions",
            "completion",
            json!({"model": "tiny", "max_tokens": 3, "prompt": "the user and the system"}),
        ),
        ("/v1/completions", "ids", json!({"model": "tiny", "max_tokens": 3, "prompt": [1, 2, 3, 4, 5]})),
    ] {
        let answer = router
            .post(path, body.to_string())
            .header("x-request-id", id)
            .send()
            .await
            .expect(200)
            .await
            .json()
            .await;
        let decision = router.decision(id).await;
        assert_eq!(decision["prompt_tokens"], answer["usage"]["prompt_tokens"], "{id}");
        assert_eq!(decision["prompt_tokens_exact"], true, "{id}");
        assert_eq!(decision["tokenizer"], if id == "ids" { Value::Null } else { "tokens".into() }, "{id}");
    }
    let counted = router
        .metric("sluicegate_tokenized_requests_total", &[("pool", "tiny"), ("outcome", "tokens")])
        .await;
    assert!((counted - 2.0).abs() < 1e-9, "{counted}");
}

#[tokio::test]
async fn nothing_is_tokenized_that_no_policy_asks_for() {
    let folder = model(TEMPLATE);
    let engine = SimEngine::with(&["--speed-up", "100"]).await;
    let off = ["prefix-affinity", "pd-split"]
        .map(|name| format!("[[plugin]]\nname = \"{name}\"\nmode = \"off\"\n"));
    let config = config(&[engine.url()], folder.path(), &format!("tokenize_ms = 10000\n{}", off.concat()));
    let router = Router::with(config).start().await;
    let body = json!({"model": "tiny", "max_tokens": 1, "messages": [{"role": "user", "content": "Hello"}]});
    let decision = decided(&router, "/v1/chat/completions", "chat", body.to_string()).await;
    assert_eq!(decision["tokenizer"], Value::Null);
    assert_eq!(decision["prompt_tokens_exact"], false);
}

#[tokio::test]
async fn a_real_engine_counts_the_same_tokens() {
    let engine = LlamaServer::start().await;
    let config = config(&[engine.url()], &places::model(), "tokenize_ms = 10000");
    let router = Router::with(config).start().await;
    let user = |text: &str| json!({"role": "user", "content": text});
    let said = |text: &str| json!({"role": "assistant", "content": text});
    let conversations = [
        vec![user("Hello")],
        vec![
            json!({"role": "system", "content": "Be brief.\n"}),
            user("def f(x):\n    return  x"),
            said("ok"),
            user("more?"),
        ],
        vec![user("日本 🦀 e\u{301} don't 12345 \t x")],
        vec![user("<|im_end|>\n<|im_start|>system")],
        vec![user(&"import os, sys; print(os.path.join('a', 'b')) ".repeat(60))],
    ];
    for (at, messages) in conversations.iter().enumerate() {
        let body = json!({"model": "tiny", "max_tokens": 1, "messages": messages}).to_string();
        let id = format!("chat-{at}");
        let request = router.post("/v1/chat/completions", body).header("x-request-id", &id);
        let answer = request.send().await.expect(200).await.json().await;
        let decision = router.decision(&id).await;
        assert_eq!(decision["prompt_tokens_exact"], true, "{decision}");
        assert_eq!(decision["prompt_tokens"], answer["usage"]["prompt_tokens"], "{messages:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_rendered_is_served_and_says_why() {
    let folder = model(
        "{% if messages[0].content == 'no' %}{{ raise_exception('no') }}{% endif %}{{ messages[0].content }}",
    );
    let engine = Engine::start().await;
    let router = Router::with(config(&[engine.url()], folder.path(), "tokenize_ms = 10000")).start().await;
    let image = json!([{"type": "image_url", "image_url": {"url": "data:,"}}]);
    for (content, outcome) in [
        (json!("yes"), "tokens"),
        (json!("no"), "refused"),
        (json!(""), "tokens"),
        (image, "media"),
        (json!([{"type": "hologram"}]), "unknown_part"),
    ] {
        let body = json!({"model": "tiny", "messages": [{"role": "user", "content": content}]});
        let decision = decided(&router, "/v1/chat/completions", outcome, body.to_string()).await;
        assert_eq!(decision["tokenizer"], outcome);
        assert_eq!(decision["prompt_tokens_exact"], outcome == "tokens");
    }
    let halves = br#"{"model": "tiny", "messages": [{"role": "user", "content": "\ud800 \udc00"}]}"#;
    assert_eq!(
        decided(&router, "/v1/chat/completions", "halves", &halves[..]).await["tokenizer"],
        "unreadable"
    );
    let several = json!({"model": "tiny", "prompt": ["a", "b"]}).to_string();
    assert_eq!(decided(&router, "/v1/completions", "several", several).await["tokenizer"], "several_prompts");
    let nothing = json!({"model": "tiny", "prompt": "", "add_special_tokens": false}).to_string();
    let nothing = decided(&router, "/v1/completions", "nothing", nothing).await;
    assert_eq!((&nothing["tokenizer"], &nothing["prompt_tokens"]), (&"tokens".into(), &0.into()));
}

#[tokio::test]
async fn a_prompt_of_a_million_tokens_meets_the_bound_and_is_served() {
    let folder = model(TEMPLATE);
    let engine = Engine::start().await;
    let router = Router::with(config(&[engine.url()], folder.path(), "tokenize_ms = 1")).start().await;
    let long = "The user asks about the weather. ".repeat(120_000);
    let body = json!({"model": "tiny", "messages": [{"role": "user", "content": long}]}).to_string();
    let decision = decided(&router, "/v1/chat/completions", "long", body.clone()).await;
    assert_eq!((&decision["tokenizer"], &decision["prompt_tokens_exact"]), (&"late".into(), &false.into()));
    assert_eq!(engine.received().last().unwrap().body.len(), body.len());
    // Short ones do not wait for it.
    let short = json!({"model": "tiny", "prompt": "the"}).to_string();
    let mut known = false;
    for turn in 0..50 {
        known |= decided(&router, "/v1/completions", &format!("short-{turn}"), short.clone()).await["tokenizer"]
            == "tokens";
    }
    assert!(known, "none of fifty short prompts was tokenized within a millisecond");
}

#[tokio::test]
async fn what_was_tokenized_too_late_is_there_for_the_next_turn() {
    let folder = model(TEMPLATE);
    let engine = Engine::start().await;
    let router = Router::with(config(&[engine.url()], folder.path(), "tokenize_ms = 10000")).start().await;
    let long = "The user asks about the weather. ".repeat(3_000);
    let mut messages = vec![json!({"role": "user", "content": long})];
    let mut lengths = Vec::new();
    for turn in 0..3 {
        let body = json!({"model": "tiny", "messages": messages}).to_string();
        let decision = decided(&router, "/v1/chat/completions", &format!("turn-{turn}"), body).await;
        assert_eq!(decision["tokenizer"], "tokens");
        lengths.push(decision["prompt_tokens"].as_u64().unwrap());
        messages.push(json!({"role": "assistant", "content": "It is fine."}));
        messages.push(json!({"role": "user", "content": "And now?"}));
    }
    assert_eq!(lengths[1] - lengths[0], lengths[2] - lengths[1], "{lengths:?}");
}

#[tokio::test]
async fn a_broken_tokenizer_is_named_and_the_pool_is_served_without_it() {
    let folder = model(TEMPLATE);
    let engine = Engine::start().await;
    let no_folder = folder.path().join("none");
    let breaking: [(&str, PathBuf, &str, &str); 3] = [
        ("no folder", no_folder, "", "no such folder"),
        ("tokenizer", folder.path().into(), "tokenizer.json", "tokenizer.json: is no tokenizer"),
        ("template", folder.path().into(), "chat_template.jinja", "the chat template default: "),
    ];
    for (what, path, file, expected) in breaking {
        if !file.is_empty() {
            let whole = fs::read(path.join(file)).unwrap();
            fs::write(path.join(file), b"{% for").unwrap();
            check(&engine, &path, expected);
            let router = Router::with(config(&[engine.url()], &path, "")).start().await;
            let decision =
                decided(&router, "/v1/completions", what, r#"{"model": "tiny", "prompt": "abcdefgh"}"#).await;
            assert_eq!(
                (&decision["tokenizer"], &decision["prompt_tokens"]),
                (&Value::Null, &2.into()),
                "{what}"
            );
            assert!(router.log().contains(expected), "{what}: {}", router.log());
            fs::write(path.join(file), whole).unwrap();
        } else {
            check(&engine, &path, expected);
        }
    }
}

/// `sluicegate check` refuses the folder with these words.
fn check(engine: &Engine, folder: &Path, expected: &str) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("s.toml");
    fs::write(&file, config(&[engine.url()], folder, "")).unwrap();
    let checked = Command::new(places::router()).args(["check", "--config"]).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert_eq!(checked.status.code(), Some(1), "{said}");
    assert!(said.contains("pool `tiny`: tokenizer: ") && said.contains(expected), "{said}");
}
