//! Flow control under overload, in virtual time: the scenarios of `sluicegate-sim fairness`.

use std::process::Command;

use crate::error::Error;
use crate::run::run;
use crate::workspace::Workspace;

/// Each scenario with its sizes.
const RUNS: [&[&str]; 4] = [
    &["overload"],
    &["shares"],
    &["turns", "--sessions", "600", "--engines", "2", "--seconds", "60"],
    &["sessions", "--sessions", "3000", "--engines", "8", "--seconds", "120"],
];

/// Runs all of them.
///
/// # Errors
/// When one fails.
pub(crate) fn measure(workspace: &Workspace) -> Result<(), Error> {
    for arguments in RUNS {
        println!("\n`sluicegate-sim fairness {}`\n", arguments.join(" "));
        let mut sim = Command::new(workspace.root().join("target/release/sluicegate-sim"));
        run(sim.arg("fairness").args(arguments))?;
    }
    Ok(())
}
