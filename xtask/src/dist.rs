//! What is given to others: the programs with all optimisation, the default plugins inside.

use std::path::PathBuf;

use crate::error::Error;
use crate::plugins::{self, What};
use crate::run::{cargo, run};
use crate::workspace::Workspace;

/// Builds the router with the default plugins compiled in, which is to be measured and not to be given to anybody.
///
/// # Errors
/// When a step fails.
pub(crate) fn build_native(workspace: &Workspace) -> Result<(), Error> {
    // With the simulator, whose features it shares: alone everything below it would be compiled again.
    run(&mut cargo(
        workspace,
        &["build", "--profile", "dist", "-p", "sluicegate", "-p", "sluicegate-sim", "--example", "native"],
    ))
}

/// Builds the programs; says where they are.
///
/// # Errors
/// When a step fails.
pub(crate) fn build(workspace: &Workspace) -> Result<Vec<PathBuf>, Error> {
    plugins::build(workspace.root(), What::Defaults)?;
    run(&mut cargo(
        workspace,
        &["build", "--profile", "dist", "-p", "sluicegate", "-p", "sluicegate-sim", "--bins"],
    ))?;
    Ok(["sluicegate", "sluicegate-sim"].map(|name| workspace.dist(name)).to_vec())
}
