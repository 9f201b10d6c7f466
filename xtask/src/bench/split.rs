//! Prefill and decode apart, in virtual time: each mode of `pd-split` beside the others.

use std::process::Command;

use crate::error::Error;
use crate::run::run;
use crate::workspace::Workspace;

/// Compares them on every mix of traffic.
///
/// # Errors
/// When it fails.
pub(crate) fn measure(workspace: &Workspace) -> Result<(), Error> {
    let mut sim = Command::new(workspace.root().join("target/release/sluicegate-sim"));
    run(sim.arg("split"))
}
