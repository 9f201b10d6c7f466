//! The binary `sluicegate-sim`: see [`sluicegate_sim::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    sluicegate_sim::cli::main()
}
