//! Every stage, one of which misbehaves as the configuration says.
//!
//! `live` lets it pass its trial calls: it misbehaves when the first request of a client has been placed.
//! `every` lets it misbehave in one call of so many.

use std::hint::black_box;

use sluicegate_sdk::config::Settings as _;
use sluicegate_sdk::{
    Admission, Column, Columns, Disaggregation, EndpointsView, Error, EventsView, Filter, FlowControl,
    FlowsView, Handoff, Leg, Manifest, Observer, Picker, Placement, Policy, RequestView, Scorer, Verdict,
    clock, log, metrics, store,
};

/// Bytes of a text that no host should take.
const BOMB: usize = 8 << 20;

sluicegate_sdk::config! {
    /// Who misbehaves, and how.
    pub struct Config {
        /// The stage or function that does.
        pub stage: String = String::new();
        /// What it does.
        pub how: String = String::new();
        /// Whether it waits for the first request of a client.
        pub live: bool = false;
        /// It does so in one call of so many.
        pub every: u32 = 1, in 1..=1_000_000;
    }
}

struct Hostile {
    config: Config,
    load: Column,
}

impl Hostile {
    /// How this stage misbehaves now, if it does.
    fn how(&self, stage: &str) -> Option<&str> {
        let ready = !self.config.live || store::get("live").is_some();
        if self.config.stage != stage || !ready {
            return None;
        }
        let calls = store::add("calls", 1, None).unwrap_or(1);
        (calls % i64::from(self.config.every) == 0).then_some(&*self.config.how)
    }

    /// Misbehaves in the ways that are not answers. Some of them come back.
    fn act(&self, stage: &str) {
        if let Some(how) = self.how(stage) {
            act(how);
        }
    }

    fn positions(&self, stage: &str, len: usize) -> Option<Vec<u32>> {
        let how = self.how(stage)?;
        act(how);
        match how {
            "out-of-range" => Some(vec![len as u32]),
            "repeated" => Some(vec![0, 0]),
            "huge" => Some(vec![0; BOMB / 4]),
            _ => None,
        }
    }
}

fn act(how: &str) {
    match how {
        "trap" => panic!("as configured"),
        "loop" => spin(),
        "recurse" => {
            black_box(deeper(1));
        }
        "grow" => grow(),
        "log-flood" => loop {
            log::info("again");
        },
        "metric-flood" => (0_u64..).for_each(|n| metrics::count(&format!("n{n}"), &[("l", "v")], 1)),
        "label-flood" => (0_u64..).for_each(|n| metrics::count("n", &[("l", &n.to_string())], 1)),
        "store-flood" => (0_u64..).for_each(|n| {
            let _ = store::set(&n.to_string(), &[7; 65_536], None);
        }),
        // As much in the end, and no call of it takes long.
        "store-fill" => (0..4).for_each(|_| {
            let n = store::add("filled", 1, None).unwrap_or(0);
            let _ = store::set(&n.to_string(), &[7; 65_536], None);
        }),
        "long-log" => log::info(&"x".repeat(BOMB)),
        "long-name" => metrics::count(&"x".repeat(BOMB), &[], 1),
        "long-key" => {
            let _ = store::set(&"x".repeat(BOMB), &[], None);
        }
        "many-labels" => metrics::count("n", &vec![("", ""); BOMB / 16], 1),
        _ => {}
    }
}

fn spin() {
    let mut turns = 0_u64;
    loop {
        turns = black_box(turns).wrapping_add(1);
    }
}

#[expect(unconditional_recursion, reason = "that is the point")]
fn deeper(depth: u64) -> u64 {
    black_box(deeper(black_box(depth + 1))) + 1
}

#[cfg(target_arch = "wasm32")]
fn grow() {
    while core::arch::wasm32::memory_grow(0, 64) != usize::MAX {}
    panic!("no more memory");
}

#[cfg(not(target_arch = "wasm32"))]
fn grow() {}

impl Policy for Hostile {
    fn manifest() -> Manifest {
        Manifest::new("hostile", "1.0.0", "misbehaves as configured").with_schema(Config::schema())
    }

    fn configure(json: &str, columns: &mut Columns) -> Result<Self, Error> {
        let load = columns.resolve("load.requests")?;
        let hostile = Self { config: Config::parse(json)?, load };
        let Some(how) = hostile.how("configure") else { return Ok(hostile) };
        act(how);
        match how {
            "long-column" => drop(columns.resolve(&"x".repeat(BOMB / 4))),
            "column-flood" => (0_u64..).for_each(|n| drop(columns.resolve(&format!("label:{n}")))),
            "text-flood" => (0_u64..).for_each(|n| {
                black_box(columns.intern("zone", &n.to_string()));
            }),
            // Some tens of milliseconds: long for a request, and short enough for a trial.
            "slow" => drop(black_box((0..20_000_000_u64).fold(0, |sum, n| black_box(sum ^ n)))),
            "long-error" => return Err("x".repeat(BOMB / 4).into()),
            _ => {}
        }
        Ok(hostile)
    }
}

impl Admission for Hostile {
    fn admit(&self, _request: &dyn RequestView, _endpoints: &dyn EndpointsView) -> Verdict {
        self.act("admission");
        Verdict::Accept
    }
}

impl Filter for Hostile {
    fn keep(&self, _request: &dyn RequestView, endpoints: &dyn EndpointsView) -> Vec<u32> {
        self.positions("filter", endpoints.len()).unwrap_or_else(|| (0..endpoints.len() as u32).collect())
    }
}

impl Scorer for Hostile {
    fn score(&self, request: &dyn RequestView, endpoints: &dyn EndpointsView) -> Vec<f32> {
        let len = endpoints.len();
        let how = self.how("scorer").unwrap_or_default();
        act(how);
        match how {
            "body-flood" => loop {
                black_box(request.body());
            },
            "column-flood" => loop {
                black_box(endpoints.column(self.load));
            },
            "trap-among-many" if len > 8 => panic!("more than eight"),
            // Nothing comes of it for any number that doubles.
            "overflow" => {
                endpoints.column(self.load).into_iter().map(|load| load * 2.0 - load * 2.0).collect()
            }
            "nan" => vec![f32::NAN; len],
            "infinite" => vec![f32::INFINITY; len],
            "too-long" => vec![0.5; len + 1],
            "too-short" => vec![0.5; len.saturating_sub(1)],
            "huge" => vec![0.5; BOMB / 4],
            _ => vec![0.5; len],
        }
    }
}

impl Picker for Hostile {
    fn pick(
        &self,
        _request: &dyn RequestView,
        endpoints: &dyn EndpointsView,
        _scores: &[f32],
        _count: usize,
    ) -> Vec<u32> {
        self.positions("picker", endpoints.len()).unwrap_or_default()
    }
}

impl Disaggregation for Hostile {
    fn split(&self, _request: &dyn RequestView, endpoints: &dyn EndpointsView, _decode: usize) -> Vec<Leg> {
        let how = self.how("disaggregation").unwrap_or_default();
        act(how);
        match how {
            "out-of-range" => vec![Leg::prefill(vec![endpoints.len() as u32])],
            "many-legs" => vec![Leg::prefill(Vec::new()); 10_000],
            _ => Vec::new(),
        }
    }
}

impl FlowControl for Hostile {
    fn place(&self, request: &dyn RequestView, _endpoints: &dyn EndpointsView) -> Placement {
        if !guests::on_trial(request) {
            let _ = store::set("live", b"yes", None);
        }
        let how = self.how("place").unwrap_or_default();
        act(how);
        let placement = Placement::default();
        match how {
            "nan" => Placement { rank: f64::NAN, ..placement },
            "no-weight" => Placement { weight: 0.0, ..placement },
            // Not a failure: what is long is cut.
            "long-flow" => Placement { flow: "x".repeat(BOMB / 4), ..placement },
            _ => placement,
        }
    }

    fn select(&mut self, flows: &dyn FlowsView, _endpoints: &dyn EndpointsView, count: usize) -> Vec<u32> {
        self.positions("select", flows.len()).unwrap_or_else(|| (0..flows.len().min(count) as u32).collect())
    }

    fn saturation(&mut self, _endpoints: &dyn EndpointsView) -> f32 {
        let how = self.how("saturation").unwrap_or_default();
        act(how);
        // Full every other while, so that requests wait and `select` is asked.
        let full = self.config.stage == "select" && clock::now_ms() / 20 % 2 == 0;
        match how {
            "nan" => f32::NAN,
            _ if full => 1.0,
            _ => 0.0,
        }
    }
}

impl Observer for Hostile {
    fn observe(&mut self, _events: &dyn EventsView) {
        self.act("observe");
    }
}

impl Handoff for Hostile {
    fn save(&self) -> Vec<u8> {
        self.act("save");
        b"state".to_vec()
    }

    fn restore(&mut self, _state: &[u8]) -> Result<(), Error> {
        self.act("restore");
        Ok(())
    }
}

sluicegate_sdk::export!(
    Hostile: admission, filter, scorer, picker, disaggregation, flow_control, observer, handoff
);
