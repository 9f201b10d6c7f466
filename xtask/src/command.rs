//! The command line.

use crate::error::Error;
use crate::plugins::{self, What};
use crate::workspace::Workspace;
use crate::{bench, demo, dist, fuzz, languages, layers, soak, test};

/// Shown with every mistake.
pub(crate) const USAGE: &str = "\
usage: cargo xtask COMMAND

  demo [FLAG…]                      the router before simulated engines; flags go to `sluicegate-sim demo`
  test [--engines] [-- FILTER…]     everything the project tests; --engines adds real vLLM servers and aiperf (7 GB)
  plugins                           builds the default plugins into target/plugins
  guests [NAME…]                    builds the guests of the tests into target/guests-wasm
  languages                         builds the plugins of tests/languages into target/languages-wasm
  layers                            checks who imports whom, and the length of files
  dist                              builds the programs as they are given to others into target/dist (minutes)
  bench [policies] [proxy] [languages] [tokens] [exact] [swaps [--swaps N] [--json]] [upgrade] [routing] [fairness] [split] [index]   the benchmarks, as ratios
  bench proxy [--arm NAME] [--rounds N] [--seconds N]
                                    what a request costs, beside proxies and routers of others
  bench routing [--workload NAME] [--router NAME] [--config FILE] [--trace FILE] [--precise] [--tokenizer FOLDER]
                [--engine URL… --model NAME] [--json]
                                    what clients get from each router, ours and others', on the same traffic
  fuzz load|kv_events|prompt|answer|splice|metrics|config|snapshot [--minutes N]
                                    fuzzes the loading of plugins, the messages of engines about their caches, the
                                    bodies of requests, …, for 5 minutes unless told otherwise
  soak [--minutes N]                random faults for 20 minutes unless told otherwise, and a look at what is left";

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// The router before simulated engines.
    Demo(Vec<String>),
    /// Everything that the project tests.
    Test(test::Options),
    /// The default plugins.
    Plugins,
    /// The guests of the tests; no name is all of them.
    Guests(Vec<String>),
    /// The plugins in other languages.
    Languages,
    /// Who imports whom.
    Layers,
    /// The programs as they are given to others.
    Dist,
    /// The benchmarks.
    Bench(Vec<String>),
    /// A fuzz target.
    Fuzz(fuzz::Options),
    /// Random faults, for so many minutes.
    Soak(u32),
}

/// Reads the command line.
///
/// # Errors
/// [`Error::Usage`] when it makes no sense.
pub(crate) fn parse(arguments: &[String]) -> Result<Command, Error> {
    let Some((command, rest)) = arguments.split_first() else {
        return Err(Error::Usage("no command".to_owned()));
    };
    match command.as_str() {
        "demo" => Ok(Command::Demo(after_dashes(rest))),
        "test" => test_options(rest).map(Command::Test),
        "plugins" => none(rest).map(|()| Command::Plugins),
        "guests" => Ok(Command::Guests(rest.to_vec())),
        "languages" => none(rest).map(|()| Command::Languages),
        "layers" => none(rest).map(|()| Command::Layers),
        "dist" => none(rest).map(|()| Command::Dist),
        "bench" => Ok(Command::Bench(rest.to_vec())),
        "fuzz" => fuzz::Options::parse(rest).map(Command::Fuzz),
        "soak" => soak::minutes(rest).map(Command::Soak),
        other => Err(Error::Usage(format!("no command is named `{other}`"))),
    }
}

impl Command {
    /// Does it.
    ///
    /// # Errors
    /// When a step failed.
    pub(crate) fn run(self) -> Result<(), Error> {
        let workspace = Workspace::find();
        match self {
            Self::Demo(flags) => demo::run_demo(&workspace, &flags),
            Self::Test(options) => test::run_tests(&workspace, &options),
            Self::Plugins => Ok(plugins::build(workspace.root(), What::Defaults).map(drop)?),
            Self::Guests(names) => Ok(plugins::build(workspace.root(), What::Guests(names)).map(drop)?),
            Self::Languages => languages::build(&workspace).map(drop),
            Self::Layers => layers::check(&workspace),
            Self::Dist => {
                dist::build(&workspace)?.iter().for_each(|program| println!("{}", program.display()));
                Ok(())
            }
            Self::Bench(filter) => bench::run_benches(&workspace, &filter),
            Self::Fuzz(options) => fuzz::run_fuzz(&workspace, &options),
            Self::Soak(minutes) => soak::run_soak(&workspace, minutes),
        }
    }
}

fn test_options(arguments: &[String]) -> Result<test::Options, Error> {
    let mut options = test::Options::default();
    let mut left = arguments.iter();
    while let Some(argument) = left.next() {
        match argument.as_str() {
            "--engines" => options.engines = true,
            "--" => options.filter = left.by_ref().cloned().collect(),
            other => {
                return Err(Error::Usage(format!("`test` knows no `{other}`; a filter comes after `--`")));
            }
        }
    }
    Ok(options)
}

fn after_dashes(arguments: &[String]) -> Vec<String> {
    let skip = usize::from(arguments.first().is_some_and(|first| first == "--"));
    arguments.iter().skip(skip).cloned().collect()
}

fn none(arguments: &[String]) -> Result<(), Error> {
    match arguments.first() {
        None => Ok(()),
        Some(argument) => Err(Error::Usage(format!("`{argument}` is one argument too many"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, Error> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn what_comes_after_two_dashes_is_the_filter() {
        let options =
            test::Options { engines: true, filter: vec!["swap".to_owned(), "--no-capture".to_owned()] };
        assert_eq!(parsed("test --engines -- swap --no-capture").unwrap(), Command::Test(options));
    }

    #[test]
    fn mistakes_are_told_from_failures_by_the_exit_code() {
        for line in ["", "tset", "test swap", "layers now"] {
            assert_eq!(parsed(line).unwrap_err().exit_code(), 2, "{line}");
        }
    }
}
