//! Prefill at one endpoint, decode at another.

use sluicegate_tests::{Router, SimEngine, Value, json};

const SPEED: [&str; 4] = ["--speed-up", "20", "--block-size", "16"];

async fn engine(role: &str) -> SimEngine {
    SimEngine::with(&[&SPEED[..], &["--role", role]].concat()).await
}

fn question() -> String {
    "a document with many words that has to be read before anything can be said about it ".repeat(400)
}

fn said(answer: &Value) -> String {
    answer["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_long_prompt_is_prefilled_elsewhere_and_answered_the_same() {
    let (prefill, decode, single) = (engine("prefill").await, engine("decode").await, engine("both").await);
    let config = format!(
        "[[plugin]]\nname = \"pd-split\"\nconfig = {{ mode = \"threshold\" }}\n[[pool]]\nname = \"p\"\nmodels = [\"tiny\"]\n\
         engine = \"vllm\"\nendpoints = [{{ url = \"{}\", role = \"prefill\" }}, \
         {{ url = \"{}\", role = \"decode\" }}]\n",
        prefill.url(),
        decode.url()
    );
    let router = Router::with(config).start().await;
    let body = json!({"model": "tiny", "max_tokens": 12, "temperature": 0,
        "messages": [{"role": "user", "content": question()}]})
    .to_string();

    let expected = sluicegate_tests::post(format!("{}/v1/chat/completions", single.url()), body.clone());
    let expected = said(&expected.send().await.expect(200).await.json().await);
    let request = router.post("/v1/chat/completions", body.clone()).header("x-request-id", "split");
    let answer = request.send().await.expect(200).await;
    assert_eq!(answer.endpoint(), decode.id());
    assert_eq!(said(&answer.json().await), expected);
    assert!(!expected.is_empty());
    let decision = router.decision("split").await;
    assert_eq!(decision["prefill"], prefill.id(), "{decision:#}");

    let streamed = router.post("/v1/chat/completions", body).streamed().send().await.expect(200).await;
    let words: String = streamed
        .events()
        .await
        .iter()
        .filter_map(|event| serde_json::from_str::<Value>(event).ok())
        .filter_map(|event| event["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(words, expected);
}

#[tokio::test]
async fn a_short_prompt_stays_at_the_endpoint_that_decodes() {
    let (prefill, decode) = (engine("prefill").await, engine("decode").await);
    let config = format!(
        "[[plugin]]\nname = \"pd-split\"\nconfig = {{ mode = \"threshold\" }}\n[[pool]]\nname = \"p\"\nmodels = [\"tiny\"]\n\
         engine = \"vllm\"\nendpoints = [{{ url = \"{}\", role = \"prefill\" }}, \
         {{ url = \"{}\", role = \"decode\" }}]\n",
        prefill.url(),
        decode.url()
    );
    let router = Router::with(config).start().await;
    let answer = router.chat("hi").header("x-request-id", "short").send().await.expect(200).await;
    assert_eq!(answer.endpoint(), decode.id());
    answer.bytes().await;
    assert_eq!(router.decision("short").await["prefill"], Value::Null);
}

#[tokio::test]
async fn without_its_prefill_endpoint_a_request_is_served_all_the_same() {
    let (prefill, decode) = (engine("prefill").await, engine("decode").await);
    let config = format!(
        "[[plugin]]\nname = \"pd-split\"\nconfig = {{ mode = \"threshold\" }}\n[[pool]]\nname = \"p\"\nmodels = [\"tiny\"]\n\
         engine = \"vllm\"\nendpoints = [{{ url = \"{}\", role = \"prefill\" }}, \
         {{ url = \"{}\", role = \"decode\" }}]\n",
        prefill.url(),
        decode.url()
    );
    let router = Router::with(config).start().await;
    drop(prefill);
    for turn in 0..3 {
        let answer = router.chat(&format!("{turn} {}", question())).send().await.expect(200).await;
        assert_eq!(answer.endpoint(), decode.id());
    }
}
