//! The gate against a scripted policy.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::*;
use crate::policy::{Placement, flows::MAX_FLOWS};

fn placement(flow: &str, band: i32, rank: f64) -> Placement {
    Placement { flow: flow.into(), band, weight: 1.0, cost: 10, rank, ceiling: 1.0, ttl_ms: None }
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
    let gate = Gate::new(Limits { max_requests, max_bytes: 100_000 }, poke);
    Bench { gate, told: Arc::default(), pokes }
}

impl Bench {
    fn enter(&self, name: &'static str, placement: &Placement, deadline: u64, now: u64) -> Entered {
        let told = Arc::clone(&self.told);
        let place = Place { placement, bytes: 1, deadline, open: true };
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
    bench.gate.set_saturation(1.0);
    let Entered::Waits(_low) = bench.enter("low", &placement("f", 0, 1.0), 100, 0) else { panic!("it goes") };
    let Entered::Waits(_high) = bench.enter("high", &placement("f", 0, 2.0), 100, 1) else {
        panic!("it goes")
    };
    bench.gate.set_saturation(0.0);
    let flows = bench.gate.flows(2);
    assert_eq!((flows.rows.len(), flows.rows[0].length), (1, 2));
    assert_eq!(bench.gate.release(&[flows.rows[0].id]), 1);
    assert_eq!(bench.names(), ["high"]);
}

#[test]
fn nobody_overtakes_those_who_wait_in_the_band_or_above() {
    let bench = bench(10);
    bench.gate.set_saturation(1.0);
    let _waiting = bench.enter("first", &placement("f", 1, 0.0), 100, 0);
    bench.gate.set_saturation(0.0);
    assert!(matches!(bench.enter("same band", &placement("g", 1, 0.0), 100, 0), Entered::Waits(_)));
    assert!(matches!(bench.enter("below", &placement("g", 0, 0.0), 100, 0), Entered::Waits(_)));
    assert!(matches!(bench.enter("above", &placement("g", 2, 0.0), 100, 0), Entered::Go(_)));
}

#[test]
fn a_client_that_leaves_leaves_the_queue() {
    let bench = bench(10);
    bench.gate.set_saturation(1.0);
    let waiting = bench.enter("a", &placement("f", 0, 0.0), 100, 0);
    assert!(bench.gate.anybody_waits());
    drop(waiting);
    assert!(!bench.gate.anybody_waits());
    assert!(bench.gate.flows(0).rows.is_empty());
    assert!(bench.names().is_empty());
}

#[test]
fn a_pass_that_nobody_takes_is_given_back() {
    let bench = bench(10);
    bench.gate.set_saturation(1.0);
    let _waiting = bench.enter("a", &placement("f", 0, 0.0), 100, 0);
    bench.gate.set_saturation(0.0);
    let id = bench.gate.flows(0).rows[0].id;
    bench.gate.release(&[id]);
    assert_eq!((bench.gate.status().running, bench.gate.unsettled()), (1, 1));
    bench.told.lock().clear();
    assert_eq!((bench.gate.status().running, bench.gate.unsettled()), (0, 0));
}

#[test]
fn waits_end_when_their_time_is_up() {
    let bench = bench(10);
    bench.gate.set_saturation(1.0);
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
    bench.gate.set_saturation(1.0);
    let _a = bench.enter("a", &placement("f", -1, 2.0), 100, 0);
    let _b = bench.enter("b", &placement("f", -1, 1.0), 100, 0);
    assert!(matches!(bench.enter("c", &placement("g", -1, 9.0), 100, 0), Entered::Full(Full::Requests)));
    let d = bench.enter("d", &placement("g", 0, 0.0), 100, 0);
    assert!(matches!(d, Entered::Waits(_)));
    assert_eq!(bench.names(), ["b"]);
    assert!(matches!(bench.told.lock()[0].1, Outcome::Displaced));
}

#[test]
fn bands_come_first_and_then_the_oldest_head() {
    let bench = bench(2 * MAX_FLOWS);
    bench.gate.set_saturation(1.0);
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
    bench.gate.set_saturation(0.0);
    let rows = bench.gate.flows(2_000).rows;
    assert_eq!(rows.len(), MAX_FLOWS);
    assert!(rows.is_sorted_by_key(|row| std::cmp::Reverse(row.band)));
}
