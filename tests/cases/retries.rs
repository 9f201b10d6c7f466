//! Refused, reset, failed: who is asked next.

use sluicegate_tests::{Engine, Reply, Router, wait};

#[tokio::test]
async fn a_refused_connection_is_tried_elsewhere_and_told() {
    let [one, two] = [Engine::start().await, Engine::start().await];
    let router = Router::to(&[&one, &two]).start().await;
    let (id, left) = (one.id(), two.id());
    one.crash().await;

    let mut retried = false;
    for turn in 0..40 {
        let answer = router.chat(&format!("turn {turn}")).send().await.expect(200).await;
        assert_eq!(answer.endpoint(), left);
        let request = answer.request_id().to_owned();
        answer.bytes().await;
        let decision = router.decision(&request).await;
        retried |= decision["retried"].as_array().unwrap().iter().any(|endpoint| *endpoint == id);
    }
    let down = router.endpoint(&id).await;
    assert!(retried || down["status"] == "down", "{down}");
    wait::until("the endpoint is known to be down", async || router.endpoint(&id).await["status"] == "down")
        .await;
    assert!(router.endpoint(&id).await["reason"].is_string());
}

#[tokio::test]
async fn a_reset_before_any_answer_is_tried_elsewhere() {
    let [one, two] = [Engine::start().await, Engine::start().await];
    let router = Router::to(&[&one, &two]).start().await;
    one.always(Reply::reset());
    for turn in 0..10 {
        let answer =
            router.chat(&format!("turn {turn} {}", "x".repeat(turn * 100))).send().await.expect(200).await;
        assert_eq!(answer.endpoint(), two.id());
    }
    assert_eq!(two.received().len(), 10);
}

#[tokio::test]
async fn a_failure_of_one_endpoint_is_made_good_by_another() {
    let [one, two] = [Engine::start().await, Engine::start().await];
    let router = Router::to(&[&one, &two]).start().await;
    one.always(Reply::plain(503, r#"{"error":{"message":"busy"}}"#));
    let mut retried = 0;
    for turn in 0..10 {
        let answer = router.chat(&format!("turn {turn}")).send().await.expect(200).await;
        assert_eq!(answer.endpoint(), two.id());
        let request = answer.request_id().to_owned();
        answer.bytes().await;
        retried += router.decision(&request).await["retried"].as_array().unwrap().len();
    }
    assert_eq!(retried, one.received().len());
    assert_eq!(router.metric("sluicegate_retries_total", &[]).await, retried as f64);
}

#[tokio::test]
async fn when_all_fail_the_client_is_told() {
    let [one, two] = [Engine::start().await, Engine::start().await];
    let router = Router::to(&[&one, &two]).start().await;
    for engine in [&one, &two] {
        engine.always(Reply::reset());
    }
    let answer = router.chat("hello").send().await;
    assert!([502, 503].contains(&answer.status()), "{}", answer.status());
    assert!(answer.json().await["error"]["message"].is_string());
}

#[tokio::test]
async fn an_endpoint_that_comes_back_is_used_again() {
    let [one, two] = [Engine::start().await, Engine::start().await];
    let router = Router::to(&[&one, &two]).start().await;
    let addr = one.crash().await;
    wait::until("it is down", async || router.endpoint(&addr).await["status"] == "down").await;

    let one = Engine::at(&addr, "tiny").await;
    wait::until("it is up", async || router.endpoint(&addr).await["status"] == "up").await;
    let mut turn = 0;
    wait::until("it is used", async || {
        turn += 1;
        router.chat(&format!("{turn} is a prompt of its own")).send().await.expect(200).await;
        !one.received().is_empty()
    })
    .await;
}
