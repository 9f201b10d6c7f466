//! Conversations that are more than the text of a request.

use sluicegate_tests::{Engine, Reply, Router, json};

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
