//! The latest failing calls of a plugin.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use super::{Case, Outcome, Question};
use crate::clock::Clock;
use crate::config::PluginConfig;
use crate::policy::{CallError, ColumnId, Registry};

/// Cases of one plugin that are kept.
pub const KEPT: usize = 8;

/// A failing call, with the number by which it is found.
#[derive(Debug)]
pub struct KeptCase {
    /// Grows by one with every failing call of the plugin.
    pub id: u64,
    /// Milliseconds since 1970.
    pub at_unix_ms: u64,
    /// The call.
    pub case: Case,
}

#[derive(Debug, Default)]
struct Ring {
    last: u64,
    /// Oldest first.
    kept: VecDeque<Arc<KeptCase>>,
}

/// The latest failing calls of a plugin, over all of its versions.
#[derive(Debug, Default)]
pub struct Cases(Mutex<Ring>);

impl Cases {
    /// Those that are kept, newest first.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<KeptCase>> {
        self.0.lock().kept.iter().rev().cloned().collect()
    }

    /// The one with this number.
    #[must_use]
    pub fn get(&self, id: u64) -> Option<Arc<KeptCase>> {
        self.0.lock().kept.iter().find(|kept| kept.id == id).cloned()
    }

    fn push(&self, case: Case) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_unix_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let mut ring = self.0.lock();
        ring.last += 1;
        let id = ring.last;
        let oldest = if ring.kept.len() >= KEPT { ring.kept.pop_front() } else { None };
        ring.kept.push_back(Arc::new(KeptCase { id, at_unix_ms, case }));
        drop(ring);
        // It may hold a lot; nobody has to wait for that.
        drop(oldest);
    }
}

/// Writes down the failing calls of one configured version of a plugin.
#[derive(Debug)]
pub(in crate::plugin) struct Recorder {
    pub(in crate::plugin) config: PluginConfig,
    pub(in crate::plugin) digest: Box<str>,
    pub(in crate::plugin) cases: Arc<Cases>,
}

impl Recorder {
    /// Keeps a call that failed. The plugin may read these columns.
    pub(in crate::plugin) fn failed(
        &self,
        question: Question<'_>,
        clock: &dyn Clock,
        seen: (&[ColumnId], &Registry),
        error: &CallError,
        backtrace: Vec<Box<str>>,
    ) {
        let mut case = question.case(&self.config, &self.digest, clock.now(), seen);
        case.outcome =
            Some(Outcome::Error { reason: error.reason, message: error.message.clone(), backtrace });
        self.cases.push(case);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Function;
    use super::*;

    #[test]
    fn the_newest_are_kept_under_numbers_that_do_not_come_again() {
        let cases = Cases::default();
        for _ in 0..KEPT + 3 {
            cases.push(Case::new(&PluginConfig::named("x"), "", Function::Score));
        }
        let ids: Vec<u64> = cases.all().iter().map(|kept| kept.id).collect();
        assert_eq!(ids, (4..=11).rev().collect::<Vec<u64>>());
        assert!(cases.get(3).is_none());
        assert!(cases.get(11).is_some());
    }
}
