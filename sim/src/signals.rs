//! Being told to end.

use tokio::signal::unix::{SignalKind, signal};

/// Waits for Ctrl-C or a request to terminate.
pub async fn stopped() {
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        }
        Err(_) => {
            let _either_way = tokio::signal::ctrl_c().await;
        }
    }
}
