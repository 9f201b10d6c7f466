//! Which models are served, and by whom.

use sluicegate_tests::{Engine, Reply, Router};

#[tokio::test]
async fn the_list_of_models_is_the_union() {
    let engines =
        [Engine::serving("alpha").await, Engine::serving("beta").await, Engine::serving("alpha").await];
    let router = Router::to(&[&engines[0], &engines[1], &engines[2]]).start().await;

    // Ready means that one endpoint's models are known; wait for all.
    sluicegate_tests::wait::until("both models are listed", async || {
        let list = router.get("/v1/models").send().await.expect(200).await.json().await;
        let mut ids: Vec<_> =
            list["data"].as_array().unwrap().iter().map(|model| model["id"].clone()).collect();
        ids.sort_by_key(ToString::to_string);
        list["object"] == "list" && ids == ["alpha", "beta"]
    })
    .await;
    for (model, able) in [("alpha", vec![engines[0].id(), engines[2].id()]), ("beta", vec![engines[1].id()])]
    {
        for _ in 0..5 {
            let answer = router.chat("hello").with("model", model).send().await.expect(200).await;
            assert!(able.contains(&answer.endpoint().to_owned()), "{model} at {}", answer.endpoint());
        }
    }
}

#[tokio::test]
async fn so_are_those_of_paths_that_are_no_inference_api() {
    let [one, two] = [Engine::start().await, Engine::start().await];
    for engine in [&one, &two] {
        engine.always(Reply::plain(200, "ok"));
    }
    let router = Router::with(format!(
        "[[pool]]\nname = \"one\"\nmodels = [\"alpha\"]\nendpoints = [\"{}\"]\n\
         [[pool]]\nname = \"two\"\nmodels = [\"beta\"]\naliases = {{ second = \"beta\" }}\nendpoints = [\"{}\"]\n",
        one.url(),
        two.url()
    ));
    let router = router.start().await;
    router.post("/v1/rerank", r#"{"model": "second", "query": "q"}"#).send().await.expect(200).await;
    assert!(one.received().is_empty());
    assert!(String::from_utf8_lossy(&two.only().body).contains("\"beta\""));
    router.post("/v1/rerank", r#"{"model": "gamma"}"#).send().await.expect(200).await;
    assert!(
        String::from_utf8_lossy(&one.only().body).contains("gamma"),
        "nobody serves it: the first pool's engines will say"
    );
}

#[tokio::test]
async fn pools_are_chosen_by_model_and_aliases_are_rewritten() {
    let [one, two] = [Engine::serving("alpha").await, Engine::serving("beta").await];
    let config = format!(
        "[[pool]]\nname = \"one\"\nmodels = [\"alpha\"]\naliases = {{ first = \"alpha\" }}\nendpoints = [\"{}\"]\n\
         [[pool]]\nname = \"two\"\nmodels = [\"beta\"]\nendpoints = [\"{}\"]\n",
        one.url(),
        two.url()
    );
    let router = Router::with(config).start().await;

    let answer = router.chat("hello").with("model", "beta").send().await.expect(200).await;
    assert_eq!(answer.endpoint(), two.id());
    let answer = router.chat("hello").with("model", "first").send().await.expect(200).await;
    assert_eq!(answer.endpoint(), one.id());
    let body: sluicegate_tests::Value = serde_json::from_slice(&one.only().body).unwrap();
    assert_eq!(body["model"], "alpha");
    assert_eq!(body["messages"][0]["content"], "hello");
}
