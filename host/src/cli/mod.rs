//! The command line.
//!
//! Exit codes: 0 good, 1 the thing that was run or checked is bad, 2 the command line itself is wrong. What
//! was asked for goes to stdout, everything else to stderr.

#[cfg(test)]
mod book;
mod calibrate;
mod check;
mod compile;
mod inspect;
mod output;
mod run;
mod settings;
mod sign;
mod tenant;
mod test;
#[cfg(test)]
mod tests;
mod upgrade;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::app::{Native, Predecessor};
use crate::config::{self, Flags};
use crate::telemetry::log;
use output::{bad, bad_config, good};
use settings::Settings;

/// A proxy in front of LLM model servers whose routing policies are WebAssembly components.
#[derive(Debug, Parser)]
#[command(name = "sluicegate", version, arg_required_else_help = true, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve requests.
    Serve(Set),
    /// Hand the listening sockets of the process that serves to a new one, without a refused connection.
    Upgrade(upgrade::Upgrade),
    /// Check a configuration without opening a socket: every error, or a summary.
    Check(Set),
    /// Measure how fast an idle endpoint is, and print what a configuration may say of it.
    Calibrate(calibrate::Calibrate),
    /// Show configuration.
    Config {
        #[command(subcommand)]
        what: ConfigCommand,
    },
    /// Work with those who share the endpoints.
    Tenant {
        #[command(subcommand)]
        what: TenantCommand,
    },
    /// Work with a plugin's file.
    Plugin {
        #[command(subcommand)]
        what: PluginCommand,
    },
}

#[derive(Debug, Subcommand)]
enum TenantCommand {
    /// Make an API key, and print it and its hash for `key_hashes`. The key is kept nowhere.
    Key(tenant::Key),
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// The configuration with every default written out, as a file that reads back as the same.
    Print(Set),
    /// Every key with its type, default and meaning, as JSON.
    Schema,
}

#[derive(Debug, Subcommand)]
enum PluginCommand {
    /// Load a plugin as the proxy would, and say what it is or why it is refused.
    Inspect {
        /// The plugin. `NAME.toml` beside `NAME.wasm` is read as the proxy reads it.
        #[arg(value_name = "FILE.wasm")]
        file: PathBuf,
        /// Let it import WASI, as `wasi = "stub"` does.
        #[arg(long)]
        wasi_stub: bool,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Check that it stands what traffic may bring: hostile inputs, determinism, time, memory, state.
    Test {
        /// The plugin. `NAME.toml` beside `NAME.wasm` is read as the proxy reads it.
        #[arg(value_name = "FILE.wasm")]
        file: PathBuf,
        /// Its configuration instead of that beside it: JSON, or @FILE.
        #[arg(long, value_name = "JSON|@FILE")]
        config: Option<String>,
        /// Let it import WASI, as `wasi = "stub"` does.
        #[arg(long)]
        wasi_stub: bool,
        /// CPU time of one call, as `deadline_ms`.
        #[arg(long, value_name = "MS")]
        deadline_ms: Option<u64>,
        /// Calls over which memory is watched, for each function.
        #[arg(long, value_name = "N", default_value_t = 100_000)]
        calls: usize,
        /// The report as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make one recorded call again: what the plugin answers, and whether that is what was recorded.
    Run {
        /// The plugin, any version of it.
        #[arg(value_name = "FILE.wasm")]
        file: PathBuf,
        /// The case, from `GET /plugins/NAME/cases/ID` or `GET /decisions/REQUEST-ID?as=case`.
        #[arg(long, value_name = "CASE.json")]
        case: PathBuf,
    },
    /// Make a key to sign plugins with, and print its public half for `plugins.keys`.
    Keygen(sign::Keygen),
    /// Sign a plugin, together with the NAME.toml beside it: writes FILE.wasm.sig.
    Sign(sign::Sign),
    /// Compile what comes by standard input; the router runs itself so.
    #[command(hide = true)]
    Compile(compile::Bounds),
}

/// Where the configuration comes from. Flags override the file.
#[derive(Debug, Args)]
struct Set {
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// An endpoint; may be repeated. Alone, without a file, it is a complete configuration.
    #[arg(long, value_name = "URL")]
    backend: Vec<String>,
    /// Where clients connect.
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Where the admin API answers.
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
    /// The directory of plugins, which is watched.
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,
    /// Ask the policies and record what they decide, but do not follow it.
    #[arg(long)]
    observe: bool,
}

impl From<Set> for Flags {
    fn from(set: Set) -> Self {
        let Set { config, backend, listen, admin, plugins, observe } = set;
        Self { config, backend, listen, admin, plugins, observe }
    }
}

/// Runs the command line of this process.
#[must_use]
pub fn run() -> ExitCode {
    run_by(None)
}

/// The same, where these policies serve in the place of plugins.
#[must_use]
pub fn run_by(native: Option<Native>) -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => execute(cli.command, native),
        Err(error) => {
            // Help and the version are errors for the parser, and good ones.
            let _ = error.print();
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        }
    }
}

fn execute(command: Command, native: Option<Native>) -> ExitCode {
    match command {
        Command::Serve(set) => serve(set, native),
        Command::Upgrade(upgrade) => upgrade::run(upgrade),
        Command::Check(set) => check::check(set.into()),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Config { what: ConfigCommand::Print(set) } => match config::from_flags(set.into()) {
            Ok(config) => good(&config::print(&config)),
            Err(errors) => bad_config(&errors),
        },
        Command::Config { what: ConfigCommand::Schema } => good(&format!("{:#}\n", config::schema())),
        Command::Tenant { what: TenantCommand::Key(key) } => tenant::key(&key),
        Command::Plugin { what } => plugin(what),
    }
}

fn plugin(command: PluginCommand) -> ExitCode {
    match command {
        PluginCommand::Inspect { file, wasi_stub, json } => inspect::inspect(&file, wasi_stub, json),
        PluginCommand::Test { file, config, wasi_stub, deadline_ms, calls, json } => {
            let settings = Settings { config, wasi_stub, deadline_ms };
            test::test(&file, settings, calls, json)
        }
        PluginCommand::Run { file, case } => run::run(&file, &case),
        PluginCommand::Keygen(keygen) => sign::keygen(&keygen),
        PluginCommand::Sign(sign) => sign::sign(&sign),
        PluginCommand::Compile(bounds) => compile::compile(bounds),
    }
}

fn serve(set: Set, native: Option<Native>) -> ExitCode {
    let predecessor = match Predecessor::find() {
        Ok(predecessor) => predecessor,
        Err(error) => return bad(&format!("the process before hands nothing over: {error}")),
    };
    let flags = Flags::from(set);
    let config = match config::from_flags(flags.clone()) {
        Ok(config) => config,
        Err(errors) => {
            predecessor.inspect(|predecessor| predecessor.failed(&errors));
            return bad_config(&errors);
        }
    };
    log::init();
    match crate::app::run(flags, config, predecessor, native) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => bad(&error),
    }
}
