//! The command line.

use crate::{demo, engine, fair, load, replay, split};
use clap::{Parser, Subcommand};
use std::process::ExitCode;
use std::sync::Arc;

/// Simulated LLM engines, a load generator and a demonstration for Sluicegate.
#[derive(Debug, Parser)]
#[command(name = "sluicegate-sim", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Engine(engine::Args),
    Load(load::Args),
    Replay(replay::Args),
    Fairness(fair::Args),
    Split(split::Args),
    Demo(demo::Args),
}

/// Runs the command that the process was started with.
///
/// Exit codes: 0 good, 1 something failed, 2 wrong usage.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    // One thread is enough, and leaves the machine to what is measured.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let code = match cli.command {
        Command::Engine(args) => match runtime.block_on(engine::run(args)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error),
        },
        Command::Load(args) => runtime.block_on(send_load(&args)),
        Command::Replay(args) => match replay::replay(&args) {
            Ok(report) => tell(&report, args.json),
            Err(error) => failed(&error),
        },
        Command::Fairness(args) => match fair::run(&args) {
            Ok(outcomes) => tell_fairness(&outcomes, args.json),
            Err(error) => failed(&error),
        },
        Command::Split(args) => match split::run(&args, |mix, table| tell_split(mix, table, args.json)) {
            Ok(rows) if args.json => {
                println!("{}", serde_json::json!(rows));
                ExitCode::SUCCESS
            }
            Ok(_) => ExitCode::SUCCESS,
            Err(error) => failed(&error),
        },
        Command::Demo(args) => match runtime.block_on(demo::run(&args)) {
            Ok(outcome) => {
                println!("{outcome}");
                if outcome.sluicegate.failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
            }
            Err(error) => failed(&error),
        },
    };
    // Whatever still reads standard input is not waited for.
    runtime.shutdown_background();
    code
}

async fn send_load(args: &load::Args) -> ExitCode {
    let report = match load::run(args, &Arc::default()).await {
        Ok(report) => report,
        Err(error) => return failed(&error),
    };
    let code = tell(&report, args.json);
    if report.failed > 0 && !args.allow_failures { ExitCode::FAILURE } else { code }
}

fn tell(report: &load::Report, json: bool) -> ExitCode {
    if json {
        println!("{}", serde_json::json!(report));
    } else {
        print!("{report}");
    }
    ExitCode::SUCCESS
}

fn tell_fairness(outcomes: &[fair::Outcome], json: bool) -> ExitCode {
    if json {
        println!("{}", serde_json::json!(outcomes));
    } else {
        outcomes.iter().for_each(|outcome| print!("{outcome}"));
    }
    ExitCode::SUCCESS
}

fn tell_split(mix: &str, table: &str, json: bool) {
    if !json {
        println!("`{mix}`\n\n{table}");
    }
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::FAILURE
}
