//! Watches the plugin directory.
//!
//! The directory is watched, never a file: editors, `cp`, `mv` and mounted configuration replace files in
//! ways that lose a watch on one. An event only says that something changed; what did is found by
//! listing. A slow listing runs besides, for file systems that send no events.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use super::catalog::Catalog;
use super::directory::{Stamp, list};
use super::settle::Settle;
use crate::clock::{Clock, Nanos};

/// How often the directory is listed without an event.
const SAFETY_NET: Duration = Duration::from_secs(2);
/// How often it is listed while something settles.
const WHILE_SETTLING: Duration = Duration::from_millis(50);

/// Stops the watching thread when dropped.
#[derive(Debug)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    wake: SyncSender<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.wake.try_send(());
    }
}

/// Starts a thread that keeps `catalog` in step with `directory`.
///
/// # Errors
/// When the thread cannot be started. A directory that cannot be watched is listed instead.
pub fn start(catalog: Arc<Catalog>, directory: PathBuf, clock: Arc<dyn Clock>) -> std::io::Result<Watch> {
    // One slot: an event is only a hint to list the directory, so further ones add nothing.
    let (wake, hints) = sync_channel(1);
    let stop = Arc::new(AtomicBool::new(false));
    let mut watcher = Watching {
        seen: catalog.listing(),
        settle: Settle::default(),
        armed: None,
        catalog,
        directory,
        clock,
        wake: wake.clone(),
    };
    let stopped = Arc::clone(&stop);
    std::thread::Builder::new().name("plugin-watch".into()).spawn(move || watcher.run(&hints, &stopped))?;
    Ok(Watch { stop, wake })
}

struct Watching {
    catalog: Arc<Catalog>,
    directory: PathBuf,
    clock: Arc<dyn Clock>,
    wake: SyncSender<()>,
    seen: BTreeMap<PathBuf, Stamp>,
    settle: Settle<PathBuf>,
    /// The watch, and the directory's inode that it was set on.
    armed: Option<(RecommendedWatcher, Option<u64>)>,
}

impl Watching {
    fn run(&mut self, hints: &Receiver<()>, stop: &AtomicBool) {
        loop {
            self.arm();
            let _ = hints.recv_timeout(self.patience());
            if stop.load(Ordering::Relaxed) {
                return;
            }
            self.look();
        }
    }

    fn patience(&self) -> Duration {
        match self.settle.next_due() {
            None => SAFETY_NET,
            Some(due) => Duration::from_nanos(due.saturating_sub(self.clock.now())).min(WHILE_SETTLING),
        }
    }

    fn look(&mut self) {
        let now: Nanos = self.clock.now();
        let listed = list(&self.directory);
        for path in self.seen.keys().chain(listed.keys()) {
            if self.seen.get(path) != listed.get(path) {
                self.settle.changed(path.clone(), now);
            }
        }
        self.seen = listed;
        if !self.settle.due(now).is_empty() {
            let settle = &self.settle;
            self.catalog.rescan(|path| settle.is_changing(&path.to_path_buf()));
        }
    }

    /// Sets the watch if there is none, or if the directory has been made anew.
    fn arm(&mut self) {
        let inode = inode(&self.directory);
        if inode.is_some() && self.armed.as_ref().is_some_and(|(_, armed)| *armed == inode) {
            return;
        }
        self.armed = None;
        let wake = self.wake.clone();
        let watcher = notify::recommended_watcher(move |_| {
            let _ = wake.try_send(());
        })
        .and_then(|mut watcher| {
            watcher.watch(&self.directory, RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        match watcher {
            Ok(watcher) => self.armed = Some((watcher, inode)),
            Err(error) => tracing::debug!(%error, "the plugin directory is listed, not watched"),
        }
    }
}

#[cfg(unix)]
fn inode(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|metadata| std::os::unix::fs::MetadataExt::ino(&metadata))
}

#[cfg(not(unix))]
fn inode(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|_| 0)
}
