//! Watches the configuration file, and the files of the secrets that it names.
//!
//! It is looked at four times a second rather than watched by events: one look costs a microsecond, and it sees what
//! events miss, such as files of network file systems and mounted configuration, which is a link to a link that is
//! replaced. A file that changes is read once it has come to rest.

use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use super::running::Running;
use crate::plugin::directory::Stamp;
use crate::plugin::settle::Settle;

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Ends the watching thread when dropped.
#[derive(Debug)]
pub(super) struct ConfigWatch {
    _stop: SyncSender<()>,
}

/// Has the configuration read again whenever `file` changes.
///
/// # Errors
/// When the thread cannot be started.
pub(super) fn start(file: PathBuf, running: Weak<Running>) -> std::io::Result<ConfigWatch> {
    let (stop, stopped) = sync_channel::<()>(0);
    let mut seen = running.upgrade().map(|running| stamps(&file, &running)).unwrap_or_default();
    let mut settle = Settle::default();
    std::thread::Builder::new().name("config-watch".into()).spawn(move || {
        // It may have changed after it was read.
        if let Some(running) = running.upgrade()
            && running.differs()
        {
            running.reload();
        }
        while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            let Some(running) = running.upgrade() else { return };
            let now = running.shared.clock.now();
            let found = stamps(&file, &running);
            if found != seen {
                seen = found;
                settle.changed((), now);
            }
            // A file that is gone is on its way back, most likely: what is in force stays, and there is nothing to read.
            if !settle.due(now).is_empty() && seen.first().is_some_and(Option::is_some) {
                running.reload();
            }
        }
    })?;
    Ok(ConfigWatch { _stop: stop })
}

/// Of the configuration's file, and of the secrets that are in use.
fn stamps(file: &Path, running: &Running) -> Vec<Option<Stamp>> {
    let secrets = running.secret_files();
    std::iter::once(Stamp::of(file)).chain(secrets.iter().map(|file| Stamp::of(file))).collect()
}
