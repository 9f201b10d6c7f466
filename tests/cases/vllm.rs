//! Real vLLM servers on the CPU. `cargo xtask test --engines` installs them (6 GB) and runs these tests.

use sluicegate_tests::{Router, Value, VllmServer, json};

fn question(about: &str) -> String {
    (0..200).map(|number| format!("{about}{number} delta epsilon ")).collect()
}

fn said(answer: &Value) -> String {
    answer["choices"][0]["text"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs vLLM: cargo xtask test --engines"]
async fn vllm_hands_a_prefilled_prompt_to_another_vllm() {
    let (prefill, decode) = tokio::join!(VllmServer::start(), VllmServer::start());
    let config = format!(
        "[scrape]\ntimeout_ms = 10000\n[[pool]]\nname = \"p\"\nengine = \"vllm\"\nblock_tokens = 32\nendpoints = [\
         {{ url = \"{}\", role = \"prefill\" }}, {{ url = \"{}\", role = \"decode\" }}]\n",
        prefill.url(),
        decode.url()
    );
    let router = Router::with(config).start().await;
    let body =
        json!({"model": "tiny", "prompt": question("pd"), "max_tokens": 6, "temperature": 0}).to_string();

    let request = router.post("/v1/completions", body.clone()).header("x-request-id", "split");
    let split = said(&request.send().await.expect(200).await.json().await);
    let alone = sluicegate_tests::post(format!("{}/v1/completions", prefill.url()), body);
    assert_eq!(split, said(&alone.send().await.expect(200).await.json().await));
    let decision = router.decision("split").await;
    assert_eq!(decision["prefill"], prefill.url().trim_start_matches("http://"), "{decision:#}");
    let page = sluicegate_tests::get(format!("{}/metrics", decode.url())).send().await.text().await;
    let moved = page.lines().find(|line| {
        line.starts_with("vllm:prompt_tokens_by_source_total") && line.contains("external_kv_transfer")
    });
    assert!(moved.is_some_and(|line| !line.ends_with(" 0.0")), "{moved:?}");
}
