//! `sluicegate upgrade`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::output::{bad, good};
use crate::{app, config};

/// How the running process is found, and what takes its place.
#[derive(Debug, Args)]
pub(super) struct Upgrade {
    /// The configuration file of the running process, for its `state_dir`.
    #[arg(long, value_name = "FILE", conflicts_with = "state_dir")]
    config: Option<PathBuf>,
    /// The `state_dir` of the running process.
    #[arg(long, value_name = "DIR", default_value = "state")]
    state_dir: PathBuf,
    /// What runs from now on, instead of this very program. It is given the arguments of the running process.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// Has the running process hand over, and says to which process.
pub(super) fn run(upgrade: Upgrade) -> ExitCode {
    let state_dir = match &upgrade.config {
        None => upgrade.state_dir,
        Some(file) => match config::from_file(file) {
            Ok(config) => config.state_dir,
            Err(errors) => return bad(&errors),
        },
    };
    let program = match upgrade.program {
        Some(program) => std::path::absolute(program),
        None => std::env::current_exe(),
    };
    match program.map_err(|error| error.to_string()).and_then(|program| app::ask(&state_dir, &program)) {
        Ok(pid) => good(&format!("process {pid} serves\n")),
        Err(why) => bad(&why),
    }
}
