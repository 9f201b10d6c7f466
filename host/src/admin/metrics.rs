//! `GET /metrics`

use http::StatusCode;

use super::answer::{Answer, typed};
use super::kv_events;
use super::router::Call;
use super::shadow;
use super::tenants;
use super::{Admin, AdminPool};
use crate::clock::{Nanos, SECOND};
use crate::flow::GateStatus;
use crate::plugin::{Counted, PluginStatus, SeriesValue};
use crate::policy::Plugin;
use crate::policy::timing::BOUNDS;
use crate::pool::{Endpoint, Pool, Status};
use crate::telemetry::{Format, Page, Resource, Usage};

/// What was counted and how things stand.
pub(super) fn metrics(admin: &Admin, call: &Call) -> Answer {
    let format = Format::accepted(&call.accept);
    typed(StatusCode::OK, format.content_type(), admin.metrics.encode(format, |page| state(admin, page)))
}

fn state(admin: &Admin, page: &mut Page) {
    let now = admin.clock.now();
    page.gauge("build_info", "The running version").set(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    let generation = admin.catalog.current().generation;
    page.gauge("policy_set_generation", "Swaps of the policy set since the start")
        .set(&[], generation as f64);
    let reloads = admin.reloads.status();
    let mut reloaded = page.counter("config_reloads", "Times that the configuration was read again");
    for (outcome, count) in
        [("applied", reloads.applied), ("unchanged", reloads.unchanged), ("refused", reloads.refused)]
    {
        reloaded.add(&[("outcome", outcome)], count);
    }
    page.gauge("config_in_force", "Whether the configuration is as its file says")
        .set(&[], f64::from(u8::from(reloads.problem.is_none())));
    if let Some(directory) = &admin.directory {
        let listed = f64::from(u8::from(directory.load().problem.is_none()));
        page.gauge("plugin_directory_listed", "Whether the plugin directory can be listed").set(&[], listed);
    }
    usage(page, admin.metrics.usage());
    for pool in &admin.lanes {
        queue(page, pool);
        kv_events::metrics(page, pool, now);
        for endpoint in pool.lane.pool.endpoints().iter() {
            self::endpoint(page, &pool.lane.pool, endpoint, now);
        }
    }
    tenants::metrics(page, &admin.tenants, now);
    page.counter("audit_lost", "Lines of the audit that could not be written").add(&[], admin.audit.lost());
    for compiled in admin.catalog.compiled() {
        page.histogram(
            "plugin_compile_seconds",
            "Time until a plugin's code was there, by where it came from",
        )
        .spread(&[("how", compiled.how.as_str())], compiled.time.as_secs_f64(), compiled.count, &[]);
    }
    let plugins = admin.catalog.status();
    for status in plugins.iter() {
        plugin(page, status, now);
    }
    shadow::metrics(page, &admin.catalog.current());
    // After all the host's own, so that a plugin's name gives way to them.
    for status in plugins.iter() {
        plugins_own(page, &status.name, &status.main);
        if let Some(candidate) = &status.candidate {
            plugins_own(page, &candidate.name, &candidate.counted);
        }
    }
}

fn usage(page: &mut Page, usage: &Usage) {
    page.gauge("connections", "Connections of clients").set(&[], usage.held(Resource::Connections) as f64);
    page.gauge("requests_in_flight", "Requests of clients, those that wait included")
        .set(&[], usage.held(Resource::Requests) as f64);
    page.gauge("buffered_bytes", "Bytes of request bodies that are held")
        .set(&[], usage.held(Resource::BufferedBytes) as f64);
    let mut hits = page.counter("limit_hits", "Times that a bound of `[limits]` was met, by its key");
    for (limit, count) in usage.hits() {
        hits.add(&[("limit", limit)], count);
    }
}

fn queue(page: &mut Page, AdminPool { lane, gate }: &AdminPool) {
    let pool = ("pool", &*lane.pool.name);
    let status = gate.status();
    let mut waiting = page.gauge("queue_requests", "Requests that wait, by band");
    waiting.set(&[pool, ("band", "0")], 0.0);
    for (band, requests) in &status.waiting {
        waiting.set(&[pool, ("band", &band.to_string())], *requests as f64);
    }
    flows(page, pool, &status);
    page.gauge("queue_bytes", "Bytes of the bodies that wait").set(&[pool], status.bytes as f64);
    page.gauge("saturation", "How full the pool is, as flow control said last")
        .set(&[pool], status.saturation.into());
    page.gauge("running_requests", "Requests that left the queue and are not done")
        .set(&[pool], status.running as f64);
    let index = &lane.index;
    page.gauge("prefix_index_bytes", "Memory of the prefix index").set(&[pool], index.bytes() as f64);
    page.gauge("prefix_index_blocks", "Blocks in the prefix index").set(&[pool], index.blocks() as f64);
    page.counter("prefix_index_evictions", "Blocks that the prefix index forgot")
        .add(&[pool], index.evictions());
}

fn flows(page: &mut Page, pool: (&str, &str), status: &GateStatus) {
    page.gauge("queue_tokens", "Tokens of the prompts that wait").set(&[pool], status.tokens as f64);
    page.gauge("queue_flows", "Flows that wait").set(&[pool], status.waiting_flows as f64);
    page.gauge("queue_drain_per_second", "Requests that went, a second, of late")
        .set(&[pool], status.per_second);
    page.gauge(
        "fairness_jain_index",
        "How equal the shares of the flows that wait are, by weight; 1 is equal",
    )
    .set(&[pool], status.jain);
    page.gauge("sessions_active", "Sessions that hold a place in the caches")
        .set(&[pool], status.sessions as f64);
    page.gauge("sessions_tokens", "Tokens of their contexts").set(&[pool], status.session_tokens as f64);
    for line in &status.lines {
        let band = line.band.to_string();
        let labels = [pool, ("band", &*band), ("flow", &*line.flow)];
        page.counter("flow_requests", "Requests that went, by flow").add(&labels, line.requests);
        page.counter("flow_tokens", "Tokens that they used").add(&labels, line.tokens);
        page.counter("flow_wait_milliseconds", "Time that they waited")
            .add(&labels, (line.waited_s * 1e3) as u64);
    }
}

fn endpoint(page: &mut Page, pool: &Pool, endpoint: &Endpoint, now: Nanos) {
    let labels = [("pool", &*pool.name), ("endpoint", &*endpoint.name)];
    let up = f64::from(u8::from(endpoint.health.status() == Status::Up));
    let draining = f64::from(u8::from(endpoint.draining()));
    let circuit = &endpoint.circuit;
    let ejected = f64::from(u8::from(!circuit.closed()));
    let busy = f64::from(u8::from(circuit.paused(now)));
    page.counter("endpoint_ejections", "Times that it was ejected because requests failed")
        .add(&labels, circuit.ejections());
    let (load, engine, latency) = (&endpoint.load, &endpoint.engine, &endpoint.latency);
    for (name, help, value) in [
        ("endpoint_up", "Whether the endpoint answers", up),
        ("endpoint_draining", "Whether it takes nothing new", draining),
        ("endpoint_ejected", "Whether it is ejected or being tried after that", ejected),
        ("endpoint_busy", "Whether it asked to be left alone", busy),
        ("endpoint_share", "Share of requests that it may get", circuit.share(now, pool.ejection.slow_start)),
        ("endpoint_requests", "Requests of ours that run there", load.requests() as f64),
        (
            "endpoint_prefill_tokens",
            "Uncached prompt tokens sent and not yet answered",
            load.prefill_tokens() as f64,
        ),
        ("endpoint_decode_tokens", "Tokens in the contexts that decode there", load.decode_tokens() as f64),
        (
            "endpoint_limit_requests",
            "Requests that it serves well at once, learned",
            endpoint.limit.requests().into(),
        ),
        ("endpoint_engine_waiting", "Requests that wait inside the engine", engine.waiting().into()),
        ("endpoint_engine_running", "Requests that run inside the engine", engine.running().into()),
        ("endpoint_engine_kv_usage", "Share of the KV cache in use", engine.kv_usage().into()),
        (
            "endpoint_engine_metrics_age_seconds",
            "Age of what the engine reported",
            f64::from(engine.age_ms(now)) / 1e3,
        ),
        (
            "endpoint_success_ratio",
            "Moving share of requests that succeeded",
            endpoint.health.success_ratio().into(),
        ),
        (
            "endpoint_ttft_seconds",
            "Moving average of the time to first token",
            f64::from(latency.ttft_ms()) / 1e3,
        ),
        (
            "endpoint_tpot_seconds",
            "Moving average of the time per output token",
            f64::from(latency.tpot_ms()) / 1e3,
        ),
    ] {
        page.gauge(name, help).set(&labels, value);
    }
}

fn plugin(page: &mut Page, status: &PluginStatus, now: Nanos) {
    let name = ("plugin", &*status.name);
    page.counter("plugin_rollbacks", "Versions taken out of force or of trial for what they did")
        .add(&[name], status.rollbacks);
    page.counter("plugin_promotions", "Candidates that became the version in force")
        .add(&[name], status.promotions);
    counted(page, &status.name, &status.main, now);
    if let Some(candidate) = &status.candidate {
        counted(page, &candidate.name, &candidate.counted, now);
    }
}

/// What was counted of a plugin, or under its own name of a candidate.
fn counted(page: &mut Page, name: &str, counted: &Counted, now: Nanos) {
    let name = ("plugin", name);
    let mut failed = page.counter("plugin_failures", "Calls without a usable answer, by reason");
    for (reason, count) in counted.failures() {
        failed.add(&[name, ("reason", reason)], count);
    }
    let mut loads = page.counter("plugin_loads", "Versions taken into service, and files refused");
    loads.add(&[name, ("outcome", "loaded")], counted.loads);
    loads.add(&[name, ("outcome", "refused")], counted.refusals.values().sum());
    let mut refusals = page.counter("plugin_refusals", "Files refused, by reason");
    for (reason, count) in &counted.refusals {
        refusals.add(&[name, ("reason", reason)], *count);
    }
    let mut dropped = page.counter("plugin_dropped", "What a plugin wrote over its bounds, by kind");
    for (what, count) in counted.dropped() {
        dropped.add(&[name, ("what", what.as_str())], count);
    }
    let aside = f64::from(u8::from(counted.aside_until(now).is_some()));
    page.gauge("plugin_set_aside", "Whether it is not asked because its calls failed").set(&[name], aside);
    page.gauge("plugin_instances", "Instances that are alive")
        .set(&[name], counted.population.instances() as f64);
    page.gauge("plugin_generations", "Versions whose code is in memory")
        .set(&[name], counted.population.generations() as f64);
    for (plugin, _) in &counted.serving {
        version(page, name, plugin);
    }
}

fn version(page: &mut Page, name: (&str, &str), plugin: &Plugin) {
    let source = format!("{:?}", plugin.source).to_lowercase();
    let about = [name, ("digest", &plugin.digest), ("version", &plugin.version), ("source", &source)];
    page.gauge("plugin_info", "The version in force").set(&about, 1.0);
    page.counter("plugin_calls", "Calls that were answered, well or not").add(&[name], plugin.health.calls());
    page.counter("plugin_clamped", "Scores outside 0..=1").add(&[name], plugin.health.clamped_scores());
    for (stage, times) in plugin.times.stages() {
        let seconds = |nanos: Nanos| nanos as f64 / SECOND as f64;
        let buckets: Vec<_> =
            BOUNDS.iter().zip(times.buckets).map(|(bound, count)| (seconds(*bound), count)).collect();
        page.histogram("plugin_call_seconds", "Time of calls, by stage").spread(
            &[name, ("stage", stage.as_str())],
            seconds(times.sum),
            times.buckets.iter().sum(),
            &buckets,
        );
    }
}

/// The series that the plugin itself keeps.
fn plugins_own(page: &mut Page, name: &str, counted: &Counted) {
    const HELP: &str = "Kept by a plugin itself";
    for one in &counted.series() {
        let family = format!("plugin_{}", one.name);
        let own = one.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let labels: Vec<_> = [("plugin", name)].into_iter().chain(own).collect();
        match one.value {
            SeriesValue::Counter(count) => {
                page.counter(&family, HELP).add(&labels, count);
            }
            SeriesValue::Gauge(level) => {
                page.gauge(&family, HELP).set(&labels, level);
            }
            SeriesValue::Summary(count, sum) => {
                page.histogram(&family, HELP).spread(&labels, sum, count, &[]);
            }
        }
    }
}
