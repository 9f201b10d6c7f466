//! Real vLLM servers on the CPU. `cargo xtask test --engines` installs them (6 GB) and runs these tests.

use sluicegate_tests::{Router, Value, VllmServer, free_port, json, places, wait};

fn question(about: &str) -> String {
    (0..200).map(|number| format!("{about}{number} delta epsilon ")).collect()
}

fn said(answer: &Value) -> String {
    answer["choices"][0]["text"].as_str().unwrap_or_default().to_owned()
}

/// A router that always splits, with what two servers of their own do.
async fn splitting(prefill: &VllmServer, decode: &VllmServer) -> Router {
    Router::with(format!(
        "[scrape]\ntimeout_ms = 10000\n[[plugin]]\nname = \"pd-split\"\nconfig = {{ mode = \"always\" }}\n\
         [[pool]]\nname = \"p\"\nengine = \"vllm\"\nblock_tokens = 32\nfirst_byte_timeout_ms = 20000\n\
         idle_timeout_ms = 20000\nendpoints = [\
         {{ url = \"{}\", role = \"prefill\" }}, {{ url = \"{}\", role = \"decode\" }}]\n",
        prefill.url(),
        decode.url()
    ))
    .start()
    .await
}

/// What is answered to a question about this number. Odd ones are asked as a stream.
async fn ask(url: String, about: usize) -> String {
    let stream = about % 2 == 1;
    let prompt = question(&format!("k{about}"));
    let body =
        json!({"model": "tiny", "prompt": prompt, "max_tokens": 6, "temperature": 0, "stream": stream});
    let request = sluicegate_tests::post(format!("{url}/v1/completions"), body.to_string());
    let answer = request.header("x-request-id", &format!("r{about}")).send().await.expect(200).await;
    if !stream {
        return said(&answer.json().await);
    }
    let events = answer.events().await;
    events
        .iter()
        .filter_map(|event| serde_json::from_str::<Value>(event).ok())
        .map(|event| said(&event))
        .collect()
}

/// Prompt tokens that a server has taken from another.
async fn taken_over(server: &VllmServer) -> f64 {
    let page = sluicegate_tests::get(format!("{}/metrics", server.url())).send().await.text().await;
    let moved = page.lines().filter(|line| {
        line.starts_with("vllm:prompt_tokens_by_source_total") && line.contains("external_kv_transfer")
    });
    moved.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs vLLM: cargo xtask test --engines"]
async fn vllm_hands_prompts_to_another_and_answers_the_same_when_its_prefill_is_killed_in_the_middle() {
    let (prefill, decode) = tokio::join!(VllmServer::start(), VllmServer::start());
    let router = splitting(&prefill, &decode).await;
    // Whole and as a stream: what a single server says, and every prompt by transfer.
    for about in 0..4 {
        let before = taken_over(&decode).await;
        let split = ask(router.url(""), about).await;
        let decision = router.decision(&format!("r{about}")).await;
        assert_eq!(decision["prefill"], prefill.url().trim_start_matches("http://"), "{decision:#}");
        assert!(taken_over(&decode).await > before + 500.0);
        assert_eq!(split, ask(prefill.url(), about).await);
        assert!(!split.is_empty());
    }
    let outcome = async |name| router.metric("sluicegate_splits_total", &[("outcome", name)]).await;
    assert!((outcome("split").await - 4.0).abs() < 0.1);

    let clients: Vec<_> = (4..12).map(|about| (about, tokio::spawn(ask(router.url(""), about)))).collect();
    wait::until("the first are split", async || outcome("split").await > 4.5).await;
    drop(prefill);
    for (about, client) in clients {
        assert_eq!(client.await.unwrap(), ask(decode.url(), about).await, "{about}");
    }
    assert_eq!(ask(router.url(""), 12).await, ask(decode.url(), 12).await);
    assert!(router.metric("sluicegate_split_leases", &[]).await.abs() < 0.5);
    assert!(router.metric("sluicegate_endpoint_requests", &[]).await.abs() < 0.5);
}

fn cached(answer: &Value) -> u64 {
    answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs vLLM: cargo xtask test --engines"]
async fn vllm_is_read_by_its_own_names_and_finds_its_prefixes_again() {
    let (one, two) = tokio::join!(VllmServer::start(), VllmServer::start());
    let config = format!(
        "[scrape]\ntimeout_ms = 10000\n[[pool]]\nname = \"p\"\nblock_tokens = 32\nendpoints = [\"{}\", \"{}\"]\n",
        one.url(),
        two.url()
    );
    let router = Router::with(config).start().await;
    for server in [&one, &two] {
        let id = server.url().trim_start_matches("http://").to_owned();
        wait::until("the engine is known", async || router.endpoint(&id).await["engine"] == "vllm").await;
    }

    // Each prompt goes back to where it was, and the engine itself says that it was found there.
    for about in ["alpha", "beta", "gamma"] {
        let prompt = question(about);
        let ask = |id: &str| {
            let body =
                json!({"model": "tiny", "prompt": prompt, "max_tokens": 4, "temperature": 0}).to_string();
            router.post("/v1/completions", body).header("x-request-id", id).send()
        };
        let first = ask(&format!("{about}-first")).await.expect(200).await;
        let at = first.endpoint().to_owned();
        assert_eq!(cached(&first.json().await), 0);
        let again = ask(&format!("{about}-again")).await.expect(200).await;
        assert_eq!(again.endpoint(), at);
        assert!(cached(&again.json().await) > 500);
        let decision = router.decision(&format!("{about}-again")).await;
        let usage = decision["columns"]["engine.kv_usage"].as_array().unwrap();
        assert!(usage.iter().all(Value::is_number), "{decision:#}");
    }

    // A prompt of token ids, as trace replays send them, is routed by them.
    let ids: Vec<u32> = (0..600).map(|n| 10 + n % 900).collect();
    let body = json!({"model": "tiny", "prompt": ids, "max_tokens": 4, "temperature": 0}).to_string();
    let first = router.post("/v1/completions", body.clone()).send().await.expect(200).await;
    let at = first.endpoint().to_owned();
    let again = router.post("/v1/completions", body).send().await.expect(200).await;
    assert_eq!(again.endpoint(), at);
    assert!(cached(&again.json().await) > 500);

    let report = vllm_bench(&router.url("")).await;
    assert!(report.contains("Successful requests:                     40"), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs vLLM: cargo xtask test --engines"]
async fn what_vllm_reports_is_what_it_answers_from() {
    let [listens, replays, connects] = [free_port().await, free_port().await, free_port().await];
    let replay = format!("tcp://127.0.0.1:{replays}");
    let (listening, connecting) = (format!("tcp://*:{listens}"), format!("tcp://127.0.0.1:{connects}"));
    let (one, two) = tokio::join!(
        VllmServer::publishing(&listening, Some(&replay)),
        VllmServer::publishing(&connecting, None)
    );
    let config = format!(
        "[scrape]\ntimeout_ms = 10000\n[[pool]]\nname = \"p\"\nkv_events = \"auto\"\nendpoints = [\"{}\", \
         {{ url = \"{}\", kv_events = {{ bind = \"{connecting}\" }} }}]\n",
        one.url(),
        two.url()
    );
    let router = Router::with(config).start().await;
    let heard = async |count| {
        wait::until("it listens", async || router.log().matches("listening to").count() >= count).await
    };
    heard(2).await;
    let (mut exact, mut cached_once, mut forgotten) = (0, 0, 0);
    let mut sent: Vec<(String, Vec<u32>)> = Vec::new();
    for round in 0..60_u32 {
        let (which, count) = (round * round % 11, 100 + round * 37 % 500);
        let prompt: Vec<u32> = (0..count).map(|n| 10 + (n * 7 + which * 131) % 3_000).collect();
        let body = json!({"model": "tiny", "prompt": prompt, "max_tokens": 2, "temperature": 0}).to_string();
        let id = format!("round-{round}");
        let request = router.post("/v1/completions", body).header("x-request-id", &id);
        let answer = request.send().await.expect(200).await;
        let at = answer.endpoint().to_owned();
        let actual = cached(&answer.json().await);
        let decision = router.decision(&id).await;
        let place = decision["candidates"].as_array().unwrap().iter().position(|candidate| *candidate == *at);
        let predicted = decision["columns"]["prefix.tokens"][place.unwrap()].as_f64().unwrap() as u64;
        let known = decision["prefix_known"][place.unwrap()].as_str().unwrap().to_owned();
        println!("{round}: {known} predicted {predicted} actual {actual} of {count} at {at}");
        if known == "exact" {
            exact += 1;
            assert_eq!(predicted, actual, "round {round}");
        }
        cached_once += u32::from(actual > 0);
        let shared = |(other, before): &(String, Vec<u32>)| {
            *other == at && before.len() > 32 && count > 32 && before[..32] == prompt[..32]
        };
        forgotten += u32::from(actual == 0 && sent.iter().any(shared));
        sent.push((at, prompt));
        quiet(&router).await;
    }
    println!("{exact} exact, {cached_once} cached, {forgotten} forgotten");
    assert!(exact >= 20 && cached_once >= 10 && forgotten >= 3);
}

/// Waits until no report has come for a while.
async fn quiet(router: &Router) {
    let count = async || router.metric("sluicegate_kv_events_total", &[]).await;
    let mut before = count().await;
    let mut same = 0;
    wait::until("no more reports come", async || {
        let now = count().await;
        same = if now.to_bits() == before.to_bits() { same + 1 } else { 0 };
        before = now;
        same > 15
    })
    .await;
}

/// vLLM's own load generator: prompts in groups that share their beginnings.
async fn vllm_bench(url: &str) -> String {
    let mut bench = tokio::process::Command::new(places::vllm().join("bin/vllm"));
    bench.args(["bench", "serve", "--backend", "openai", "--endpoint", "/v1/completions", "--base-url", url]);
    bench.arg("--model").arg("tiny").arg("--tokenizer").arg(places::model());
    bench.args(["--dataset-name", "prefix_repetition", "--prefix-repetition-prefix-len", "256"]);
    bench.args(["--prefix-repetition-suffix-len", "64", "--prefix-repetition-num-prefixes", "4"]);
    bench.args(["--prefix-repetition-output-len", "8", "--num-prompts", "40", "--request-rate", "8"]);
    bench.envs([("HF_HUB_OFFLINE", "1"), ("TRANSFORMERS_OFFLINE", "1"), ("VLLM_NO_USAGE_STATS", "1")]);
    let output = bench.kill_on_drop(true).output().await.unwrap();
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
