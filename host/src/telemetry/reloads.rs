//! What became of changes of the configuration.

use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde::Serialize;

/// What reading the configuration again came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reloaded {
    /// It is in force.
    Applied,
    /// It says what is in force already.
    Unchanged,
    /// What was in force stays, for this reason.
    Refused(String),
}

impl Reloaded {
    /// For metrics and the admin API.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Unchanged => "unchanged",
            Self::Refused(_) => "refused",
        }
    }
}

/// How the configuration fares.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ReloadStatus {
    /// Changes that were applied.
    pub applied: u64,
    /// Times that nothing had changed.
    pub unchanged: u64,
    /// Changes that were refused.
    pub refused: u64,
    /// When it was read again last, milliseconds since 1970.
    pub read_at_unix_ms: Option<u64>,
    /// What came of that.
    pub outcome: Option<&'static str>,
    /// Why the file is not in force, when it is not.
    pub problem: Option<String>,
}

/// Counts them.
#[derive(Debug, Default)]
pub struct Reloads(Mutex<ReloadStatus>);

impl Reloads {
    /// The configuration was read again.
    pub fn note(&self, reloaded: &Reloaded) {
        let mut status = self.0.lock();
        let (count, problem) = match reloaded {
            Reloaded::Applied => (&mut status.applied, None),
            Reloaded::Unchanged => (&mut status.unchanged, None),
            Reloaded::Refused(why) => (&mut status.refused, Some(why.clone())),
        };
        *count += 1;
        status.problem = problem;
        status.outcome = Some(reloaded.as_str());
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        status.read_at_unix_ms = u64::try_from(since.as_millis()).ok();
    }

    /// How it fares.
    #[must_use]
    pub fn status(&self) -> ReloadStatus {
        self.0.lock().clone()
    }
}
