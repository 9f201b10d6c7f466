//! What a full queue costs: 100,000 requests of 10,000 flows wait, and it is asked who goes next.

use std::sync::Arc;
use std::time::Instant;

use sluicegate::flow::{Amount, Controls, Entered, Gate, Limits, Place, Room, dispatch};
use sluicegate::policy::{EndpointView, Own, Placement};

use crate::native;
use crate::world::World;

const REQUESTS: usize = 100_000;
const FLOWS: usize = 10_000;
/// Requests that go while it is timed.
const TIMED: usize = 2_000;

/// Prints what a request that goes costs, by the policy as WebAssembly and compiled into this process.
pub(crate) fn measure() {
    println!(
        "\n| waiting | flows | policy | a request that goes, µs | one that comes, µs | bytes a request |"
    );
    println!("|---:|---:|---|---:|---:|---:|");
    let world = World::new(16, false);
    let slot = world.wasm_chain().flow_own.clone().expect("the default plugins are not built");
    let mut wasm = slot.policy.own().unwrap();
    let mut native = native::own(&world.lane.registry);
    for (name, own) in [("Wasm", &mut *wasm), ("native", &mut *native)] {
        let before = resident();
        let (gate, came, held) = full_gate();
        let bytes = resident().saturating_sub(before) / REQUESTS;
        let went = goes(&world, &gate, own, &slot.plugin);
        println!("| {REQUESTS} | {FLOWS} | {name} | {went:.1} | {came:.2} | {bytes} |");
        drop(held);
    }
}

fn full_gate() -> (Arc<Gate>, f64, Vec<Entered>) {
    let amount = Amount { requests: REQUESTS, ..Amount::UNBOUNDED };
    let gate = Gate::new(Limits::of(amount), Box::new(|| ()));
    gate.set_saturation(1.0, 0);
    let mut held = Vec::with_capacity(REQUESTS);
    let start = Instant::now();
    for n in 0..REQUESTS {
        let placement = Placement { flow: format!("flow-{}", n % FLOWS).into(), ..Placement::of(1_000) };
        let place = Place {
            placement: &placement,
            bytes: 1_024,
            tokens: 1_000,
            claim: None,
            deadline: u64::MAX,
            open: true,
        };
        // Whoever goes is done at once.
        held.push(gate.enter(place, n as u64, || Box::new(drop)));
    }
    (gate, start.elapsed().as_secs_f64() * 1e6 / REQUESTS as f64, held)
}

fn goes(world: &World, gate: &Arc<Gate>, own: &mut dyn Own, plugin: &sluicegate::policy::Plugin) -> f64 {
    let chain = world.wasm_chain();
    let (mut went, mut unselected) = (0, 0);
    let start = Instant::now();
    while went < TIMED {
        let standing = world.lane.standing(&chain);
        let state = world.lane.state_of(&standing);
        let endpoints: Arc<dyn EndpointView> = standing;
        let room = Room { endpoints: &endpoints, answering: state.answering, requests: state.room };
        let controls = Controls { own: &mut *own, plugin, unselected: &mut unselected };
        let round = dispatch(gate, Some(controls), &room, &*world.lane.clock);
        assert!(round.went > 0, "nobody goes: {round:?}");
        went += round.went;
    }
    start.elapsed().as_secs_f64() * 1e6 / went as f64
}

/// Bytes of this process that are in memory.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4_096
}
