//! The benchmarks. They compare, in one run, what DESIGN calls budgets; none of them is a timed test.

use crate::error::Error;
use crate::plugins::{self, What};
use crate::run::{cargo, run};
use crate::workspace::Workspace;

/// Builds the default plugins and runs the host's benchmarks.
///
/// # Errors
/// When a step fails.
pub(crate) fn run_benches(workspace: &Workspace, filter: &[String]) -> Result<(), Error> {
    plugins::build(workspace.root(), What::Defaults)?;
    run(cargo(workspace, &["bench", "-p", "sluicegate", "--benches", "--"]).args(filter))
}
