//! The prefix index beside others: what a look-up costs, how many blocks a core inserts in a second, and what a
//! block takes.
//!
//! Each index is filled and asked in a process of its own, so that memory can be told apart: the growth of what the
//! process has resident, by block and endpoint that holds it. All get the same chains in the same order on one
//! thread. Chains have 512 blocks: 384 of one of 200 prefixes, each of which 8 endpoints share, and 128 of their own.

mod indexes;
mod workload;

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::indexes::{INDEXES, Index};
use crate::workload::Workload;

const ENDPOINTS: [u32; 2] = [64, 1_024];
/// Look-ups that are timed, after as many that warm up.
const LOOKUPS: usize = 20_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let asked = arguments.next().zip(arguments.next());
    match asked.and_then(|(name, endpoints)| Some((name, endpoints.parse().ok()?))) {
        Some((name, endpoints)) => one(&name, endpoints),
        None => all(),
    }
}

/// Measures one index and prints its row.
fn one(name: &str, endpoints: u32) {
    let Some((_, make)) = INDEXES.iter().find(|(known, _)| *known == name) else { return };
    let workload = Workload::new(endpoints);
    let before = resident();
    let mut index = make(endpoints);
    let inserting = fill(&mut *index, &workload);
    let bytes = resident().saturating_sub(before);
    let (lookup, found) = ask(&*index, &workload);
    let blocks = workload.blocks();
    println!(
        "| {name} | {endpoints} | {:.1} | {:.2} | {:.0} | {found} |",
        lookup.as_secs_f64() * 1e6 / LOOKUPS as f64,
        blocks as f64 / inserting.as_secs_f64() / 1e6,
        bytes as f64 / blocks as f64,
    );
}

fn fill(index: &mut dyn Index, workload: &Workload) -> Duration {
    let begin = Instant::now();
    for chain in &workload.chains {
        index.insert(chain.endpoint, &chain.blocks, &chain.hashes);
    }
    begin.elapsed()
}

/// The time that [`LOOKUPS`] take, and how many blocks they found at all endpoints together.
fn ask(index: &dyn Index, workload: &Workload) -> (Duration, u64) {
    let chains: Vec<_> = workload.asked().take(LOOKUPS).collect();
    let mut held = vec![0; workload.endpoints as usize];
    let mut run = || {
        let mut found = 0;
        for chain in &chains {
            index.lookup(&chain.blocks, &chain.hashes, &mut held);
            found += black_box(&held).iter().map(|blocks| u64::from(*blocks)).sum::<u64>();
        }
        found
    };
    run();
    let begin = Instant::now();
    let found = run();
    (begin.elapsed(), found)
}

/// Measures all, each in a process of its own.
fn all() {
    println!("| index | endpoints | look-up of 512 blocks, µs | M block inserts/s a core | bytes a block | blocks found |");
    println!("|---|---:|---:|---:|---:|---:|");
    let Ok(own) = std::env::current_exe() else { return };
    for endpoints in ENDPOINTS {
        for (name, _) in INDEXES {
            let status = std::process::Command::new(&own).args([*name, &*endpoints.to_string()]).status();
            if !status.is_ok_and(|status| status.success()) {
                println!("| {name} | {endpoints} | failed | | | |");
            }
        }
    }
}

/// Bytes that this process has resident.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok());
    kib.unwrap_or_default() << 10
}
