//! Watches the plugin directory.
//!
//! The directory is watched, never a file: editors, `cp`, `mv` and mounted configuration replace files in
//! ways that lose a watch on one. An event only says that something changed; what did is found by
//! listing. A listing now and then runs besides, for file systems that send no events, for directories
//! behind a link that now leads elsewhere, and for what links in the directory lead to.
//!
//! What decides is pure ([`plan`], [`arming`]); here is the thread that does what they say. It sleeps until
//! something is to be done.
//!
//! A directory that is gone, or that cannot be listed, changes nothing: what is in force stays until it can
//! be listed again. Only a file that is missing in a listing was removed.

mod arming;
mod events;
mod plan;
#[cfg(test)]
mod plan_tests;
mod status;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

use arc_swap::ArcSwap;
use notify::RecommendedWatcher;

use super::catalog::Catalog;
use super::directory::{Listing, Stamp, read};
use crate::clock::{Clock, Nanos, nanos};
use crate::config;
use arming::{Arming, Outcome, Step};
use events::{Flags, Identity};
use plan::Plan;

pub use status::{DirectoryStatus, Noticed};

/// Mistaken names that are told of at most; a directory with more has its operator's attention, or nobody's.
const TOLD: usize = 64;

/// Stops the watching thread when dropped.
#[derive(Debug)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: Thread,
    status: Arc<ArcSwap<DirectoryStatus>>,
}

impl Watch {
    /// How the directory fares, kept up to date.
    #[must_use]
    pub fn status(&self) -> Arc<ArcSwap<DirectoryStatus>> {
        Arc::clone(&self.status)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Starts a thread that keeps `catalog` in step with `directory`.
///
/// # Errors
/// When the thread cannot be started. A directory that cannot be watched is listed instead, and one that is
/// not there is waited for.
pub fn start(
    catalog: Arc<Catalog>,
    directory: PathBuf,
    how: config::Watch,
    clock: Arc<dyn Clock>,
) -> io::Result<Watch> {
    let stop = Arc::new(AtomicBool::new(false));
    let status = Arc::new(ArcSwap::from_pointee(DirectoryStatus::new(directory.clone(), how.poll)));
    let poll = nanos(how.poll);
    let (stopped, shown) = (Arc::clone(&stop), Arc::clone(&status));
    let run = move || {
        let watching = Watching {
            plan: Plan::new(catalog.listing(), poll),
            arming: Arming::new(how.mode == config::WatchMode::Auto),
            flags: Flags::new(std::thread::current()),
            told: BTreeSet::new(),
            watcher: None,
            status: shown,
            catalog,
            directory,
            clock,
        };
        watching.run(&stopped);
    };
    let thread = std::thread::Builder::new().name("plugin-watch".into()).spawn(run)?;
    Ok(Watch { stop, thread: thread.thread().clone(), status })
}

struct Watching {
    catalog: Arc<Catalog>,
    directory: PathBuf,
    clock: Arc<dyn Clock>,
    plan: Plan,
    arming: Arming<Identity>,
    flags: Arc<Flags>,
    watcher: Option<RecommendedWatcher>,
    status: Arc<ArcSwap<DirectoryStatus>>,
    /// Mistaken names that were told of.
    told: BTreeSet<OsString>,
}

impl Watching {
    fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Acquire) {
            let wait = self.plan.next_look(self.flags.hinted()).saturating_sub(self.clock.now());
            if wait > 0 {
                std::thread::park_timeout(Duration::from_nanos(wait));
            } else {
                self.look();
            }
        }
    }

    fn look(&mut self) {
        self.flags.forget();
        self.arm();
        let began = self.clock.now();
        match read(&self.directory) {
            Ok(Listing { files, mistakes }) => {
                self.tell_mistakes(mistakes);
                self.show(None);
                if self.plan.looked(files, began, self.clock.now()) {
                    let plan = &self.plan;
                    self.catalog.rescan(|path| plan.is_changing(path, || Stamp::of(path)));
                    self.plan.read(&self.catalog.listing());
                }
            }
            Err(error) => {
                self.plan.unlisted(began, self.clock.now());
                self.show(Some(error.to_string()));
            }
        }
    }

    /// Sets the watch if there is none, or if the directory is another one now. Before listing, so that no
    /// change falls between.
    fn arm(&mut self) {
        let now = self.clock.now();
        let found = Identity::of(&self.directory);
        match (self.arming.step(found.as_ref(), self.flags.take_ended(), now), found) {
            (Step::Keep, _) | (Step::Set, None) => {}
            (Step::Drop, _) => self.watcher = None,
            (Step::Set, Some(found)) => {
                self.watcher = None;
                match events::watch(self.directory.clone(), Arc::clone(&self.flags)) {
                    Ok(watcher) => {
                        self.watcher = Some(watcher);
                        if self.arming.set(found) == Outcome::Regained {
                            tracing::info!("changes of the plugin directory are noticed by events again");
                        }
                    }
                    Err(error) => self.refused(&error, now),
                }
            }
        }
    }

    fn refused(&mut self, error: &notify::Error, now: Nanos) {
        if self.arming.refused(now) == Outcome::Lost {
            let poll_ms = self.status.load().poll_ms;
            tracing::warn!(
                directory = %self.directory.display(), %error, poll_ms,
                "the system gives no events of the plugin directory; it is listed every {poll_ms} ms instead"
            );
        }
    }

    /// Shows how the directory fares, and tells of it when that changes.
    fn show(&self, problem: Option<String>) {
        let noticed_by = if self.arming.is_armed() { Noticed::Events } else { Noticed::Polling };
        let before = self.status.load();
        if before.problem == problem && before.noticed_by == noticed_by {
            return;
        }
        let directory = self.directory.display();
        match (&before.problem, &problem) {
            (None, Some(error)) => {
                tracing::warn!(%directory, error, "the plugin directory cannot be listed; what is in force stays");
            }
            (Some(_), None) => tracing::info!(%directory, "the plugin directory can be listed again"),
            _ => {}
        }
        self.status.store(Arc::new(DirectoryStatus {
            noticed_by,
            problem,
            ..DirectoryStatus::clone(&before)
        }));
    }

    fn tell_mistakes(&mut self, mistakes: std::collections::BTreeMap<OsString, &'static str>) {
        for (name, why) in mistakes {
            if self.told.len() < TOLD && !self.told.contains(&name) {
                tracing::warn!(file = %name.display(), "a file of the plugin directory is left alone: {why}");
                self.told.insert(name);
            }
        }
    }
}
