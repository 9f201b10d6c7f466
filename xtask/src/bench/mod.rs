//! The benchmarks: what the policies of a request cost, what a request through the proxy costs, what clients notice
//! of a swap, and what a plugin costs in each language.
//!
//! They print ratios against a baseline of the same run; none of them is a timed test.

mod nginx;
mod process;
mod proxy;
mod swaps;
mod watched;

use crate::error::Error;
use crate::languages;
use crate::plugins::{self, What};
use crate::run::{cargo, run};
use crate::workspace::Workspace;

/// Builds what is measured and runs the benchmarks that are named; none named is all. Flags that follow are of the
/// swaps.
///
/// # Errors
/// When a step fails.
pub(crate) fn run_benches(workspace: &Workspace, names: &[String]) -> Result<(), Error> {
    let (names, flags) =
        names.split_at(names.iter().position(|name| name.starts_with("--")).unwrap_or(names.len()));
    let swaps = swaps::options(flags)?;
    let wanted = |name: &str| names.is_empty() || names.iter().any(|named| named == name);
    plugins::build(workspace.root(), What::Defaults)?;
    if wanted("policies") {
        run(&mut cargo(workspace, &["bench", "-p", "sluicegate", "--bench", "policies"]))?;
    }
    if wanted("languages") {
        let components = languages::build(workspace)?;
        run(cargo(workspace, &["bench", "-p", "sluicegate", "--bench", "languages"])
            .env("SLUICEGATE_TEST_LANGUAGES", components))?;
    }
    if wanted("proxy") {
        run(&mut cargo(workspace, &["build", "--release", "-p", "sluicegate", "--bin", "sluicegate"]))?;
        proxy::measure(workspace)?;
    }
    if wanted("swaps") {
        run(&mut cargo(
            workspace,
            &["build", "--release", "-p", "sluicegate", "-p", "sluicegate-sim", "--bins"],
        ))?;
        swaps::measure(workspace, swaps)?;
    }
    Ok(())
}
