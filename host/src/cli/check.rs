//! `sluicegate check`

use std::process::ExitCode;

use super::output::{bad, bad_config, good};
use crate::app::{secrets, tokens};
use crate::config::{Config, Flags, from_flags};

/// Reads the configuration as `serve` would, and says all that is wrong with it.
pub(super) fn check(flags: Flags) -> ExitCode {
    match from_flags(flags) {
        Ok(config) => match [secrets::problems(&config), tokens::problems(&config)].concat().as_slice() {
            [] => good(&format!("ok: {}\n", summary(&config))),
            problems => bad(&problems.join("\n")),
        },
        Err(errors) => bad_config(&errors),
    }
}

pub(super) fn summary(config: &Config) -> String {
    let endpoints = config.pools.iter().map(|pool| pool.endpoints.len()).sum();
    [
        counted(config.pools.len(), "pool"),
        counted(endpoints, "endpoint"),
        counted(config.plugins.len(), "configured plugin"),
        counted(config.chains.len().max(1), "chain"),
    ]
    .join(", ")
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
