//! The benchmarks: what the policies of a request cost, what a request through the proxy costs, what clients notice
//! of a swap, what a plugin costs in each language, what tokenizing costs, what clients get from each router, and the
//! prefix index beside others.
//!
//! They print ratios against a baseline of the same run; none of them is a timed test.

mod ask;
mod nginx;
mod process;
mod proxy;
mod routing;
mod swaps;
mod watched;

use crate::error::Error;
use crate::languages;
use crate::plugins::{self, What};
use crate::run::{cargo, run};
use crate::workspace::Workspace;

/// Builds what is measured and runs the benchmarks that are named; none named is all. Flags that follow are of
/// the swaps, or of the routing when that alone is named.
///
/// # Errors
/// When a step fails.
pub(crate) fn run_benches(workspace: &Workspace, names: &[String]) -> Result<(), Error> {
    let (names, flags) =
        names.split_at(names.iter().position(|name| name.starts_with("--")).unwrap_or(names.len()));
    let only_routing = names.iter().all(|name| name == "routing") && !names.is_empty();
    let routing = routing::options(if only_routing { flags } else { &[] })?;
    let swaps = swaps::options(if only_routing { &[] } else { flags })?;
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
    if wanted("tokens") {
        run(&mut cargo(workspace, &["bench", "-p", "sluicegate", "--bench", "tokens"]))?;
    }
    if wanted("proxy") {
        run(&mut cargo(workspace, &["build", "--release", "-p", "sluicegate", "--bin", "sluicegate"]))?;
        proxy::measure(workspace)?;
    }
    if wanted("swaps") || wanted("routing") {
        run(&mut cargo(
            workspace,
            &["build", "--release", "-p", "sluicegate", "-p", "sluicegate-sim", "--bins"],
        ))?;
    }
    if wanted("swaps") {
        swaps::measure(workspace, swaps)?;
    }
    if wanted("routing") {
        routing::measure(workspace, &routing)?;
    }
    Ok(())
}
