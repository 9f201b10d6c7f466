//! The `sluicegate` binary: see [`sluicegate::cli`].

/// A request makes and drops some hundred small values; with glibc's allocator that was a seventh of its cost.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    sluicegate::cli::run()
}
