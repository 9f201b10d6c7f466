//! What the policies of one request cost: the default plugins as WebAssembly, and the same code compiled into
//! this process.
//!
//! Both run through the same pipeline on the same candidates, in turn, so that the ratio holds on a machine whose
//! speed drifts. Times are of the calls alone, the columns that they read included; medians over many requests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "a benchmark"
)]

#[path = "../native/mod.rs"]
mod native;
mod waiting;
mod world;

use std::sync::Arc;
use std::time::Instant;

use sluicegate::policy::{Budget, Serving};
use sluicegate::route::{Trace, choose, place};
use sluicegate::types::Profile;

use crate::world::World;

/// Requests that are timed, at most; fewer where there are many endpoints.
const REQUESTS: usize = 4_000;
/// Untimed requests before.
const WARM_UP: usize = 100;

/// What one request cost, nanoseconds.
struct Cost {
    policies: u64,
    pipeline: u64,
}

fn once(world: &World, serving: &Serving, n: usize) -> Cost {
    let request = world.request(n);
    let mut trace = Trace::new(request.clone(), "bench", "default", 1);
    let budget = Budget::default();
    let start = Instant::now();
    let candidates = world.lane.candidates(serving, &request, Profile::Decode);
    place(&world.lane, &serving.chain, &request, &candidates, &budget, &mut trace).unwrap();
    let choice = choose(&world.lane, serving, &request, &candidates, &budget, &mut trace).unwrap();
    let pipeline = u64::try_from(start.elapsed().as_nanos()).unwrap();
    drop(choice);
    Cost { policies: budget.used(), pipeline }
}

fn median(mut values: Vec<u64>) -> f64 {
    values.sort_unstable();
    values[values.len() / 2] as f64 / 1_000.0
}

fn main() {
    // `cargo test --all-targets` runs this too, to see that it builds.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    println!(
        "| endpoints | roles | Wasm, µs | native, µs | Wasm ÷ native | whole pipeline, µs | with a shadow, µs |"
    );
    println!("|---:|---|---:|---:|---:|---:|---:|");
    for (endpoints, split) in
        [(4, false), (16, false), (16, true), (1_024, false), (1_024, true), (17_000, false)]
    {
        let world = World::new(endpoints, split);
        let wasm = Serving::plain(world.wasm_chain());
        let native = Serving::plain(Arc::new(world.native_chain()));
        let shadowed = Serving::plain(Arc::new(world.shadowed_chain()));
        let requests = (REQUESTS * 16 / endpoints.max(16)).max(60);
        let (mut wasm_costs, mut native_costs, mut shadowed_costs) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..WARM_UP.min(requests) + requests {
            let (a, b) = (once(&world, &wasm, n), once(&world, &native, n));
            let c = once(&world, &shadowed, n);
            if n >= WARM_UP.min(requests) {
                wasm_costs.push(a);
                native_costs.push(b);
                shadowed_costs.push(c.pipeline);
            }
        }
        let pipeline = median(wasm_costs.iter().map(|cost| cost.pipeline).collect());
        let wasm = median(wasm_costs.iter().map(|cost| cost.policies).collect());
        let native = median(native_costs.iter().map(|cost| cost.policies).collect());
        let roles = if split { "prefill, decode" } else { "all do both" };
        println!(
            "| {endpoints} | {roles} | {wasm:.1} | {native:.1} | {:.2} | {pipeline:.1} | {:.1} |",
            wasm / native,
            median(shadowed_costs),
        );
    }
    waiting::measure();
}
