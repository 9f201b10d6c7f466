//! The text log: stderr, filtered by `SLUICEGATE_LOG` (the syntax of `tracing_subscriber`'s `EnvFilter`).

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The variable that says what is logged; `info` when it is not set.
pub const VARIABLE: &str = "SLUICEGATE_LOG";

/// Starts logging. A second call changes nothing.
pub fn init() {
    let filter = EnvFilter::builder()
        .with_env_var(VARIABLE)
        .with_default_directive(LevelFilter::INFO.into())
        .from_env_lossy();
    let colours = std::io::stderr().is_terminal();
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    // It fails when a log is already there, which a test or an embedding program may have set up.
    let _ = log.try_init();
}
