//! The gate against a scripted policy.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::*;
use crate::clock::{MILLI, SECOND};
use crate::policy::{
    CallError, CallTimes, EndpointView, Event, Flows, Health, OnEmpty, OnError, Own, Placement, Plugin,
    Reason, Source, flows::MAX_FLOWS,
};

fn placement(flow: &str, band: i32, rank: f64) -> Placement {
    Placement { flow: flow.into(), band, rank, ..Placement::of(10) }
}

struct Bench {
    gate: Arc<Gate>,
    told: Arc<Mutex<Vec<(&'static str, Outcome)>>>,
    pokes: Arc<AtomicUsize>,
}

fn bench(max_requests: usize) -> Bench {
    let pokes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&pokes);
    let poke = Box::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let pool = Amount { requests: max_requests, bytes: 100_000, tokens: 1_000_000 };
    let gate = Gate::new(Limits::of(pool), poke);
    Bench { gate, told: Arc::default(), pokes }
}

impl Bench {
    fn enter(&self, name: &'static str, placement: &Placement, deadline: u64, now: u64) -> Entered {
        let told = Arc::clone(&self.told);
        let place = Place { placement, bytes: 1, tokens: 1, claim: None, deadline, open: true };
        self.gate.enter(place, now, || Box::new(move |outcome| told.lock().push((name, outcome))))
    }

    fn names(&self) -> Vec<&'static str> {
        self.told.lock().iter().map(|(name, _)| *name).collect()
    }
}

#[test]
fn while_nobody_waits_and_the_pool_has_room_a_request_goes_at_once() {
    let bench = bench(10);
    let Entered::Go(pass) = bench.enter("a", &placement("f", 0, 0.0), 100, 0) else { panic!("it waits") };
    assert_eq!(bench.gate.status().running, 1);
    drop(pass);
    assert_eq!(bench.gate.status().running, 0);
    assert_eq!(bench.pokes.load(Ordering::Relaxed), 0, "nobody waits, so nobody is woken");
}

#[test]
fn a_saturated_pool_makes_it_wait_and_a_release_lets_the_best_rank_go() {
    let bench = bench(10);
    bench.gate.set_saturation(1.0, usize::MAX);
    let Entered::Waits(_low) = bench.enter("low", &placement("f", 0, 1.0), 100, 0) else { panic!("it goes") };
    let Entered::Waits(_high) = bench.enter("high", &placement("f", 0, 2.0), 100, 1) else {
        panic!("it goes")
    };
    bench.gate.set_saturation(0.0, usize::MAX);
    let flows = bench.gate.flows(2, MAX_FLOWS);
    assert_eq!((flows.rows.len(), flows.rows[0].length), (1, 2));
    assert_eq!(bench.gate.release(&[flows.rows[0].id]), 1);
    assert_eq!(bench.names(), ["high"]);
}

#[test]
fn nobody_overtakes_those_who_wait_in_the_band_or_above() {
    let bench = bench(10);
    bench.gate.set_saturation(1.0, usize::MAX);
    let _waiting = bench.enter("first", &placement("f", 1, 0.0), 100, 0);
    bench.gate.set_saturation(0.0, usize::MAX);
    assert!(matches!(bench.enter("same band", &placement("g", 1, 0.0), 100, 0), Entered::Waits(_)));
    assert!(matches!(bench.enter("below", &placement("g", 0, 0.0), 100, 0), Entered::Waits(_)));
    assert!(matches!(bench.enter("above", &placement("g", 2, 0.0), 100, 0), Entered::Go(_)));
}

#[test]
fn a_flow_that_has_more_under_way_than_there_is_room_left_is_asked_about_while_it_is_new_that_it_shares() {
    let bench = bench(10);
    let at = |flow, deadline, now| bench.enter("one", &placement(flow, 0, 0.0), deadline, now);
    let enter = |flow| at(flow, SECOND, 0);
    bench.gate.set_saturation(0.5, 3);
    let _alone: Vec<Entered> = std::iter::repeat_with(|| enter("many")).take(3).collect();
    bench.gate.set_saturation(0.5, 2);
    let Entered::Go(_fourth) = enter("many") else { panic!("nobody else is there") };
    bench.gate.set_saturation(0.5, 4);
    let Entered::Go(_few) = enter("few") else { panic!("it has nothing yet") };
    let waits = enter("many");
    assert!(matches!(waits, Entered::Waits(_)), "four under way, room for three");
    drop(waits);
    let Entered::Go(_in_time) = at("many", 50 * MILLI, 0) else { panic!("it cannot wait for an answer") };
    bench.gate.set_saturation(0.5, 4);
    let Entered::Go(_later) = at("many", 60 * SECOND, 11 * SECOND) else { panic!("it is new no longer") };
}

#[test]
fn what_may_not_wait_goes_while_there_is_room() {
    let bench = bench(0);
    let enter = |flow| bench.enter("one", &placement(flow, 0, 0.0), SECOND, 0);
    let _passes: Vec<Entered> = ["many", "many", "few"].map(enter).into();
    bench.gate.set_saturation(0.5, 1);
    assert!(matches!(enter("many"), Entered::Go(_)));
}

#[test]
fn a_client_that_leaves_leaves_the_queue() {
    let bench = bench(10);
    bench.gate.set_saturation(1.0, usize::MAX);
    let waiting = bench.enter("a", &placement("f", 0, 0.0), 100, 0);
    assert!(bench.gate.anybody_waits());
    drop(waiting);
    assert!(!bench.gate.anybody_waits());
    assert!(bench.gate.flows(0, MAX_FLOWS).rows.is_empty());
    assert!(bench.names().is_empty());
}

#[test]
fn a_pass_that_nobody_takes_is_given_back() {
    let bench = bench(10);
    bench.gate.set_saturation(1.0, usize::MAX);
    let _waiting = bench.enter("a", &placement("f", 0, 0.0), 100, 0);
    bench.gate.set_saturation(0.0, usize::MAX);
    let id = bench.gate.flows(0, MAX_FLOWS).rows[0].id;
    bench.gate.release(&[id]);
    assert_eq!((bench.gate.status().running, bench.gate.unsettled()), (1, 1));
    bench.told.lock().clear();
    assert_eq!((bench.gate.status().running, bench.gate.unsettled()), (0, 0));
}

#[test]
fn waits_end_when_their_time_is_up() {
    let bench = bench(10);
    bench.gate.set_saturation(1.0, usize::MAX);
    let _a = bench.enter("a", &placement("f", 0, 0.0), 100, 0);
    let _b = bench.enter("b", &placement("f", 0, 5.0), 200, 0);
    assert_eq!(bench.gate.expire(100), Some(200));
    assert_eq!(bench.names(), ["a"]);
    assert_eq!(bench.gate.expire(200), None);
    assert_eq!(bench.names(), ["a", "b"]);
}

#[test]
fn a_full_queue_displaces_the_last_of_the_lowest_band_for_a_higher_one_only() {
    let bench = bench(2);
    bench.gate.set_saturation(1.0, usize::MAX);
    let _a = bench.enter("a", &placement("f", -1, 2.0), 100, 0);
    let _b = bench.enter("b", &placement("f", -1, 1.0), 100, 0);
    assert!(matches!(
        bench.enter("c", &placement("f", -1, 9.0), 100, 0),
        Entered::Full(Full { scope: Scope::Pool, what: What::Requests })
    ));
    let d = bench.enter("d", &placement("g", 0, 0.0), 100, 0);
    assert!(matches!(d, Entered::Waits(_)));
    assert_eq!(bench.names(), ["b"]);
    assert!(matches!(bench.told.lock()[0].1, Outcome::Displaced));
}

#[test]
fn bands_come_first_and_then_the_oldest_head() {
    let bench = bench(2 * MAX_FLOWS);
    bench.gate.set_saturation(1.0, usize::MAX);
    let names: Vec<String> = (0..MAX_FLOWS + 10).map(|n| format!("f{n}")).collect();
    let mut held = Vec::new();
    for (n, name) in names.iter().enumerate() {
        held.push(bench.enter(
            "x",
            &placement(name, i32::from(n % 2 == 0), 0.0),
            u64::MAX,
            1_000 - n as u64 % 1_000,
        ));
    }
    bench.gate.set_saturation(0.0, usize::MAX);
    let rows = bench.gate.flows(2_000, MAX_FLOWS).rows;
    assert_eq!(rows.len(), MAX_FLOWS);
    assert!(rows.is_sorted_by_key(|row| std::cmp::Reverse(row.band)));
}

#[test]
fn of_flows_that_are_as_important_the_longest_gives_way() {
    let bench = bench(4);
    bench.gate.set_saturation(1.0, usize::MAX);
    let greedy: Vec<_> =
        ["1", "2", "3", "4"].map(|name| bench.enter(name, &placement("greedy", 0, 0.0), 100, 0)).into();
    assert!(matches!(bench.enter("5", &placement("greedy", 0, 0.0), 100, 0), Entered::Full(_)));
    let modest = [
        bench.enter("a", &placement("modest", 0, 0.0), 100, 0),
        bench.enter("b", &placement("modest", 0, 0.0), 100, 0),
    ];
    assert_eq!(bench.names(), ["4", "3"], "then both are as long");
    assert!(matches!(modest, [Entered::Waits(_), Entered::Waits(_)]));
    assert!(matches!(bench.enter("c", &placement("modest", 0, 0.0), 100, 0), Entered::Full(_)));
    drop(greedy);
}

#[test]
fn nobody_is_displaced_in_vain() {
    let bench = bench(10);
    bench.gate.set_saturation(1.0, usize::MAX);
    let _low = bench.enter("low", &placement("low", -1, 0.0), 100, 0);
    let high = placement("high", 0, 0.0);
    let place = Place { placement: &high, bytes: 100_001, tokens: 1, claim: None, deadline: 100, open: true };
    let entered = bench.gate.enter(place, 0, || Box::new(|_| ()));
    assert!(matches!(entered, Entered::Full(Full { scope: Scope::Pool, what: What::Bytes })));
    assert!(bench.names().is_empty());
}

#[test]
fn a_flow_and_a_band_have_bounds_of_their_own() {
    let of = |requests| Amount { requests, ..Amount::UNBOUNDED };
    let limits = Limits { pool: of(10), band: of(5), bands: [(-1, of(1))].into(), flow: of(2) };
    let gate = Gate::new(limits, Box::new(|| ()));
    gate.set_saturation(1.0, usize::MAX);
    let mut held = Vec::new();
    let mut enter = |flow: &str, band| {
        let placement = placement(flow, band, 0.0);
        let place =
            Place { placement: &placement, bytes: 1, tokens: 1, claim: None, deadline: 100, open: true };
        match gate.enter(place, 0, || Box::new(|_| ())) {
            Entered::Full(full) => Some(full.scope),
            entered => {
                held.push(entered);
                None
            }
        }
    };
    let scopes = [enter("a", 0), enter("a", 0), enter("a", 0), enter("low", -1), enter("other", -1)];
    assert_eq!(scopes, [None, None, Some(Scope::Flow), None, Some(Scope::Band)]);
}

#[test]
fn a_burst_goes_no_further_than_there_was_room() {
    let bench = bench(10);
    bench.gate.set_saturation(0.0, 2);
    let one = bench.enter("1", &placement("f", 0, 0.0), 100, 0);
    let two = bench.enter("2", &placement("f", 0, 0.0), 100, 0);
    let three = bench.enter("3", &placement("f", 0, 0.0), 100, 0);
    assert!(matches!((one, two, three), (Entered::Go(_), Entered::Go(_), Entered::Waits(_))));
}

#[test]
fn sessions_wait_for_room_in_the_caches_and_those_that_go_on_go_first() {
    let bench = bench(10);
    bench.gate.set_capacity(Some(100));
    let enter = |name: &'static str, session, rank| {
        let told = Arc::clone(&bench.told);
        let claim = Some(Claim { session, tokens: 40 });
        let placement = placement("f", 0, rank);
        let place =
            Place { placement: &placement, bytes: 1, tokens: 1, claim, deadline: u64::MAX, open: true };
        bench.gate.enter(place, 0, || Box::new(move |outcome| told.lock().push((name, outcome))))
    };
    let Entered::Go(first) = enter("first", 1, 0.0) else { panic!("it waits") };
    let _second = enter("second", 2, 9.0);
    assert!(bench.gate.flows(1, MAX_FLOWS).rows.is_empty(), "there is no room");
    let _again = enter("first again", 1, 0.0);
    let id = bench.gate.flows(1, MAX_FLOWS).rows[0].id;
    assert_eq!(bench.gate.release(&[id, id]), 1);
    assert_eq!(bench.names(), ["first again"]);
    drop(first);
    assert_eq!(bench.gate.flows(29 * crate::clock::SECOND, MAX_FLOWS).rows.len(), 0);
    // Nobody starves.
    assert_eq!(bench.gate.flows(30 * crate::clock::SECOND, MAX_FLOWS).rows.len(), 1);
}

#[test]
fn the_estimate_follows_from_how_fast_requests_went() {
    use crate::clock::{MILLI, SECOND};
    let bench = bench(1_000);
    assert_eq!(bench.gate.standing(&placement("f", 0, 0.0), 0), Standing { position: 1, estimate: None });
    bench.gate.set_saturation(1.0, usize::MAX);
    let mut held = Vec::new();
    for n in 0..200 {
        held.push(bench.enter("x", &placement(if n < 150 { "long" } else { "short" }, 0, 0.0), u64::MAX, 0));
    }
    bench.gate.set_saturation(0.0, usize::MAX);
    for n in 1..=100 {
        let rows = bench.gate.flows(n * 100 * MILLI, MAX_FLOWS).rows;
        bench.gate.release(&[rows[usize::from(n % 2 == 0)].id]);
    }
    let standing = |flow| bench.gate.standing(&placement(flow, 0, 0.0), 10 * SECOND);
    // Ten a second went, each flow half of them: 100 and none are left, then 100.
    let (long, new) = (standing("long"), standing("new"));
    assert_eq!((long.position, new.position), (101, 101));
    let seconds = |standing: Standing| standing.estimate.unwrap().as_secs_f64();
    assert!((8.0..12.0).contains(&seconds(long)), "{long:?}");
    assert!(seconds(new) < 1.0, "{new:?}");
}

/// A policy that traps at every other call, and else names the first flows.
struct Unsteady(u32);

impl Unsteady {
    fn turn(&mut self) -> Result<(), CallError> {
        self.0 += 1;
        match self.0 % 2 {
            0 => Ok(()),
            _ => Err(CallError::new(Reason::Trap, "a trap")),
        }
    }
}

impl Own for Unsteady {
    fn select(
        &mut self,
        flows: &Arc<Flows>,
        _: &Arc<dyn EndpointView>,
        count: u32,
    ) -> Result<Vec<u32>, CallError> {
        self.turn()?;
        Ok((0..count).take(flows.rows.len()).collect())
    }

    fn saturation(&mut self, _: &Arc<dyn EndpointView>) -> Result<f32, CallError> {
        Ok(0.0)
    }

    fn observe(&mut self, _: &Arc<[Event]>) -> Result<(), CallError> {
        Ok(())
    }

    fn save(&mut self) -> Result<Option<Vec<u8>>, CallError> {
        Ok(Some(self.0.to_le_bytes().to_vec()))
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), CallError> {
        self.0 = state.try_into().map(u32::from_le_bytes).unwrap();
        Ok(())
    }
}

/// Endpoints that nobody looks at.
#[derive(Debug)]
struct Unseen;

impl EndpointView for Unseen {
    fn len(&self) -> usize {
        8
    }

    fn profile(&self) -> crate::types::Profile {
        crate::types::Profile::Decode
    }

    fn ids(&self) -> Vec<u32> {
        (0..8).collect()
    }

    fn keys(&self) -> Vec<u64> {
        (0..8).collect()
    }

    fn column(&self, _: crate::policy::ColumnId, _: f32) -> Option<Vec<f32>> {
        None
    }

    fn columns(&self, _: &[(crate::policy::ColumnId, f32)]) -> Vec<f32> {
        Vec::new()
    }

    fn label(&self, _: usize, _: &str) -> Option<String> {
        None
    }

    fn labels(&self, _: usize) -> Vec<(Box<str>, Box<str>)> {
        Vec::new()
    }
}

fn unsteady_plugin() -> Plugin {
    Plugin {
        name: "unsteady".into(),
        version: "".into(),
        summary: "".into(),
        digest: "".into(),
        source: Source::Native,
        generation: 0,
        arm: crate::types::Arm::BASE,
        stages: Vec::new(),
        on_error: OnError::Default,
        on_empty: OnEmpty::Reject,
        required: false,
        profiles: Vec::new(),
        config: Arc::new(crate::config::PluginConfig::named("unsteady")),
        health: Health::default(),
        times: CallTimes::default(),
    }
}

#[test]
fn nobody_is_lost_when_the_policy_traps_and_is_swapped_while_ten_thousand_wait() {
    const WAITING: usize = 10_000;
    const FLOWS: usize = 1_000;
    let gate = Gate::new(Limits::of(Amount { requests: WAITING, ..Amount::UNBOUNDED }), Box::new(|| ()));
    gate.set_saturation(1.0, usize::MAX);
    let went: Arc<Mutex<Vec<usize>>> = Arc::default();
    let mut held = Vec::new();
    for n in 0..WAITING {
        let placement = placement(&format!("f{}", n % FLOWS), 0, 0.0);
        let place =
            Place { placement: &placement, bytes: 1, tokens: 1, claim: None, deadline: u64::MAX, open: true };
        let went = Arc::clone(&went);
        held.push(gate.enter(place, 0, || {
            Box::new(move |outcome| {
                assert!(matches!(outcome, Outcome::Go(_)));
                went.lock().push(n);
            })
        }));
    }
    let (plugin, mut own, mut unselected) = (unsteady_plugin(), Unsteady(0), 0);
    let endpoints: Arc<dyn EndpointView> = Arc::new(Unseen);
    let clock = crate::clock::ManualClock::at(1);
    let mut rounds = 0;
    while gate.anybody_waits() {
        let controls = Controls { own: &mut own, plugin: &plugin, unselected: &mut unselected };
        let room = Room { endpoints: &endpoints, answering: 8, requests: 8 };
        assert!(dispatch(&gate, Some(controls), &room, &*clock).went > 0);
        rounds += 1;
        if rounds % 100 == 0 {
            let (counted, state) = (own.0, own.save().unwrap().unwrap());
            own = Unsteady(0);
            own.restore(&state).unwrap();
            assert_eq!(own.0, counted, "it goes on where the one before was");
        }
    }
    let went = went.lock();
    assert_eq!(went.len(), WAITING);
    let of_flow = |flow: usize| went.iter().copied().filter(move |n| n % FLOWS == flow);
    assert!(
        (0..FLOWS).all(|flow| of_flow(flow).eq((flow..WAITING).step_by(FLOWS))),
        "each flow in its order"
    );
}
