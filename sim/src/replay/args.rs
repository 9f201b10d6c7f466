//! Flags of `sluicegate-sim replay`.

use crate::engine::Sizes;
use crate::load::Traffic;
use std::path::PathBuf;

/// Who decides where a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// Each engine in turn.
    RoundRobin,
    /// The routers of SGLang and vLLM as they come: whoever was sent the longest beginning of the prompt.
    CacheAware,
    /// The router and its plugins.
    Router,
}

/// Judge policies in virtual time, over simulated engines.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Engines.
    #[arg(long, default_value_t = 8, value_name = "N")]
    pub engines: usize,
    /// Engines of them that prefill for the others, which decode; none: all do both.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub prefill: usize,
    /// Engines that do both hand over their caches to each other.
    #[arg(long)]
    pub hand_over: bool,
    /// Engines that join later: so many of all, with empty caches.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub joining: usize,
    /// Seconds after which they do.
    #[arg(long, default_value_t = 0.0, value_name = "S", requires = "joining")]
    pub joining_after: f64,
    /// Who decides where a request goes.
    #[arg(long, value_enum, default_value_t = By::Router)]
    pub by: By,
    /// Configuration of the router: of its plugins and chains. Its endpoints are the simulated engines.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Plugins, as the router would watch them.
    #[arg(long, value_name = "DIR")]
    pub plugins: Option<PathBuf>,
    /// What is asked, and when.
    #[command(flatten)]
    pub traffic: Traffic,
    /// How large and how fast each engine is.
    #[command(flatten)]
    pub sizes: Sizes,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}
