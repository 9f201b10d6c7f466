//! The benchmarks: what the policies of a request cost, what a request through the proxy costs, what clients notice
//! of a swap and of a new process, what a plugin costs in each language, what tokenizing costs, what clients get from each router, who
//! waits under overload, the ways to split prefill and decode, the prefix index beside others, and the index of engines'
//! reports.
//!
//! They print ratios against a baseline of the same run; none of them is a timed test.

mod ask;
mod fairness;
mod nginx;
mod process;
mod proxy;
mod routers;
mod routing;
mod split;
mod swaps;
mod upgrade;
mod watched;

use crate::error::Error;

use crate::plugins::{self, What};
use crate::run::{cargo, run};
use crate::workspace::Workspace;
use crate::{dist, languages};

/// Builds what is measured and runs the benchmarks that are named; none named is all. Flags that follow are of
/// the proxy or the routing when that alone is named, else of the swaps.
///
/// # Errors
/// When a step fails.
pub(crate) fn run_benches(workspace: &Workspace, names: &[String]) -> Result<(), Error> {
    let (names, flags) =
        names.split_at(names.iter().position(|name| name.starts_with("--")).unwrap_or(names.len()));
    let flags_of = |owner: &str| match names {
        [only] if ["proxy", "routing"].contains(&only.as_str()) => only == owner,
        _ => owner == "swaps",
    };
    let given = |owner: &str| if flags_of(owner) { flags } else { &[] };
    let proxy = proxy::options(given("proxy"))?;
    let routing = routing::options(given("routing"))?;
    let swaps = swaps::options(given("swaps"))?;
    let wanted = |name: &str| names.is_empty() || names.iter().any(|named| named == name);
    plugins::build(workspace.root(), What::Defaults)?;
    if wanted("policies") {
        run(&mut cargo(workspace, &["bench", "-p", "sluicegate", "--bench", "policies"]))?;
    }
    // Only when it is named: what it compares with is a hundred packages that nothing else needs.
    if names.iter().any(|name| name == "index") {
        let manifest =
            ["run", "--release", "--manifest-path", "bench/index/Cargo.toml", "--target-dir", "target"];
        run(&mut cargo(workspace, &manifest))?;
    }
    if wanted("languages") {
        let components = languages::build(workspace)?;
        run(cargo(workspace, &["bench", "-p", "sluicegate", "--bench", "languages"])
            .env("SLUICEGATE_TEST_LANGUAGES", components))?;
    }
    if wanted("exact") {
        run(&mut cargo(workspace, &["bench", "-p", "sluicegate", "--bench", "exact"]))?;
    }
    if wanted("tokens") {
        run(&mut cargo(workspace, &["bench", "-p", "sluicegate", "--bench", "tokens"]))?;
    }
    if wanted("upgrade") {
        dist::build(workspace)?;
        upgrade::measure(workspace)?;
    }
    if wanted("proxy") {
        dist::build(workspace)?;
        proxy::measure(workspace, &proxy)?;
    }
    if ["swaps", "routing", "fairness", "split"].into_iter().any(wanted) {
        run(&mut cargo(
            workspace,
            &["build", "--release", "-p", "sluicegate", "-p", "sluicegate-sim", "--bins"],
        ))?;
    }
    if wanted("fairness") {
        fairness::measure(workspace)?;
    }
    if wanted("split") {
        split::measure(workspace)?;
    }
    if wanted("swaps") {
        swaps::measure(workspace, swaps)?;
    }
    if wanted("routing") {
        routing::measure(workspace, &routing)?;
    }
    Ok(())
}
