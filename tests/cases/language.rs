//! The language of these tests holds what it promises, without a router between.

use std::time::Duration;

use sluicegate_tests::{Engine, LlamaServer, Metrics, Reply, SimEngine, get, json, post, wait};

fn chat(url: &str, stream: bool) -> sluicegate_tests::Request {
    let body = json!({"model": "tiny", "stream": stream, "messages": [{"role": "user", "content": "hi"}]});
    post(format!("{url}/v1/chat/completions"), body.to_string())
}

#[tokio::test]
async fn an_engine_streams_piece_by_piece_and_sees_who_goes_away() {
    let engine = Engine::start().await;
    let live = engine.next_live();
    let ask = tokio::spawn(chat(&engine.url(), true).send());
    engine.received_at_least(1).await;
    live.event("one").await;
    let mut answer = ask.await.unwrap();
    assert_eq!(answer.event().await.unwrap(), "one");
    assert!(!engine.only().gone());
    drop(answer);
    live.gone().await;
    wait::until("it is noted", async || engine.only().gone()).await;
}

#[tokio::test]
async fn an_engine_that_hangs_sees_who_goes_away() {
    let engine = Engine::start().await;
    engine.next(Reply::hang());
    let ask = tokio::spawn(chat(&engine.url(), false).send());
    engine.received_at_least(1).await;
    ask.abort();
    wait::until("it is noted", async || engine.only().gone()).await;
}

#[tokio::test]
async fn a_cut_stream_breaks_after_what_was_sent() {
    let engine = Engine::start().await;
    engine.next(Reply::cut("one two three", 2));
    let mut answer = chat(&engine.url(), true).send().await;
    let broken = answer.read().await.unwrap_err();
    assert_eq!(String::from_utf8_lossy(&broken.read).matches("data: ").count(), 2);
}

#[tokio::test]
async fn a_reset_is_no_answer_and_a_crash_frees_the_address() {
    let engine = Engine::start().await;
    engine.next(Reply::reset());
    assert!(chat(&engine.url(), false).try_send().await.is_err());
    let addr = engine.crash().await;
    let engine = Engine::at(&addr, "tiny").await;
    engine.next(Reply::says("slow but sure").every(Duration::from_millis(1)).after(Duration::from_millis(1)));
    let events = chat(&engine.url(), true).send().await.events().await;
    assert_eq!(events.last().map(String::as_str), Some("[DONE]"));
    assert!(!engine.only().gone());
    engine.report(Metrics::full());
    let page = get(format!("{}/metrics", engine.url())).send().await.text().await;
    assert!(page.contains("vllm:num_requests_waiting{engine=\"0\",model_name=\"tiny\"} 512.0"), "{page}");
}

#[tokio::test]
async fn real_and_simulated_engines_answer() {
    let (llama, sim) = tokio::join!(LlamaServer::start(), SimEngine::start());
    for url in [llama.url(), sim.url()] {
        let answer = chat(&url, false).send().await.expect(200).await.json().await;
        assert!(answer["choices"][0]["message"]["content"].is_string(), "{answer}");
    }
    assert!(sim.state().await.is_object());
}
