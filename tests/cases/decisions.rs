//! Every decision can be explained.

use sluicegate_tests::{Engine, Reply, Router, Value, builtin, digest, json};

#[tokio::test]
async fn a_decision_says_what_each_policy_said() {
    let engines = [Engine::start().await, Engine::start().await, Engine::start().await];
    let router = Router::to(&[&engines[0], &engines[1], &engines[2]]).start().await;
    let answer = router.chat("why there?").header("x-request-id", "why").send().await.expect(200).await;
    let endpoint = answer.endpoint().to_owned();
    answer.bytes().await;

    let decision = router.decision("why").await;
    assert_eq!(decision["request_id"], "why");
    assert_eq!((&decision["api"], &decision["model"]), (&"chat".into(), &"tiny".into()));
    assert_eq!(decision["status"], 200);
    assert_eq!(decision["picked"], *endpoint);
    assert_eq!(decision["retried"], Value::Array(Vec::new()));
    assert_eq!(decision["prefill"], Value::Null);
    let mut candidates: Vec<&str> =
        decision["candidates"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    candidates.sort_unstable();
    let mut expected: Vec<String> = engines.iter().map(Engine::id).collect();
    expected.sort_unstable();
    assert_eq!(candidates, expected);
    assert_eq!(decision["order"][0], *endpoint);
    assert_eq!(decision["order"].as_array().unwrap().len(), 3);
    let columns = decision["columns"].as_object().unwrap();
    assert!(!columns.is_empty());
    assert!(columns.values().all(|column| column.as_array().unwrap().len() == 3), "{columns:?}");

    let scorer =
        decision["answers"].as_array().unwrap().iter().find(|answer| answer["stage"] == "scorer").unwrap();
    assert_eq!(scorer["plugin"], "prefix-affinity");
    assert_eq!(scorer["digest"], digest(&builtin("prefix-affinity")));
    assert_eq!(scorer["error"], Value::Null);
    assert_eq!(scorer["values"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn an_answer_carries_its_decision_where_the_request_asks_for_it() {
    let engines = [Engine::start().await, Engine::start().await];
    let router = Router::to(&[&engines[0], &engines[1]]).start().await;
    let asked = |id: &str| {
        let request = router.chat("why there?").header("x-request-id", id);
        request.header("x-sluicegate-explain", "1")
    };
    let answer = asked("whole").send().await.expect(200).await;
    let (brief, endpoint) = (answer.decision(), answer.endpoint().to_owned());
    answer.bytes().await;
    assert_eq!(
        (&brief["endpoint"], &brief["picked"]),
        (&endpoint.as_str().into(), &endpoint.as_str().into())
    );
    let whole = router.decision("whole").await;
    for member in ["pool", "chain", "generation", "retried", "prefill"] {
        assert_eq!(brief[member], whole[member], "{member}");
    }
    let told = |decision: &Value| -> Vec<[Value; 4]> {
        let answers = decision["answers"].as_array().unwrap().iter();
        answers.map(|answer| ["plugin", "digest", "stage", "error"].map(|key| answer[key].clone())).collect()
    };
    assert!(!told(&brief).is_empty());
    assert_eq!(told(&brief), told(&whole));

    // What was tried in vain is told too, and engines never see that somebody asked.
    engines[0].always(Reply::plain(503, "no"));
    let mut retried = false;
    for turn in 0..40 {
        let answer = asked(&format!("turn-{turn}")).send().await.expect(200).await;
        let brief = answer.decision();
        assert_eq!((&brief["endpoint"], answer.endpoint()), (&answer.endpoint().into(), &*engines[1].id()));
        retried |= brief["retried"] == json!([engines[0].id()]);
    }
    assert!(retried, "forty times nothing was tried at the endpoint that fails");
    assert!(
        engines.iter().flat_map(Engine::received).all(|sent| sent.header("x-sluicegate-explain").is_none())
    );

    let silent = router.chat("why there?").send().await.expect(200).await;
    assert_eq!(silent.header("x-sluicegate-decision"), None);
}

#[tokio::test]
async fn the_last_decisions_are_listed_and_unknown_ones_are_not_found() {
    let engine = Engine::start().await;
    let router = Router::to(&[&engine]).start().await;
    for turn in 0..5 {
        let request = router.chat("hello").header("x-request-id", &format!("turn-{turn}"));
        request.send().await.expect(200).await.bytes().await;
    }
    let all = router.admin_json("/decisions").await;
    let ids: Vec<&str> = all["decisions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|decision| decision["request_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["turn-4", "turn-3", "turn-2", "turn-1", "turn-0"]);
    router.admin("/decisions/never-seen").await.expect(404).await;
}

#[tokio::test]
async fn equal_prefixes_go_to_the_same_endpoint() {
    let engines =
        [Engine::start().await, Engine::start().await, Engine::start().await, Engine::start().await];
    let router = Router::to(&engines.iter().collect::<Vec<_>>()).start().await;
    let document = "a long document that many questions are asked about ".repeat(200);
    let mut endpoints = Vec::new();
    for question in 0..8 {
        let answer = router.chat(&format!("{document} question {question}")).send().await.expect(200).await;
        endpoints.push(answer.endpoint().to_owned());
        answer.bytes().await;
    }
    endpoints.dedup();
    assert_eq!(endpoints.len(), 1, "{endpoints:?}");
}
