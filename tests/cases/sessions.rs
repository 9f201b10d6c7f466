//! Conversations that are more than the text of a request.

use std::time::{Duration, Instant};

use sluicegate_tests::{Engine, Reply, Router, Value, json, wait};

/// An answer that the engine has kept under this id.
fn kept(id: &str) -> Reply {
    let answer = json!({"object": "response", "id": id, "model": "tiny", "status": "completed",
        "output": [{"id": "msg_1", "type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": "yes"}]}],
        "usage": {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}});
    Reply::plain(200, answer.to_string()).with("content-type", "application/json")
}

/// The same as a stream.
fn kept_stream(id: &str) -> Reply {
    let event = |kind: &str, status: &str| {
        let response = json!({"type": kind, "response": {"id": id, "object": "response", "status": status}});
        format!("event: {kind}\ndata: {response}\n\n")
    };
    let text = [
        event("response.created", "in_progress"),
        "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"yes\"}\n\n".into(),
        event("response.completed", "completed"),
    ];
    Reply::plain(200, text.concat()).with("content-type", "text/event-stream")
}

async fn what_continues_goes_back(make: fn(&str) -> Reply, streaming: bool) {
    let mut engines = Vec::new();
    for number in 0..4 {
        let engine = Engine::start().await;
        engine.always(make(&format!("resp_{number}")));
        engines.push(engine);
    }
    let all: Vec<&Engine> = engines.iter().collect();
    let router = Router::to(&all).start().await;
    for turn in 0..6 {
        let question =
            json!({"model": "tiny", "stream": streaming, "input": format!("{turn} {}", "word ".repeat(400))});
        let answer = router.post("/v1/responses", question.to_string()).send().await.expect(200).await;
        let first = answer.endpoint().to_owned();
        answer.text().await;
        let number = engines.iter().position(|engine| engine.id() == first).unwrap();
        for more in 0..3 {
            let question = json!({"model": "tiny", "stream": streaming, "input": format!("and {more}?"),
                "previous_response_id": format!("resp_{number}")});
            let answer = router.post("/v1/responses", question.to_string()).send().await.expect(200).await;
            assert_eq!(answer.endpoint(), first, "turn {turn}, {more}");
            answer.text().await;
        }
    }
}

#[tokio::test]
async fn what_continues_an_answer_goes_to_the_engine_that_has_kept_it() {
    what_continues_goes_back(kept, false).await;
}

#[tokio::test]
async fn what_continues_a_streamed_answer_goes_to_the_engine_that_has_kept_it() {
    what_continues_goes_back(kept_stream, true).await;
}

/// An endpoint's place among candidates, and what the column says of it; none where nobody read it.
fn column(decision: &Value, name: &str) -> Vec<f64> {
    let values = decision["columns"][name].as_array().cloned().unwrap_or_default();
    values.iter().map(|value| value.as_f64().unwrap()).collect()
}

#[tokio::test]
async fn a_session_stays_where_it_was_until_that_endpoint_is_busy() {
    let mut engines = Vec::new();
    for _ in 0..4 {
        engines.push(Engine::start().await);
    }
    let all: Vec<&Engine> = engines.iter().collect();
    let router = Router::to(&all).start().await;
    let ask = |what: String| router.chat(&what).header("x-session-id", "s");
    // Too short to be known by their beginnings.
    let first = ask("one".into()).send().await.expect(200).await.endpoint().to_owned();
    for turn in 0..6 {
        let answer = ask(format!("turn {turn}")).send().await.expect(200).await;
        assert_eq!(answer.endpoint(), first, "turn {turn}");
    }
    engines.iter().for_each(|engine| engine.always(Reply::hang()));
    let mut asked = Vec::new();
    for number in 0..24 {
        let request = ask(format!("together {number}"));
        asked.push(tokio::spawn(async move { request.try_send().await.is_ok() }));
    }
    let received = || engines.iter().map(|engine| engine.received().len()).collect::<Vec<_>>();
    wait::until("all are on their way", async || received().iter().sum::<usize>() == 7 + 24).await;
    let before = |engine: &Engine| if engine.id() == first { 7 } else { 0 };
    let got: Vec<usize> = engines.iter().map(|engine| engine.received().len() - before(engine)).collect();
    assert!(got.iter().all(|got| (3..=12).contains(got)), "{got:?}");
    asked.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_session_is_remembered_for_as_long_as_the_pool_says() {
    let engine = Engine::start().await;
    let pool = |more: &str| {
        format!("[[pool]]\nname = \"p\"\nmodels = [\"tiny\"]\nendpoints = [\"{}\"]\n{more}", engine.url())
    };
    let known_again = async |router: &Router| {
        let ask = |id: &str| router.chat(id).header("x-session-id", "s").header("x-request-id", id).send();
        ask("first").await.expect(200).await.text().await;
        let began = Instant::now();
        wait::until("a second has passed", async || began.elapsed() > Duration::from_millis(1_010)).await;
        ask("second").await.expect(200).await.text().await;
        column(&router.decision("second").await, "session.affinity")
    };
    let (an_hour, a_second) =
        (Router::with(pool("")).start().await, Router::with(pool("session_ttl_ms = 1000\n")).start().await);
    let (known, forgotten) = tokio::join!(known_again(&an_hour), known_again(&a_second));
    assert_eq!((known, forgotten), (vec![1.0], vec![]));
}
