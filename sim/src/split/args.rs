//! Flags of `sluicegate-sim split`.

use std::path::PathBuf;

use crate::engine::Sizes;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Mix {
    /// Short questions after one of 20 system prompts.
    Chat,
    /// Prompts of 8,000 tokens with short answers.
    Long,
    /// Three of ten prompts are long, the others chat.
    Mixed,
    /// Prompts of 6,000 tokens with answers of 800.
    LongAnswers,
    /// Conversations whose every turn brings 1,500 tokens to what is cached.
    Turns,
}

/// Compare the ways to split prefill and decode in virtual time, over simulated engines.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// What is asked; given more than once, each; all of them when not given.
    #[arg(long = "mix", value_enum, value_name = "MIX")]
    pub mixes: Vec<Mix>,
    /// Requests a second instead of those of the mix; given more than once, each.
    #[arg(long = "rate", value_name = "PER_S")]
    pub rates: Vec<f64>,
    /// Seconds of traffic.
    #[arg(long, default_value_t = 30.0, value_name = "S")]
    pub seconds: f64,
    /// Only set-ups whose name contains this; given more than once, each.
    #[arg(long = "only", value_name = "TEXT")]
    pub only: Vec<String>,
    /// Plugins, as the router would watch them.
    #[arg(long, value_name = "DIR")]
    pub plugins: Option<PathBuf>,
    /// Determines all text and times.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How large and how fast each engine is.
    #[command(flatten)]
    pub sizes: Sizes,
    /// Print JSON instead of tables.
    #[arg(long)]
    pub json: bool,
}
