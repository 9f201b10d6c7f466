//! The `sluicegate` binary: see [`sluicegate::cli`].

fn main() -> std::process::ExitCode {
    sluicegate::cli::run()
}
