use std::collections::BTreeMap;

use proptest::prelude::*;
use sluicegate_sdk::EventKind;
use sluicegate_sdk::fake::{self, Endpoints, Event, Events, Flows};

use super::*;

/// A pool of free endpoints where requests wait, and end one round after they were let go.
struct Pool {
    policy: Fairness,
    waiting: BTreeMap<u32, u32>,
    weights: BTreeMap<u32, f32>,
    served: BTreeMap<u32, u32>,
    sent: u32,
}

impl Pool {
    fn new() -> Self {
        fake::host().reset();
        Self {
            policy: fake::configure("").unwrap(),
            waiting: BTreeMap::new(),
            weights: BTreeMap::new(),
            served: BTreeMap::new(),
            sent: 0,
        }
    }

    fn arrive(&mut self, flow: u32, requests: u32) {
        *self.waiting.entry(flow).or_default() += requests;
    }

    /// Lets one request go, and tells the policy of it. `output` tokens is what each flow's answers have.
    fn round(&mut self, output: impl Fn(u32) -> f32) -> Option<u32> {
        let (id, request) = self.start()?;
        self.end(id, request, output(id));
        Some(id)
    }

    /// Lets one request go: its flow and its number.
    fn start(&mut self) -> Option<(u32, u32)> {
        let ids: Vec<u32> =
            self.waiting.iter().filter(|(_, length)| **length > 0).map(|(id, _)| *id).collect();
        if ids.is_empty() {
            return None;
        }
        let names: Vec<String> = ids.iter().map(u32::to_string).collect();
        let flows = Flows::named(names.iter().map(String::as_str))
            .numbered(ids.clone())
            .with("flow.length", ids.iter().map(|id| self.waiting[id] as f32))
            .with("flow.head_cost", ids.iter().map(|_| 100.0))
            .with("flow.weight", ids.iter().map(|id| self.weights.get(id).copied().unwrap_or(1.0)));
        let chosen = self.policy.select(&flows, &Endpoints::new(1), 1);
        let id = ids[usize::try_from(chosen[0]).unwrap()];
        *self.waiting.get_mut(&id).unwrap() -= 1;
        *self.served.entry(id).or_default() += 1;
        self.sent += 1;
        self.tell(id, self.sent, EventKind::Dispatched, 0.0);
        Some((id, self.sent))
    }

    fn end(&mut self, id: u32, request: u32, output: f32) {
        self.tell(id, request, EventKind::Completed, output);
    }

    fn tell(&mut self, id: u32, request: u32, kind: EventKind, output_tokens: f32) {
        let event = Event {
            flow: id as f32,
            prompt_tokens: 100.0,
            output_tokens,
            ..Event::new(&request.to_string(), kind)
        };
        self.policy.observe(&Events::new([event]));
    }
}

#[test]
fn service_follows_weights() {
    let mut pool = Pool::new();
    pool.weights.insert(1, 2.0);
    pool.arrive(1, 1_000);
    pool.arrive(2, 1_000);
    for _ in 0..300 {
        pool.round(|_| 50.0);
    }
    assert!((195..=205).contains(&pool.served[&1]), "{:?}", pool.served);
}

#[test]
fn long_answers_count_as_reported() {
    let mut pool = Pool::new();
    pool.arrive(1, 1_000);
    pool.arrive(2, 1_000);
    for _ in 0..400 {
        pool.round(|flow| if flow == 1 { 450.0 } else { 0.0 });
    }
    // A request of flow 1 takes 1,000 priced tokens, one of flow 2 a tenth.
    let ratio = f64::from(pool.served[&2]) / f64::from(pool.served[&1]);
    assert!((9.0..=11.0).contains(&ratio), "{ratio}");
}

#[test]
fn a_flow_that_stayed_away_saved_nothing_up() {
    let mut pool = Pool::new();
    pool.arrive(1, 1_000);
    pool.arrive(2, 1);
    for _ in 0..200 {
        pool.round(|_| 50.0);
    }
    pool.arrive(2, 1_000);
    let before = pool.served.clone();
    for _ in 0..100 {
        pool.round(|_| 50.0);
    }
    let since = pool.served[&1] - before[&1];
    assert!((48..=52).contains(&since), "{since}");
}

#[test]
fn counters_survive_a_handoff() {
    let mut pool = Pool::new();
    pool.arrive(1, 100);
    pool.arrive(2, 1);
    for _ in 0..50 {
        pool.round(|_| 50.0);
    }
    let state = pool.policy.save();
    let mut heir: Fairness = fake::configure("").unwrap();
    heir.restore(&state).unwrap();
    let known = |policy: &Fairness| -> BTreeMap<u32, (f64, u8)> {
        policy.counters.flows.iter().map(|(id, flow)| (*id, (flow.served, flow.sent))).collect()
    };
    assert_eq!(known(&heir), known(&pool.policy));
    assert!(heir.restore(b"nonsense").is_err());
}

#[test]
fn the_schema_knows_every_key() {
    let schema = Fairness::manifest().config_schema;
    assert!(Config::KEYS.iter().all(|key| schema.contains(key)), "{schema}");
    let error = fake::configure::<Fairness>(r#"{"weight": {}}"#).err().unwrap();
    assert_eq!(error.to_string(), "unknown key `weight`; the nearest known key is `weights`");
    assert!(fake::configure::<Fairness>(r#"{"weights": {"a": 0}}"#).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever else arrives, who waits is served within a bounded number of rounds: each other flow goes at
    /// most so often as its service takes to pass that of the one that waits.
    #[test]
    fn nothing_starves(
        arrivals in prop::collection::vec((1_u32..6, 1_u32..20), 1..60),
        outputs in prop::collection::vec(0.0..500.0_f32, 6),
    ) {
        let mut pool = Pool::new();
        pool.arrive(0, 1);
        let mut rounds = 0;
        let mut arrivals = arrivals.into_iter().cycle();
        // Arrivals outrun service for ever.
        while pool.waiting[&0] > 0 {
            let (flow, requests) = arrivals.next().unwrap();
            pool.arrive(flow, requests);
            pool.round(|flow| outputs[flow as usize]);
            rounds += 1;
            prop_assert!(rounds < 100, "{:?}", pool.served);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// The bound of virtual token counters (Sheng et al., OSDI 2024, theorem 4.4): between two flows that wait all the
    /// time, service for a weight of 1 differs by no more than what runs at once and one more turn of each can take,
    /// whatever comes and goes beside them, and however wrong estimates are.
    #[test]
    fn backlogged_flows_differ_by_what_runs_at_once(
        weights in prop::array::uniform2(0.5..4.0_f32),
        outputs in prop::collection::vec(0.0..400.0_f32, 8),
        others in prop::collection::vec((2_u32..9, 0_u32..4), 40),
        at_once in 1_usize..6,
    ) {
        let mut pool = Pool::new();
        let mut running = std::collections::VecDeque::new();
        let mut had = [0.0_f64; 2];
        let (mut least, mut most) = (0.0_f64, 0.0_f64);
        pool.weights.extend([(0, weights[0]), (1, weights[1])]);
        pool.arrive(0, 100_000);
        pool.arrive(1, 100_000);
        let mut others = others.into_iter().cycle();
        for n in 0..400_usize {
            let (flow, requests) = others.next().unwrap();
            pool.arrive(flow, requests);
            let (id, request) = pool.start().unwrap();
            running.push_back((id, request, outputs[n % outputs.len()]));
            if running.len() >= at_once {
                let (id, request, output) = running.pop_front().unwrap();
                pool.end(id, request, output);
                if let Some(had) = had.get_mut(id as usize) {
                    *had += f64::from(100.0 + 2.0 * output) / f64::from(weights[id as usize]);
                }
            }
            // By then both are known for themselves, and no newcomers.
            if n >= 100 {
                let difference = had[0] - had[1];
                (least, most) = if n == 100 { (difference, difference) } else { (least.min(difference), most.max(difference)) };
            }
        }
        let dearest = f64::from(100.0 + 2.0 * 512.0_f32) / f64::from(weights[0].min(weights[1]));
        let bound = 2.0 * (at_once + 1) as f64 * dearest;
        prop_assert!(most - least <= bound, "{least} to {most}, bound {bound}");
    }

    /// A flow with a new name for each request gets no more than the newcomers' share against flows that keep theirs.
    #[test]
    fn a_new_name_for_each_request_gains_nothing(honest in 1_u32..6, at_a_time in 1_u32..40) {
        let mut pool = Pool::new();
        for flow in 0..honest {
            pool.arrive(flow, 10_000);
        }
        for _ in 0..20 * honest {
            pool.round(|_| 50.0);
        }
        let before: u32 = (0..honest).map(|flow| pool.served[&flow]).sum();
        let mut name = 1_000;
        for _ in 0..400 {
            while pool.waiting.range(1_000..).filter(|(_, length)| **length > 0).count() < at_a_time as usize {
                pool.arrive(name, 1);
                name += 1;
            }
            pool.round(|_| 50.0);
            pool.waiting.retain(|_, length| *length > 0);
        }
        let honest: u32 = (0..honest).map(|flow| pool.served[&flow]).sum::<u32>() - before;
        prop_assert!((185..=215).contains(&honest), "{honest} of 400");
    }
}
