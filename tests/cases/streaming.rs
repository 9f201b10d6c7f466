//! Streams: each piece as it comes, and what happens when either side goes away.

use sluicegate_tests::{Engine, Reply, Router, Value, json, wait};

fn chunk(word: &str) -> String {
    json!({"id": "1", "object": "chat.completion.chunk", "model": "tiny",
        "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": null}]})
    .to_string()
}

#[tokio::test]
async fn a_chunk_arrives_before_the_next_is_sent() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;
    let live = engine.next_live();

    let ask = tokio::spawn(router.chat("hello").streamed().send());
    engine.received_at_least(1).await;
    live.event(chunk("one")).await;
    let mut answer = ask.await.unwrap().expect(200).await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    for word in ["one", "two", "three"] {
        if word != "one" {
            live.event(chunk(word)).await;
        }
        assert_eq!(answer.event().await.unwrap(), chunk(word));
    }
    live.event("[DONE]").await;
    assert_eq!(answer.event().await.unwrap(), "[DONE]");
    drop(live);
    assert_eq!(answer.event().await, None);
}

#[tokio::test]
async fn a_stream_comes_back_byte_for_byte_in_every_api() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;
    for (path, body) in [
        (
            "/v1/chat/completions",
            json!({"model": "tiny", "stream": true, "messages": [{"role": "user", "content": "hi"}]}),
        ),
        ("/v1/completions", json!({"model": "tiny", "stream": true, "prompt": "hi"})),
        ("/v1/responses", json!({"model": "tiny", "stream": true, "input": "hi"})),
        (
            "/v1/messages",
            json!({"model": "tiny", "stream": true, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}),
        ),
    ] {
        let direct = sluicegate_tests::post(format!("{}{path}", engine.url()), body.to_string()).send().await;
        let routed = router.post(path, body.to_string()).send().await.expect(200).await;
        assert_eq!(routed.text().await, direct.text().await, "{path}");
    }
}

#[tokio::test]
async fn a_client_that_goes_away_cancels_its_request_at_the_engine() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;
    let live = engine.next_live();

    let ask = tokio::spawn(router.chat("hello").streamed().send());
    engine.received_at_least(1).await;
    live.event(chunk("one")).await;
    let mut answer = ask.await.unwrap();
    answer.event().await.unwrap();
    drop(answer);

    live.gone().await;
    wait::until("the engine sees that its asker went away", async || engine.only().gone()).await;
    wait::until("no load is left", async || {
        let load = &router.endpoint(&engine.id()).await["load"];
        ["requests", "prefill_tokens", "decode_tokens"].iter().all(|what| load[what] == 0)
    })
    .await;
}

#[tokio::test]
async fn a_client_that_goes_away_before_any_answer_cancels_too() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;
    engine.next(Reply::hang());

    let ask = tokio::spawn(router.chat("hello").send());
    engine.received_at_least(1).await;
    ask.abort();

    wait::until("the engine sees that its asker went away", async || engine.only().gone()).await;
    wait::until("no load is left", async || router.endpoint(&engine.id()).await["load"]["requests"] == 0)
        .await;
}

#[tokio::test]
async fn a_stream_that_breaks_ends_in_an_error_of_its_api() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;

    engine.next(Reply::cut("one two three four", 3));
    let events = router.chat("hello").streamed().send().await.expect(200).await.events().await;
    let last: Value = serde_json::from_str(events.last().unwrap()).unwrap();
    assert!(events.len() == 4 && last["error"]["message"].is_string(), "{events:?}");
    assert!(!events.contains(&"[DONE]".to_owned()), "{events:?}");

    engine.next(Reply::cut("one two three four", 4));
    let body = json!({"model": "tiny", "stream": true, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
    let mut answer = router.post("/v1/messages", body.to_string()).send().await.expect(200).await;
    let text = String::from_utf8(answer.read().await.unwrap().to_vec()).unwrap();
    let last = text.trim_end().rsplit("\n\n").next().unwrap();
    assert!(last.starts_with("event: error\n") && last.contains(r#""type":"error""#), "{text}");
    assert_eq!(engine.received().len(), 2, "nothing is asked twice once bytes have gone out");
}

#[tokio::test]
async fn a_slow_reader_slows_the_engine_down() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;
    let live = engine.next_live();
    let ask = tokio::spawn(router.chat("hello").streamed().send());
    engine.received_at_least(1).await;
    live.event(chunk("one")).await;
    let answer = ask.await.unwrap();

    // Nobody reads: what fits into the buffers between here and there is finite.
    let big = "x".repeat(1 << 20);
    let flood = async {
        for _ in 0..1_000 {
            live.event(&big).await;
        }
    };
    let stuck = tokio::time::timeout(wait::QUIET * 5, flood).await.is_err();
    assert!(stuck, "a thousand megabytes fitted between the engine and a client that does not read");
    drop(answer);
}
