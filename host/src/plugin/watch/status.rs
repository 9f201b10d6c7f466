//! What operators see of the watched directory.

use std::path::PathBuf;
use std::time::Duration;

/// How the watched directory fares.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct DirectoryStatus {
    /// Where it is.
    pub path: PathBuf,
    /// How changes are noticed.
    pub noticed_by: Noticed,
    /// Time between two listings without an event, milliseconds.
    pub poll_ms: u64,
    /// Why it cannot be listed; what is in force stays meanwhile.
    pub problem: Option<String>,
}

/// How changes of the directory are noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Noticed {
    /// By events, and by listing now and then.
    Events,
    /// By listing: that is configured, or the system gives no events, or there is no directory.
    Polling,
}

impl DirectoryStatus {
    pub(super) fn new(path: PathBuf, poll: Duration) -> Self {
        let poll_ms = u64::try_from(poll.as_millis()).unwrap_or(u64::MAX);
        Self { path, noticed_by: Noticed::Polling, poll_ms, problem: None }
    }
}
