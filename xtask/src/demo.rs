//! The demonstration: the router before simulated engines, on this machine alone.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::error::Error;
use crate::plugins::{self, What};
use crate::run::{cargo, run, say, show};
use crate::workspace::Workspace;

/// Builds what the demonstration needs and becomes it.
///
/// # Errors
/// When a step fails.
pub(crate) fn run_demo(workspace: &Workspace, flags: &[String]) -> Result<(), Error> {
    plugins::build(workspace.root(), What::Defaults)?;
    run(&mut cargo(workspace, &["build", "-p", "sluicegate", "-p", "sluicegate-sim", "--bins"]))?;
    let mut demo = Command::new(workspace.binary("sluicegate-sim"));
    demo.arg("demo").arg("--router").arg(workspace.binary("sluicegate"));
    demo.arg("--plugins").arg(workspace.made("plugins")).args(flags);
    say(show(&demo));
    // Instead of a child, so that a signal from the terminal reaches it once.
    Err(Error::Io { what: format!("cannot run {}", show(&demo)), error: demo.exec() })
}
