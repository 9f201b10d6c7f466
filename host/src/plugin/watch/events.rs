//! Events of the system about one directory, as flags for the thread that looks.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::SystemTime;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

/// What tells one directory from another at the same path. An inode that became free is soon given out
/// again, hence the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    inode: (u64, u64),
    created: Option<SystemTime>,
}

impl Identity {
    /// Of the directory that the path leads to now.
    pub(super) fn of(directory: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(directory).ok().filter(std::fs::Metadata::is_dir)?;
        Some(Self { inode: inode(&metadata), created: metadata.created().ok() })
    }
}

#[cfg(unix)]
fn inode(metadata: &std::fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn inode(_: &std::fs::Metadata) -> (u64, u64) {
    (0, 0)
}

/// What has happened since it was last asked. Wakes a thread the first time.
#[derive(Debug)]
pub(super) struct Flags {
    hinted: AtomicBool,
    ended: AtomicBool,
    thread: Thread,
}

impl Flags {
    /// Nothing has happened; `thread` is woken when something does.
    pub(super) fn new(thread: Thread) -> Arc<Self> {
        Arc::new(Self { hinted: AtomicBool::new(false), ended: AtomicBool::new(false), thread })
    }

    /// Whether anything changed.
    pub(super) fn hinted(&self) -> bool {
        self.hinted.load(Ordering::Acquire)
    }

    /// Forgets that anything changed. To be called before looking, so that no change falls between.
    pub(super) fn forget(&self) {
        self.hinted.store(false, Ordering::Release);
    }

    /// Whether the watch ended since this was last asked.
    pub(super) fn take_ended(&self) -> bool {
        self.ended.swap(false, Ordering::AcqRel)
    }

    fn note(&self, directory: &Path, event: notify::Result<Event>) {
        match event {
            Ok(event) if only_read(event.kind) => return,
            Ok(event) if !event.kind.is_remove() || event.paths.iter().all(|path| path != directory) => {}
            // The directory itself was removed, or the system can tell no more.
            Ok(_) | Err(_) => self.ended.store(true, Ordering::Release),
        }
        // The thread is woken by the first event and rests through a storm of them.
        if !self.hinted.swap(true, Ordering::AcqRel) {
            self.thread.unpark();
        }
    }
}

/// Listing the directory is an event too: one that must not lead to another listing.
fn only_read(kind: EventKind) -> bool {
    matches!(kind, EventKind::Access(kind) if kind != AccessKind::Close(AccessMode::Write))
}

/// Asks the system for events of a directory. They end when what is returned is dropped.
///
/// # Errors
/// When the system gives none: its limit is reached, or it has none for this file system.
pub(super) fn watch(directory: PathBuf, flags: Arc<Flags>) -> notify::Result<RecommendedWatcher> {
    let path = directory.clone();
    let mut watcher = notify::recommended_watcher(move |event| flags.note(&directory, event))?;
    watcher.watch(&path, RecursiveMode::NonRecursive)?;
    Ok(watcher)
}
