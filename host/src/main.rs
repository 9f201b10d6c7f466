//! The `sluicegate` binary: see [`sluicegate::cli`].

/// A request makes and drops some hundred small values; in a profile under load, glibc's share was 15 % before.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    sluicegate::cli::run()
}
