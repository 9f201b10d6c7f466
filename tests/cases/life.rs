//! How the router ends.

use sluicegate_tests::{Engine, Router, wait};

#[tokio::test]
async fn told_to_end_it_finishes_what_runs_and_takes_nothing_new() {
    let engine = Engine::start().await;
    let mut router = Router::to(&[&engine]).start().await;
    let live = engine.next_live();
    let ask = tokio::spawn(router.chat("hello").streamed().send());
    engine.received_at_least(1).await;
    live.event("one").await;
    let mut answer = ask.await.unwrap();

    router.ask_to_end();
    wait::until("nothing new is taken", async || match router.chat("late").try_send().await {
        Err(_) => true,
        Ok(answer) => answer.status() == 503,
    })
    .await;
    assert!(router.running());
    let ready = router.admin("/readyz").await.expect(503).await;
    let words = ready.text().await;
    assert!(words.contains("takes nothing new"), "{words}");
    live.event("two").await;
    drop(live);
    assert_eq!(answer.event().await.unwrap(), "one");
    assert_eq!(answer.event().await.unwrap(), "two");
    assert_eq!(answer.event().await, None);
    drop(answer);
    assert!(router.terminate().await, "{}", router.log());
}

/// Clients of streams that do not end in time were left without a word.
#[tokio::test]
async fn a_stream_that_outlasts_the_drain_ends_in_an_error_of_its_api() {
    let engine = Engine::start().await;
    let config = format!(
        "[limits]\ndrain_timeout_ms = 100\n[[pool]]\nname = \"p\"\nmodels = [\"tiny\"]\nendpoints = [\"{}\"]\n",
        engine.url()
    );
    let mut router = Router::with(config).start().await;
    let live = engine.next_live();
    let ask = tokio::spawn(router.chat("hello").streamed().send());
    engine.received_at_least(1).await;
    live.event("one").await;
    let mut answer = ask.await.unwrap();
    assert_eq!(answer.event().await.unwrap(), "one");
    router.ask_to_end();
    let error = loop {
        live.event("more").await;
        match answer.event().await {
            Some(event) if event == "more" => {}
            Some(event) => break event,
            None => panic!("it ended without a word"),
        }
    };
    assert!(error.contains("shutting_down"), "{error}");
    assert!(router.ended().await, "{}", router.log());
}

#[tokio::test]
async fn idle_it_ends_at_once_and_well() {
    let engine = Engine::start().await;
    let mut router = Router::to(&[&engine]).start().await;
    router.chat("hello").send().await.expect(200).await.bytes().await;
    assert!(router.terminate().await, "{}", router.log());
}
