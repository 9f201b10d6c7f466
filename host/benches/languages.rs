//! What the same scorer costs in each language.
//!
//! Each is measured in turn in this process; ratios are to the first, which is Rust without a system interface.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "a benchmark"
)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use sluicegate::config::{PluginConfig, Wasi};
use sluicegate::plugin::measure::{Costs, measure};

const CANDIDATES: [usize; 2] = [16, 1_024];
const ROUNDS: usize = 2_000;

fn costs(folder: &Path, name: &str) -> Option<(usize, Costs)> {
    let component = folder.join(format!("{name}.wasm"));
    if let Ok(why) = std::fs::read_to_string(component.with_extension("skipped")) {
        println!("no plugin in {name}: {why}");
        return None;
    }
    let bytes = std::fs::read(&component).expect("run `cargo xtask languages`");
    let mut config = PluginConfig::named(name);
    config.wasi = Wasi::Stub;
    let costs =
        measure(&bytes, &config, &CANDIDATES, ROUNDS).unwrap_or_else(|error| panic!("{name}: {error}"));
    Some((bytes.len(), costs))
}

fn of(value: Duration, base: Duration) -> String {
    let (value, base) = (value.as_secs_f64(), base.as_secs_f64());
    let shown = if value >= 1.0 {
        format!("{value:.1} s")
    } else if value >= 1e-3 {
        format!("{:.1} ms", value * 1e3)
    } else {
        format!("{:.1} µs", value * 1e6)
    };
    format!("{shown} ({:.1})", value / base)
}

fn main() {
    // `cargo test --all-targets` runs this too, to see that it builds.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let folder = std::env::var_os("SLUICEGATE_TEST_LANGUAGES").map(PathBuf::from);
    let folder =
        folder.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/languages-wasm"));
    println!("| language | file, KB | compile | set up | 16 candidates | 1,024 candidates | memory, MiB |");
    println!("|---|---:|---:|---:|---:|---:|---:|");
    let mut base: Option<Costs> = None;
    for name in ["rust", "rust-wasip2", "c", "go", "javascript", "python"] {
        let Some((size, costs)) = costs(&folder, name) else { continue };
        let base = base.get_or_insert_with(|| costs.clone());
        println!(
            "| {name} | {} | {} | {} | {} | {} | {:.1} |",
            size / 1_000,
            of(costs.compile, base.compile),
            of(costs.set_up, base.set_up),
            of(costs.calls[0].1, base.calls[0].1),
            of(costs.calls[1].1, base.calls[1].1),
            costs.memory as f64 / (1 << 20) as f64,
        );
    }
}
