//! `sluicegate plugin compile`: the process that the router compiles in. Not for people.

use std::process::ExitCode;

use clap::Args;

use crate::plugin::compile::{Limits, Work, main};

/// What it may cost.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct Bounds {
    /// CPU time, seconds.
    #[arg(long)]
    cpu_s: u64,
    /// Address space, MiB.
    #[arg(long)]
    memory_mib: usize,
    /// Make a component of a core module, and compile nothing.
    #[arg(long)]
    wrap: bool,
}

/// From standard input to standard output.
pub(super) fn compile(Bounds { cpu_s, memory_mib, wrap }: Bounds) -> ExitCode {
    main(Limits { cpu_s, memory_mib }, if wrap { Work::Wrap } else { Work::Compile })
}
