//! Says on standard error how far a run has come.

use crate::load::Progress;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Prints a line a second until it is dropped.
pub(super) struct Ticker {
    task: JoinHandle<()>,
}

impl Ticker {
    /// Watches `progress` of a run of `total` requests.
    pub(super) fn start(name: &'static str, progress: Arc<Progress>, total: u64) -> Self {
        let task = tokio::spawn(async move {
            let begin = Instant::now();
            let mut beat = tokio::time::interval(Duration::from_secs(1));
            beat.tick().await;
            loop {
                beat.tick().await;
                eprintln!(
                    "  {name:<12} {:>3} s   {:>5} of {total} requests   {} failed",
                    begin.elapsed().as_secs(),
                    progress.done(),
                    progress.failed()
                );
            }
        });
        Self { task }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.task.abort();
    }
}
