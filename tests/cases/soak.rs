//! Minutes of everything that can go wrong at random, and then a look at what is left. Run by `cargo xtask soak`.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sluicegate_tests::{Engine, Over, RawConnection, Reply, Request, Router, wait};
use tokio::net::TcpStream;

const ENGINES: usize = 4;
const CLIENTS: usize = 24;
const CONFIG: &str = r#"
[limits]
header_timeout_ms = 2000
body_timeout_ms = 2000
write_timeout_ms = 2000
connections = 200
[pool.health]
eject_ms = 300
max_eject_ms = 1000
slow_start_ms = 200
"#;

/// Chance of the same sequence in every run (splitmix64).
struct Chance(u64);

impl Chance {
    fn of(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % count
    }
}

fn reply(chance: &mut Chance) -> Reply {
    match chance.of(20) {
        0 => Reply::plain(500, r#"{"error":{"message":"out of memory"}}"#),
        1 => Reply::plain(503, "busy"),
        2 => Reply::plain(429, "{}").with("retry-after", "1"),
        3 => Reply::reset(),
        4 => Reply::hang(),
        5 => Reply::cut("a stream that is cut off within", usize::try_from(chance.of(5)).unwrap()),
        6 => Reply::plain(200, "no JSON at all"),
        7 => Reply::plain(400, r#"{"error":{"message":"too long"}}"#),
        8 | 9 => Reply::says(&"many words ".repeat(200)).every(Duration::from_millis(chance.of(5))),
        _ => Reply::says("all is well here").after(Duration::from_millis(chance.of(50))),
    }
}

/// What came of the requests: by status, or in words.
type Outcomes = Arc<Mutex<BTreeMap<String, u64>>>;

fn count(outcomes: &Outcomes, what: impl Into<String>) {
    *outcomes.lock().unwrap().entry(what.into()).or_default() += 1;
}

/// One thing that a client may do.
async fn act(router: &Router, chance: &mut Chance, outcomes: &Outcomes) {
    let words = "word ".repeat(usize::try_from(chance.of(400)).unwrap());
    let request = router.chat(&format!("{} {words}", chance.of(1 << 40)));
    let request = if chance.of(2) == 0 { request.streamed() } else { request };
    match chance.of(12) {
        0 => raw(router, chance).await,
        1 => gives_up(request, chance).await,
        2 => {
            let stream = TcpStream::connect(router.url("").strip_prefix("http://").unwrap()).await.unwrap();
            let mut client = Over::two(stream).await;
            let mut answer = client.send(request).await;
            let ended = if chance.of(2) == 0 { "read" } else { "left" };
            if ended == "read" {
                let _ = answer.read().await;
            }
            count(outcomes, format!("HTTP/2 {} {ended}", answer.status()));
        }
        3 => count(outcomes, format!("other {}", router.post("/tokenize", words).send().await.status())),
        _ => match request.try_send().await {
            Err(_) => count(outcomes, "no answer"),
            Ok(mut answer) => {
                let read = answer.read().await;
                let text = read.as_ref().map_or(&b""[..], |read| read);
                let told = String::from_utf8_lossy(text).contains("endpoint_failed");
                let how = match (&read, told) {
                    (Err(_), _) => " broken",
                    (Ok(_), true) if answer.status() == 200 => " with an error event",
                    _ => "",
                };
                count(outcomes, format!("{}{how}", answer.status()));
            }
        },
    }
}

/// A request that is cut off anywhere, or is none.
async fn raw(router: &Router, chance: &mut Chance) {
    const WHOLE: &str = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n\
        3e\r\n{\"model\":\"tiny\",\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}\r\n0\r\n\r\n";
    let mut client = RawConnection::open(&router.url("")).await;
    let end = usize::try_from(chance.of(WHOLE.len() as u64)).unwrap();
    client.write(&WHOLE[..end]).await;
    match chance.of(3) {
        0 => client.reset(),
        1 => drop(client),
        _ => {
            client.write("\0nonsense\r\n\r\n").await;
            client.read_to_end().await;
        }
    }
}

/// A client that goes away at any time.
async fn gives_up(request: Request, chance: &mut Chance) {
    let asking = request.try_send();
    let _ = tokio::time::timeout(Duration::from_millis(chance.of(100)), asking).await;
}

/// What the process holds.
#[derive(Debug, Clone, Copy)]
struct Held {
    descriptors: usize,
    threads: usize,
    resident: u64,
}

fn held(router: &Router) -> Held {
    let all = |what: &str| fs::read_dir(format!("/proc/{}/{what}", router.pid())).unwrap().count();
    Held { descriptors: all("fd"), threads: all("task"), resident: router.resident() }
}

async fn quiet(router: &Router) {
    wait::until("nothing is left of any request", async || {
        let mut sum = 0.0;
        for name in [
            "requests_in_flight",
            "buffered_bytes",
            "connections",
            "running_requests",
            "queue_requests",
            "queue_bytes",
            "endpoint_requests",
            "endpoint_prefill_tokens",
            "endpoint_decode_tokens",
        ] {
            sum += router.metric(&format!("sluicegate_{name}"), &[]).await;
        }
        sum == 0.0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; `cargo xtask soak` runs it"]
async fn soak() {
    let seconds =
        std::env::var("SLUICEGATE_TEST_SOAK_S").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let time = Duration::from_secs(seconds);
    let mut engines = Vec::new();
    for _ in 0..ENGINES {
        engines.push(Engine::start().await);
    }
    let urls: Vec<_> = engines.iter().map(Engine::url).collect();
    let timeouts = "first_byte_timeout_ms = 500\nidle_timeout_ms = 500\ntotal_timeout_ms = 5000\nconnect_timeout_ms = 500";
    let pool = format!("[[pool]]\nname = \"default\"\nendpoints = {urls:?}\n{timeouts}");
    let router = Arc::new(
        Router::with(CONFIG.replace("[pool.health]", &format!("{pool}\n[pool.health]"))).start().await,
    );
    let (outcomes, stop) = (Outcomes::default(), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (router, outcomes, stop) = (Arc::clone(&router), Arc::clone(&outcomes), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut chance = Chance(number as u64);
                while !stop.load(Ordering::Relaxed) {
                    act(&router, &mut chance, &outcomes).await;
                }
            })
        })
        .collect();

    let (began, mut chance, mut warm) = (Instant::now(), Chance(1), None);
    let mut crashes = 0;
    while began.elapsed() < time {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let one = usize::try_from(chance.of(ENGINES as u64)).unwrap();
        for _ in 0..4 {
            engines[one].next(reply(&mut chance));
        }
        if chance.of(200) == 0 {
            let addr = engines.swap_remove(one).crash().await;
            tokio::time::sleep(Duration::from_millis(chance.of(2_000))).await;
            engines.push(Engine::at(&addr, "tiny").await);
            crashes += 1;
        }
        if warm.is_none() && began.elapsed() > time / 3 {
            warm = Some(held(&router));
        }
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("a client failed");
    }
    for engine in &engines {
        engine.always(Reply::says("all is well here"));
    }
    quiet(&router).await;
    // What is kept for a next request goes after some seconds.
    let (warm, after) = (warm.unwrap(), held(&router));
    let outcomes = outcomes.lock().unwrap().clone();
    println!("{} s, {crashes} crashes of engines", time.as_secs());
    for (outcome, count) in &outcomes {
        println!("{count:>8}  {outcome}");
    }
    for name in ["retries_total", "requests_aborted_total", "endpoint_ejections_total", "limit_hits_total"] {
        println!("{:>8}  {name}", router.metric(&format!("sluicegate_{name}"), &[]).await);
    }
    println!("after a third: {warm:?}\nat the end:    {after:?}");
    assert!(!outcomes.contains_key("no answer"), "requests without an answer");
    assert!(outcomes["200"] > 0);
    assert!(after.descriptors <= warm.descriptors + 16, "descriptors are left");
    assert!(after.threads <= warm.threads + 2, "threads are left");
    assert!(after.resident < warm.resident + (64 << 20), "memory is left");
    for engine in &engines {
        wait::until("every endpoint serves again", async || {
            router.chat("after it all").send().await.expect(200).await.bytes().await;
            router.endpoint(&engine.id()).await["circuit"]["state"] == "closed"
        })
        .await;
    }
}
