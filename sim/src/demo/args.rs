//! Flags of `sluicegate-sim demo`.

use std::path::PathBuf;

/// Show what prefix-aware routing gains, and that a policy is swapped without a failed request.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// The router's binary.
    #[arg(long, value_name = "PATH")]
    pub router: PathBuf,
    /// Where `prefix-affinity.wasm` is, which is swapped in.
    #[arg(long, default_value = "target/plugins", value_name = "DIR")]
    pub plugins: PathBuf,
    /// Simulated engines.
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub engines: usize,
    /// Requests of each run.
    #[arg(long, default_value_t = 900, value_name = "N")]
    pub requests: u64,
    /// Seconds after which a run starts no more requests.
    #[arg(long, default_value_t = 32.0, value_name = "S")]
    pub run_s: f64,
    /// Divides the engines' times.
    #[arg(long, default_value_t = 2.0, value_name = "FACTOR")]
    pub speed_up: f64,
    /// Determines the traffic.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}
