//! Minutes of random faults against the built router: `tests/cases/soak.rs`.

use crate::error::Error;
use crate::plugins::{self, What};
use crate::run::{cargo, run};
use crate::workspace::Workspace;

/// Reads `[--minutes N]`; 20 without it.
///
/// # Errors
/// [`Error::Usage`] when it makes no sense.
pub(crate) fn minutes(arguments: &[String]) -> Result<u32, Error> {
    match arguments {
        [] => Ok(20),
        [flag, minutes] if flag == "--minutes" => {
            minutes.parse().map_err(|_| Error::Usage(format!("`{minutes}` is no number of minutes")))
        }
        _ => Err(Error::Usage("`soak`: maybe --minutes N, and nothing else".to_owned())),
    }
}

/// Builds what it takes and runs it; the figures come last.
///
/// # Errors
/// When a step fails, or something is left that should not be.
pub(crate) fn run_soak(workspace: &Workspace, minutes: u32) -> Result<(), Error> {
    plugins::build(workspace.root(), What::Defaults)?;
    run(&mut cargo(workspace, &["build", "-p", "sluicegate", "--bins"]))?;
    let tests =
        ["test", "-p", "sluicegate-tests", "--test", "cases", "--", "--ignored", "--nocapture", "soak::"];
    run(cargo(workspace, &tests)
        .env("SLUICEGATE_TEST_ROUTER", workspace.binary("sluicegate"))
        .env("SLUICEGATE_TEST_SOAK_S", (u64::from(minutes) * 60).to_string()))
}
