//! The signals that the process listens to.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::running::Running;
use super::upgrade::Ask;

/// Returns when the process is asked to stop: SIGTERM, or an interrupt from the terminal.
pub(super) async fn asked_to_stop() {
    let interrupted = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminated) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = interrupted => {}
                _ = terminated.recv() => {}
            }
            return;
        }
    }
    let _ = interrupted.await;
}

/// Reads the configuration again whenever SIGHUP asks for it, for ever.
pub(super) async fn reload_when_asked(running: Arc<Running>) {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut asked) = signal(SignalKind::hangup()) else { return };
    while asked.recv().await.is_some() {
        let running = Arc::clone(&running);
        // Plugins may be set up anew, which takes a while.
        let _ = tokio::task::spawn_blocking(move || running.reload()).await;
    }
}

/// Asks for another process whenever SIGUSR2 does, for ever.
pub(super) async fn upgrade_when_asked(asks: mpsc::Sender<Ask>) {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut asked) = signal(SignalKind::user_defined2()) else { return };
    while asked.recv().await.is_some() {
        // What comes of it is in the log.
        let (answer, _) = oneshot::channel();
        if asks.send(Ask { program: None, answer }).await.is_err() {
            return;
        }
    }
}
