//! Endpoints by the names of hosts.

use sluicegate_tests::{Dns, Engine, Router, json, wait};

#[tokio::test]
async fn each_address_of_a_host_is_an_endpoint() {
    let engine = Engine::start().await;
    let port = engine.url().rsplit(':').next().unwrap().to_owned();
    let pool = |rest: &str| {
        format!(
            "[[pool]]\nname = \"p\"\nresolve_ms = 50\n{rest}\n\
             endpoints = [{{ url = \"http://localhost:{port}\", resolve = \"addresses\" }}]\n"
        )
    };
    let router = Router::with(pool("")).start().await;
    assert_eq!(router.chat("hello").send().await.expect(200).await.endpoint(), engine.id());
    // Another configuration loses nothing of what was found.
    router.write_config(&pool("retry_percent = 5"));
    router.config_applied(1).await;
    assert_eq!(router.endpoint(&engine.id()).await["status"], "up");
    assert_eq!(router.chat("hello").send().await.expect(200).await.endpoint(), engine.id());
}

#[tokio::test]
async fn a_host_that_cannot_be_resolved_is_waited_for() {
    let engine = Engine::start().await;
    let config = "[[pool]]\nname = \"p\"\nmodels = [\"tiny\"]\nresolve_ms = 50\n\
                  endpoints = [{ url = \"http://nobody.invalid:1\", resolve = \"addresses\" }]\n";
    let router = Router::with(config).unready().start().await;
    wait::until("it is told of", async || router.log().contains("cannot be resolved")).await;
    let waiting = tokio::spawn(router.chat("hello").send());
    wait::until("the request waits", async || router.metric("sluicegate_queue_requests", &[]).await == 1.0)
        .await;
    router.write_config(&config.replace("http://nobody.invalid:1", &engine.url()));
    assert_eq!(waiting.await.unwrap().expect(200).await.endpoint(), engine.id());
}

fn port(engine: &Engine) -> u16 {
    engine.url().rsplit(':').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn targets_of_srv_records_come_and_go() {
    let (first, second) = (Engine::start().await, Engine::start().await);
    let (one, two) = (port(&first), port(&second));
    let dns = Dns::start(&[(1, 0, one, "localhost."), (9, 0, two, "localhost.")]).await;
    let config = format!(
        "[[pool]]\nname = \"p\"\nresolve_ms = 50\ndns = \"{}\"\n\
         endpoints = [{{ url = \"http://_http._tcp.models.svc\", resolve = \"srv\" }}]\n",
        dns.address()
    );
    let router = Router::with(config).start().await;
    let names = async || {
        let shown = router.admin_json("/endpoints").await;
        let mut names: Vec<_> =
            shown["endpoints"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
        names.sort_by_key(ToString::to_string);
        names
    };
    assert_eq!(names().await, [format!("localhost:{one}")], "those of another priority stand by");
    assert_eq!(router.chat("hello").send().await.expect(200).await.endpoint(), format!("localhost:{one}"));
    dns.set(&[(1, 30, one, "localhost."), (1, 10, two, "LOCALHOST.")]);
    wait::until("the new one is there", async || names().await.len() == 2).await;
    let weight = async |port| router.endpoint(&format!("localhost:{port}")).await["weight"].as_f64().unwrap();
    assert_eq!((weight(one).await, weight(two).await), (1.5, 0.5));
    // A name that is gone for now leaves what was there.
    dns.set(&[]);
    wait::until("it is told of", async || router.log().contains("NameError")).await;
    assert_eq!(names().await.len(), 2);
    // A service that is not there is said to be so.
    dns.set(&[(0, 0, 0, ".")]);
    wait::until("all are gone", async || names().await.is_empty()).await;
    dns.set(&[(0, 0, two, "localhost.")]);
    assert_eq!(router.chat("hello").send().await.expect(200).await.endpoint(), format!("localhost:{two}"));
}

#[tokio::test]
async fn an_operator_adds_endpoints_and_takes_them_away() {
    let (first, second) = (Engine::start().await, Engine::start().await);
    let state = tempfile::tempdir().unwrap();
    let pool = |name: &str, allowed: bool, url: &str| {
        format!(
            "[[pool]]\nname = \"{name}\"\nmodels = [\"{name}\"]\nadmin_endpoints = {allowed}\nendpoints = [\"{url}\"]\n"
        )
    };
    let alone = format!("state_dir = {:?}\n{}", state.path(), pool("tiny", true, &first.url()));
    let both = alone.clone() + &pool("closed", false, "http://127.0.0.1:1");
    let mut router = Router::with(both).unready().start().await;
    let add = |pool: &str| format!("/endpoints?pool={pool}&url={}&role=decode&label.zone=b", second.url());
    let remove = |engine: &Engine| format!("/endpoints/{}/remove", engine.id());
    for (path, status, word) in [
        (add("closed"), 403, "admin_endpoints"),
        (add("nobody"), 404, "nobody"),
        ("/endpoints?pool=tiny".into(), 400, "url="),
        (format!("/endpoints?pool=tiny&url={}", first.url()), 409, "already"),
        (remove(&first), 409, "configuration"),
        (remove(&second), 404, "HOST:PORT"),
    ] {
        let said = router.admin_post(&path).await.expect(status).await.text().await;
        assert!(said.contains(word), "{path}: {said}");
    }
    router.admin_post(&add("tiny")).await.expect(200).await;
    let is_up = async |router: &Router| router.endpoint(&second.id()).await["status"] == "up";
    wait::until("it is up", async || is_up(&router).await).await;
    let shown = router.endpoint(&second.id()).await;
    assert_eq!((&shown["role"], &shown["labels"]), (&"decode".into(), &json!({"zone": "b"})));
    // It outlives another configuration, and a restart.
    router.write_config(&alone);
    router.config_applied(1).await;
    assert!(is_up(&router).await);
    assert!(router.terminate().await);
    let router = Router::with(alone).start().await;
    router.admin_post(&format!("/endpoints/{}/drain", first.id())).await.expect(200).await;
    wait::until("it is up", async || is_up(&router).await).await;
    assert_eq!(router.chat("hello").send().await.expect(200).await.endpoint(), second.id());
    router.admin_post(&remove(&second)).await.expect(200).await;
    let left = router.admin_json("/endpoints").await;
    assert_eq!(left["endpoints"].as_array().unwrap().len(), 1);
    let audit = std::fs::read_to_string(state.path().join("audit.jsonl")).unwrap();
    assert!(audit.contains("endpoint.add") && audit.contains("endpoint.remove"), "{audit}");
}
