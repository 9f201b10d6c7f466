//! Flags of `sluicegate-sim fairness`.

use std::path::PathBuf;

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Scenario {
    /// Three times what the engines can take, most of it from one flow that sends 20 times what each other does;
    /// without that flow; and first come first served.
    Overload,
    /// Four flows with weights 1 to 4, each of which alone would fill the engines.
    Shares,
    /// Agents of 2 to 30 turns beside each other: priority by turn, and first come first served.
    Turns,
    /// Agents whose contexts are three times what the engines' caches hold: with room for sessions, without, and first
    /// come first served.
    Sessions,
}

/// Judge flow control in virtual time, over simulated engines.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// What happens.
    #[arg(value_enum)]
    pub scenario: Scenario,
    /// Seconds of traffic, or in which sessions begin.
    #[arg(long, default_value_t = 120.0, value_name = "S")]
    pub seconds: f64,
    /// Sessions of agents at a time, in the scenarios that have any.
    #[arg(long, default_value_t = 300, value_name = "N")]
    pub sessions: u64,
    /// Flows beside the one that sends 20 times what each of them does, under `overload`.
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub others: u32,
    /// Engines.
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub engines: usize,
    /// Plugins, as the router would watch them.
    #[arg(long, value_name = "DIR")]
    pub plugins: Option<PathBuf>,
    /// Determines all text and times.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}
