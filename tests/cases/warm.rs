//! What a router knows outlives it.

use std::fs;

use sluicegate_tests::{Request, Router, SimEngine, wait};

const SESSIONS: usize = 6;

fn config(state: &tempfile::TempDir, engines: &[SimEngine]) -> String {
    let urls: Vec<String> = engines.iter().map(|engine| format!("\"{}\"", engine.url())).collect();
    format!(
        "state_dir = \"{}\"\n[[pool]]\nname = \"p\"\nendpoints = [{}]\n",
        state.path().display(),
        urls.join(", ")
    )
}

/// A turn of a conversation: it begins with all the turns before.
fn turn(router: &Router, session: usize, turn: usize) -> Request {
    let text: String =
        (0..=turn).map(|turn| format!("session {session} turn {turn} {}", "word ".repeat(200))).collect();
    router.chat(&text).header("x-session-id", &format!("s{session}"))
}

async fn turns(router: &Router, number: usize) -> Vec<String> {
    let mut endpoints = Vec::new();
    for session in 0..SESSIONS {
        let answer = turn(router, session, number).send().await.expect(200).await;
        endpoints.push(answer.endpoint().to_owned());
        answer.bytes().await;
    }
    endpoints
}

/// Of the prompts' tokens so far, the share that the engines had.
async fn hit_rate(router: &Router) -> f64 {
    router.metric("sluicegate_reported_cached_tokens_total", &[]).await
        / router.metric("sluicegate_prompt_tokens_total", &[]).await
}

#[tokio::test]
async fn after_a_restart_conversations_go_on_where_they_were() {
    let engines = [SimEngine::start().await, SimEngine::start().await, SimEngine::start().await];
    let state = tempfile::tempdir().unwrap();
    let mut router = Router::with(config(&state, &engines)).start().await;
    let first = turns(&router, 0).await;
    assert_eq!(turns(&router, 1).await, first);
    let streamed = router.chat("hello").streamed().send().await.expect(200).await;
    let measured = streamed.endpoint().to_owned();
    streamed.events().await;
    let blocks = router.metric("sluicegate_prefix_index_blocks", &[]).await;
    let before = hit_rate(&router).await;
    assert!(router.terminate().await, "{}", router.log());

    let router = Router::with(config(&state, &engines)).start().await;
    assert!(router.log().contains("takes over what the one before knew"), "{}", router.log());
    assert_eq!(router.metric("sluicegate_prefix_index_blocks", &[]).await, blocks);
    let endpoint = router.endpoint(&measured).await;
    assert!(!endpoint["latency"]["ttft_ms"].is_null(), "{endpoint}");
    assert_eq!(turns(&router, 2).await, first);
    let after = hit_rate(&router).await;
    assert!(after >= before, "{after} after {before}");
}

#[tokio::test]
async fn what_is_damaged_is_not_known() {
    let engines = [SimEngine::start().await];
    let state = tempfile::tempdir().unwrap();
    let mut router = Router::with(config(&state, &engines)).start().await;
    turns(&router, 0).await;
    assert!(router.terminate().await, "{}", router.log());
    let file = state.path().join("warm");
    let good = fs::read(&file).unwrap();
    let cut = good[..good.len() / 2].to_vec();
    let mut changed = good.clone();
    changed[good.len() / 2] ^= 0x40;
    for bytes in [cut, changed, b"#!/bin/sh".to_vec(), Vec::new()] {
        fs::write(&file, bytes).unwrap();
        let router = Router::with(config(&state, &engines)).start().await;
        assert!(router.log().contains("begins cold"), "{}", router.log());
        assert_eq!(router.metric("sluicegate_prefix_index_blocks", &[]).await, 0.0);
        router.chat("hello").send().await.expect(200).await;
    }
}

#[tokio::test]
async fn endpoints_that_are_gone_are_forgotten() {
    let engines = [SimEngine::start().await, SimEngine::start().await];
    let state = tempfile::tempdir().unwrap();
    let mut router = Router::with(config(&state, &engines)).start().await;
    turns(&router, 0).await;
    assert!(router.terminate().await, "{}", router.log());
    let left = [SimEngine::start().await];
    let router = Router::with(config(&state, &left)).start().await;
    wait::until("nothing is believed", async || {
        router.metric("sluicegate_prefix_index_blocks", &[]).await == 0.0
    })
    .await;
    turns(&router, 1).await;
}
