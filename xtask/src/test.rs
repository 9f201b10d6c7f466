//! Everything that the project tests, and all that it takes to do so.

use std::process::Command;

use crate::engines;
use crate::error::Error;
use crate::languages;
use crate::plugins::{self, What};
use crate::run::{cargo, run, works};
use crate::test_env::{self, TestEnv};
use crate::workspace::Workspace;

/// What is tested.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Real vLLM servers and aiperf too.
    pub(crate) engines: bool,
    /// For the test runner.
    pub(crate) filter: Vec<String>,
}

/// Builds what the tests need and runs them. The test runner's own closing lines come last.
///
/// # Errors
/// When a step or a test fails.
pub(crate) fn run_tests(workspace: &Workspace, options: &Options) -> Result<(), Error> {
    plugins::build(workspace.root(), What::Defaults)?;
    plugins::build(workspace.root(), What::Guests(Vec::new()))?;
    languages::build(workspace)?;
    let env = test_env::prepare(workspace)?;
    run(&mut cargo(workspace, &["build", "-p", "sluicegate", "-p", "sluicegate-sim", "--bins"]))?;
    let runner = Runner::find();
    if options.engines {
        let engines = engines::prepare(workspace)?;
        let mut tests = runner.tests(workspace, &["-p", "sluicegate-tests", "--test", "cases"]);
        runner.only_engines(&mut tests);
        let tests = places(&mut tests, workspace, &env);
        run(tests.env("SLUICEGATE_TEST_VLLM", engines.vllm).env("SLUICEGATE_TEST_AIPERF", engines.aiperf))?;
    }
    // Neither runner runs these along with the rest.
    run(&mut cargo(workspace, &["test", "--quiet", "--doc", "-p", "sluicegate-sdk"]))?;
    // Its dependencies ask for features with which the WebAssembly engine would be compiled a second time.
    run(&mut cargo(workspace, &["test", "--quiet", "-p", "xtask"]))?;
    let mut tests = runner.tests(workspace, &["--workspace", "--exclude", "xtask"]);
    runner.filter(&mut tests, &options.filter);
    run(places(&mut tests, workspace, &env))
}

/// Tells the tests where everything is; `tests/src/places.rs` reads it.
fn places<'a>(tests: &'a mut Command, workspace: &Workspace, env: &TestEnv) -> &'a mut Command {
    tests
        .env("SLUICEGATE_TEST_ROUTER", workspace.binary("sluicegate"))
        .env("SLUICEGATE_TEST_SIM", workspace.binary("sluicegate-sim"))
        .env("SLUICEGATE_TEST_PLUGINS", workspace.made("plugins"))
        .env("SLUICEGATE_TEST_GUESTS", workspace.made("guests-wasm"))
        .env("SLUICEGATE_TEST_LANGUAGES", workspace.made("languages-wasm"))
        .env("SLUICEGATE_TEST_PYTHON", &env.python)
        .env("SLUICEGATE_TEST_NODE", &env.node)
        .env("SLUICEGATE_TEST_GGUF", &env.gguf)
        .env("SLUICEGATE_TEST_MODEL", &env.model)
}

/// cargo-nextest where it is installed: each test in a process of its own. Else cargo's own.
#[derive(Debug, Clone, Copy)]
enum Runner {
    Nextest,
    Cargo,
}

impl Runner {
    fn find() -> Self {
        if works("cargo-nextest", &["nextest", "--version"]) { Self::Nextest } else { Self::Cargo }
    }

    fn tests(self, workspace: &Workspace, packages: &[&str]) -> Command {
        let mut tests = match self {
            Self::Nextest => cargo(workspace, &["nextest", "run", "--no-fail-fast"]),
            Self::Cargo => cargo(workspace, &["test", "--no-fail-fast"]),
        };
        tests.args(packages);
        tests
    }

    fn filter(self, tests: &mut Command, filter: &[String]) {
        match self {
            // One test binary may hold nothing that the filter names.
            Self::Nextest => tests.args(["--no-tests", "warn"]).args(filter),
            Self::Cargo => tests.args(["--all-targets", "--"]).args(filter),
        };
    }

    /// Those that need real engines, and none of the others that are left to be run by hand.
    fn only_engines(self, tests: &mut Command) {
        match self {
            // One at a time: each starts two servers that take a core for a minute before they answer.
            Self::Nextest => tests.args(["--run-ignored", "only", "--test-threads", "1"]),
            Self::Cargo => tests.args(["--", "--ignored", "--test-threads=1"]),
        }
        .args(["vllm", "aiperf"]);
    }
}
