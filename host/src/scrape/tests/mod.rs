mod pages;
mod server;

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use self::server::{Answer, Server};
use super::{Parser, Wanted, run};
use crate::clock::{Clock, RealClock};
use crate::config::{HttpVersion, PoolTls, Scrape};
use crate::net::Dialer;
use crate::policy::Registry;
use crate::pool::{Endpoint, EndpointSpec, Pool, PoolSpec, Report, Status, Why};
use crate::types::{Engine, Url};

fn parse(page: &[u8], registry: &Registry) -> Report {
    let wanted = Wanted::new(registry.series());
    let mut parser = Parser::new(&wanted);
    parser.feed(page);
    let page = parser.finish();
    let mut report = Report { engine: page.engine(), ..Report::default() };
    page.fill(&mut report);
    report
}

fn fixed(page: &str) -> Report {
    parse(page.as_bytes(), &Registry::default())
}

#[test]
fn vllm_is_read_with_all_its_ranks() {
    let page = pages::vllm();
    assert!((50_000..70_000).contains(&page.len()), "{}", page.len());
    let report = fixed(&page);
    assert_eq!(report.engine, Some(Engine::Vllm));
    assert_eq!((report.waiting, report.running), (Some(8.0), Some(24.0)));
    assert_eq!((report.kv_usage, report.preemptions), (Some(0.37), Some(4.0)));
    assert_eq!((report.block_tokens, report.kv_blocks), (Some(16), Some(80_000)));
}

#[test]
fn old_vllm_is_read_with_its_adapters() {
    let report = fixed(pages::VLLM_OLD);
    assert_eq!((report.waiting, report.running, report.kv_usage), (Some(1.0), Some(3.0), Some(0.25)));
    assert_eq!((report.block_tokens, report.kv_blocks), (Some(16), Some(27_000)));
    assert_eq!(report.lora_active, ["chat", "math", "sql"].map(Box::from));
    assert_eq!(report.lora_max, Some(4));
}

#[test]
fn the_size_in_tokens_stands_in_for_the_blocks() {
    let report = fixed(
        "vllm:cache_config_info{block_size=\"32\",num_gpu_blocks=\"None\",kv_cache_size_tokens=\"1048576\"} 1\n",
    );
    assert_eq!((report.block_tokens, report.kv_blocks), (Some(32), Some(32_768)));
}

#[test]
fn the_other_engines_are_read() {
    let report = fixed(pages::SGLANG);
    assert_eq!(report.engine, Some(Engine::Sglang));
    assert_eq!((report.waiting, report.running, report.kv_usage), (Some(2.0), Some(27.0), Some(0.28)));
    assert_eq!((report.block_tokens, report.kv_blocks), (Some(64), Some(6832)));
    let report = fixed(pages::TRTLLM);
    assert_eq!(report.engine, Some(Engine::Trtllm));
    assert_eq!((report.waiting, report.running, report.kv_usage), (Some(3.0), Some(5.0), Some(0.5)));
    assert_eq!((report.block_tokens, report.kv_blocks), (Some(32), Some(4096)));
    let report = fixed(pages::LLAMACPP);
    assert_eq!(report.engine, Some(Engine::Llamacpp));
    assert_eq!((report.waiting, report.running, report.kv_usage), (Some(1.0), Some(2.0), None));
}

#[test]
fn resolved_series_are_summed_over_the_labels_that_are_not_named() {
    let registry = Registry::default();
    for name in [
        "vllm:request_success_total",
        "vllm:request_success_total{engine=1}",
        "vllm:num_requests_running{engine=0}",
        "nope",
    ] {
        registry.resolve(&format!("metric:{name}")).unwrap();
    }
    let report = parse(pages::vllm().as_bytes(), &registry);
    assert_eq!(report.series[..3], [198.0, 99.0, 12.0]);
    assert!(report.series[3].is_nan());
    assert_eq!(report.running, Some(24.0), "a name may be wanted twice");
}

/// In a form that can be compared although series may be NaN.
fn comparable(report: &Report) -> String {
    format!("{report:?} {:?}", report.series)
}

proptest! {
    /// Whatever bytes come, in whatever pieces, reading ends in some report.
    #[test]
    fn any_bytes_are_read(page in prop::collection::vec(any::<u8>(), 0..2_000), piece in 1..100usize) {
        let registry = Registry::default();
        registry.resolve("metric:vllm:x{a=b}").unwrap();
        let wanted = Wanted::new(registry.series());
        let mut parser = Parser::new(&wanted);
        page.chunks(piece).for_each(|piece| parser.feed(piece));
        parser.finish().fill(&mut Report::default());
    }

    /// The same for lines of wanted names with damaged rests.
    #[test]
    fn any_rest_of_a_wanted_line_is_read(
        lines in prop::collection::vec(("vllm:(cache_config_info|lora_requests_info|num_requests_running)", "[{}\"\\\\=, a-z0-9.e+-]{0,40}"), 0..20),
    ) {
        let page: String = lines.iter().map(|(name, rest)| format!("{name}{rest}\n")).collect();
        fixed(&page);
    }

    /// Where the pieces are cut makes no difference.
    #[test]
    fn pieces_make_no_difference(cuts in prop::collection::vec(0..70_000usize, 0..20)) {
        let page = pages::vllm() + pages::VLLM_OLD.trim_end();
        let registry = Registry::default();
        registry.resolve("metric:vllm:request_success_total").unwrap();
        let whole = parse(page.as_bytes(), &registry);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % (page.len() + 1)).chain([0, page.len()]).collect();
        cuts.sort_unstable();
        let wanted = Wanted::new(registry.series());
        let mut parser = Parser::new(&wanted);
        cuts.windows(2).for_each(|cut| parser.feed(&page.as_bytes()[cut[0]..cut[1]]));
        let mut report = Report { engine: Some(Engine::Vllm), ..Report::default() };
        parser.finish().fill(&mut report);
        prop_assert_eq!(comparable(&report), comparable(&whole));
    }
}

#[test]
fn an_endless_line_costs_bounded_memory_and_the_next_line_counts() {
    let registry = Registry::default();
    let wanted = Wanted::new(registry.series());
    let mut parser = Parser::new(&wanted);
    parser.feed(b"vllm:num_requests_running");
    for _ in 0..10_000 {
        parser.feed(&[b'x'; 1_000]);
    }
    parser.feed(b" 3\nvllm:num_requests_waiting 5");
    let mut report = Report::default();
    parser.finish().fill(&mut report);
    assert_eq!((report.running, report.waiting), (None, Some(5.0)));
}

const QUICK: Scrape = Scrape {
    interval: Duration::from_millis(20),
    busy_interval: Duration::from_millis(20),
    timeout: Duration::from_millis(500),
    models_interval: Duration::from_millis(100),
    page_bytes: 1 << 17,
};

fn dialer() -> Dialer {
    let tls = PoolTls { ca: None, cert: None, key: None, server_name: None, verify: true };
    Dialer::new(&tls, HttpVersion::Auto).unwrap()
}

struct Scene {
    pool: Arc<Pool>,
    registry: Arc<Registry>,
    clock: Arc<RealClock>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn specs(addresses: &[&str]) -> Vec<EndpointSpec> {
    addresses.iter().map(|address| EndpointSpec::new(Url::parse(address).unwrap())).collect()
}

impl Scene {
    fn start(addresses: &[&str]) -> Self {
        let pool = Arc::new(Pool::new(PoolSpec { endpoints: specs(addresses), ..PoolSpec::default() }));
        let (registry, clock) = (Arc::<Registry>::default(), RealClock::start());
        let (reads, time) = (Arc::clone(&registry), Arc::clone(&clock) as Arc<dyn Clock>);
        let task = tokio::spawn(run(Arc::clone(&pool), reads, dialer(), time, QUICK));
        Self { pool, registry, clock, task }
    }

    fn first(&self) -> Arc<Endpoint> {
        Arc::clone(&self.pool.endpoints()[0])
    }

    async fn until(&self, what: &str, mut holds: impl FnMut(&Endpoint) -> bool) {
        let wait = async {
            while !holds(&self.first()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(20), wait).await;
        assert!(ended.is_ok(), "never {what}: {:?} {:?}", self.first().report(), self.first().health);
    }
}

fn up(endpoint: &Endpoint) -> bool {
    endpoint.health.status() == Status::Up
}

#[tokio::test]
async fn a_vllm_is_found_out_and_read() {
    let page = pages::vllm();
    let models = pages::models("vllm", &["llama", "sql"]);
    let server = Server::start("uvicorn", &[("/metrics", 200, &page), ("/v1/models", 200, &models)]).await;
    let scene = Scene::start(&[&server.address]);
    scene.until("ready", |_| scene.pool.ready(scene.clock.now())).await;
    let endpoint = scene.first();
    assert_eq!(endpoint.report().engine, Some(Engine::Vllm));
    assert!((endpoint.engine.waiting() - 8.0).abs() < 1e-6);
    assert!((endpoint.engine.kv_usage() - 0.37).abs() < 1e-6);
    assert!(endpoint.engine.age_ms(scene.clock.now()) < 20_000.0);
    assert_eq!(scene.pool.models(), ["llama", "sql"].map(Box::from));
    scene.registry.resolve("metric:vllm:engine_sleep_state").unwrap();
    scene.until("read with the new series", |endpoint| endpoint.report().series[..] == [0.0]).await;
    server.set("/v1/models", Answer::Page(200, pages::models("vllm", &["llama"])));
    scene.until("without the model that is gone", |_| scene.pool.models().len() == 1).await;
    assert!(server.asked("/v1/models") < server.asked("/metrics"));
    assert_eq!((server.asked("/slots"), server.asked("/health")), (0, 0));
}

#[tokio::test]
async fn llamacpp_shows_its_cache_in_slots() {
    let models = pages::models("llamacpp", &["tiny"]);
    let answers =
        [("/metrics", 200, pages::LLAMACPP), ("/slots", 200, pages::SLOTS), ("/v1/models", 200, &models)];
    let server = Server::start("llama.cpp", &answers).await;
    let scene = Scene::start(&[&server.address]);
    scene.until("read", |endpoint| endpoint.engine.kv_usage() > 0.0).await;
    assert!((scene.first().engine.kv_usage() - 0.25).abs() < 1e-6);
    assert!((scene.first().engine.waiting() - 1.0).abs() < 1e-6);
}

#[tokio::test]
async fn llamacpp_without_metrics_is_up_and_its_slots_count() {
    let answers = [
        ("/metrics", 501, "{\"error\":{}}"),
        ("/health", 200, "{\"status\":\"ok\"}"),
        ("/slots", 200, pages::SLOTS),
    ];
    let server = Server::start("llama.cpp", &answers).await;
    let scene = Scene::start(&[&server.address]);
    scene.until("read", |endpoint| endpoint.engine.running() > 0.0).await;
    let endpoint = scene.first();
    assert!(up(&endpoint));
    assert_eq!(endpoint.report().engine, Some(Engine::Llamacpp));
    assert!((endpoint.engine.running() - 2.0).abs() < 1e-6);
    assert!(endpoint.engine.waiting().is_nan());
}

#[tokio::test]
async fn an_engine_that_offers_nothing_is_up_without_numbers() {
    let models = pages::models("sglang", &["m"]);
    let server = Server::start("uvicorn", &[("/v1/models", 200, &models), ("/health", 200, "")]).await;
    let scene = Scene::start(&[&server.address]);
    scene.until("ready", |_| scene.pool.ready(scene.clock.now())).await;
    let endpoint = scene.first();
    assert_eq!(endpoint.report().engine, Some(Engine::Sglang));
    assert!(endpoint.engine.running().is_nan() && endpoint.engine.age_ms(scene.clock.now()).is_nan());
    scene.until("asked for its health again", |_| server.asked("/health") > 3).await;
    assert!(server.asked("/metrics") < server.asked("/health"));
}

#[tokio::test]
async fn a_closed_port_is_down() {
    let server = Server::start("x", &[("/metrics", 200, pages::SGLANG)]).await;
    let scene = Scene::start(&[&server.address]);
    scene.until("up", up).await;
    server.stop();
    scene.until("down", |endpoint| !endpoint.usable(scene.clock.now())).await;
    let why = |endpoint: &Endpoint, why| matches!(endpoint.health.status(), Status::Down { why: known, .. } if known == why);
    assert!(why(&scene.first(), Why::Refused) || why(&scene.first(), Why::Probes));
    scene.first().health.probe_ok();
    scene.until("refused", |endpoint| why(endpoint, Why::Refused)).await;
}

#[tokio::test]
async fn what_hangs_fails_or_is_too_long_is_down_after_three_probes() {
    for answer in
        [Answer::Hang, Answer::Page(500, String::new()), Answer::Page(200, "x".repeat(QUICK.page_bytes + 1))]
    {
        let server = Server::start("x", &[]).await;
        server.set("/metrics", answer);
        let scene = Scene::start(&[&server.address]);
        scene
            .until("down", |endpoint| {
                matches!(endpoint.health.status(), Status::Down { why: Why::Probes, .. })
            })
            .await;
        assert!(!scene.first().health.last_error().is_empty());
        server.set("/metrics", Answer::Page(200, pages::TRTLLM.into()));
        scene.until("up again", up).await;
    }
}

#[tokio::test]
async fn an_endpoint_that_is_slower_than_the_interval_is_never_asked_twice_at_a_time() {
    let server = Server::start("x", &[]).await;
    server.set("/metrics", Answer::Slow(QUICK.interval * 4, pages::TRTLLM.into()));
    let scene = Scene::start(&[&server.address]);
    scene.until("read four times", |_| server.asked("/metrics") > 3).await;
    assert!(up(&scene.first()));
    assert_eq!(server.most_at_once(), 1);
}

#[tokio::test]
async fn slow_models_do_not_take_an_endpoint_down() {
    let server = Server::start("x", &[("/metrics", 200, pages::LLAMACPP)]).await;
    server.set("/v1/models", Answer::Hang);
    server.set("/slots", Answer::Page(200, "[".repeat(QUICK.page_bytes + 1)));
    let scene = Scene::start(&[&server.address]);
    scene.until("read four times", |_| server.asked("/metrics") > 3).await;
    assert!(up(&scene.first()));
    assert!((scene.first().engine.running() - 2.0).abs() < 1e-6);
}

#[tokio::test]
async fn endpoints_that_join_are_read_and_those_that_leave_are_not() {
    let first = Server::start("x", &[("/metrics", 200, pages::TRTLLM)]).await;
    let second = Server::start("x", &[("/metrics", 200, pages::TRTLLM)]).await;
    let scene = Scene::start(&[&first.address]);
    scene.until("up", up).await;
    scene.pool.update(specs(&[&second.address]));
    scene.until("read", up).await;
    let asked = first.asked("/metrics");
    let more = second.asked("/metrics") + 5;
    scene.until("read more", |_| second.asked("/metrics") > more).await;
    assert!(first.asked("/metrics") <= asked + 1);
}
