//! The router with its default plugins compiled in instead of run as WebAssembly: what `cargo xtask bench proxy` measures
//! the boundary by. It takes the same command line.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "a benchmark"
)]

#[path = "../benches/native/mod.rs"]
mod native;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    sluicegate::cli::run_by(Some(native::all))
}
