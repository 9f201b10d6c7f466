//! Another process takes over.

use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use sluicegate_tests::{Connection, Engine, Reply, Request, Router, places, wait};

const CLIENTS: usize = 32;

/// The process that took over; ended with the test.
struct Successor(String);

impl Drop for Successor {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", &self.0]).status();
    }
}

async fn upgrade(router: &Router, flags: &[&str]) -> Output {
    let mut command = Command::new(places::router());
    command.args(["upgrade", "--state-dir"]).arg(router.folder().join("state")).args(flags);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

async fn upgraded(router: &Router) -> Successor {
    let output = upgrade(router, &[]).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}{}", String::from_utf8_lossy(&output.stderr), router.log());
    Successor(text.split(' ').nth(1).unwrap().to_owned())
}

fn lasting(engines: &[Engine]) -> String {
    let urls: Vec<String> = engines.iter().map(|engine| format!("\"{}\"", engine.url())).collect();
    format!("[[pool]]\nname = \"p\"\nendpoints = [{}]\n", urls.join(", "))
}

/// Asks again and again, on one connection as long as it is kept, or on a new one each time.
async fn client(
    request: Request,
    address: String,
    keeps: bool,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
) {
    let mut connection = Connection::open(&address).await;
    while !stop.load(Ordering::Relaxed) {
        let answer = connection.send(request.clone().streamed()).await.expect(200).await;
        let kept = keeps && answer.header("connection") != Some("close");
        let events = answer.events().await;
        assert_eq!(events.last().map(String::as_str), Some("[DONE]"), "{events:?}");
        done.fetch_add(1, Ordering::Relaxed);
        if !kept {
            connection = Connection::open(&address).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_nobody_is_refused_and_what_is_known_stays() {
    let engines = [Engine::start().await, Engine::start().await];
    for engine in &engines {
        engine.always(Reply::says("one two three").every(Duration::from_millis(20)));
    }
    let mut router = Router::with(lasting(&engines)).start().await;
    router.chat(&"a long prompt ".repeat(40)).send().await.expect(200).await.bytes().await;
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let request = router.chat(&format!("client {number} asks"));
            let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
            tokio::spawn(client(request, router.url(""), number % 2 == 0, stop, done))
        })
        .collect();
    wait::until("clients are served", async || done.load(Ordering::Relaxed) > CLIENTS).await;
    let blocks = router.metric("sluicegate_prefix_index_blocks", &[]).await;

    let successor = upgraded(&router).await;
    assert_ne!(successor.0, router.pid().to_string());
    let before = done.load(Ordering::Relaxed);
    wait::until("clients are served on", async || done.load(Ordering::Relaxed) > before + 4 * CLIENTS).await;
    assert!(router.metric("sluicegate_prefix_index_blocks", &[]).await >= blocks);
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    assert!(router.ended().await, "{}", router.log());
    router.chat("hello").send().await.expect(200).await;
}

#[tokio::test]
async fn one_that_cannot_serve_leaves_the_old_one_serving() {
    let engine = [Engine::start().await];
    let mut router = Router::with(lasting(&engine)).start().await;
    let output = upgrade(&router, &["--program", "/bin/false"]).await;
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("ended before it was ready"), "{said}");

    router.write_config("[[pool]]\nname = \"p\"\nendpoint = []\n");
    router.config_refused().await;
    let output = upgrade(&router, &[]).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("did you mean `endpoints`?"), "{said}");
    router.chat("hello").send().await.expect(200).await;
    assert!(router.terminate().await, "{}", router.log());

    let output = upgrade(&router, &[]).await;
    assert_eq!(output.status.code(), Some(1), "nobody is there");
}

#[tokio::test]
async fn a_signal_does_it_too_and_a_long_answer_comes_to_its_end() {
    let engine = [Engine::start().await];
    let mut router = Router::with(lasting(&engine)).start().await;
    let live = engine[0].next_live();
    let ask = tokio::spawn(router.chat("hello").streamed().send());
    engine[0].received_at_least(1).await;
    live.event("one").await;
    let mut answer = ask.await.unwrap();
    router.signal("USR2");
    let pid = wait::until_some("another process serves", async || {
        let log = router.log();
        log.lines()
            .find(|line| line.contains("handed over"))
            .and_then(|line| Some(line.split("pid=").nth(1)?.to_owned()))
    })
    .await;
    let _successor = Successor(pid);
    // What comes now is for the new process, which knows nothing of the long answer.
    wait::until("the new process answers", async || {
        router.metric("sluicegate_running_requests", &[]).await == 0.0
    })
    .await;
    router.chat("hello").send().await.expect(200).await;
    assert!(router.running());
    live.event("two").await;
    drop(live);
    assert_eq!(answer.event().await.unwrap(), "one");
    assert_eq!(answer.event().await.unwrap(), "two");
    assert_eq!(answer.event().await, None);
    drop(answer);
    assert!(router.ended().await, "{}", router.log());
}
