//! Waiting for a condition, with patience for a busy machine.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

/// How long anything may take before the test gives up. Generous: it only matters to a failing test.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How long nothing must happen for a test to believe that nothing will.
pub const QUIET: Duration = Duration::from_millis(300);

const POLL: Duration = Duration::from_millis(20);

/// Waits until `condition` holds. `what` completes the sentence "waited in vain until …".
///
/// # Panics
/// When it does not hold within [`PATIENCE`].
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    until_some(what, async || condition().await.then_some(())).await;
}

/// Waits until `look` finds something and returns it.
///
/// # Panics
/// When it finds nothing within [`PATIENCE`].
pub async fn until_some<T>(what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
    within(PATIENCE, what, look).await
}

/// The same for what takes longer than anything else.
///
/// # Panics
/// When it finds nothing in time.
pub async fn within<T>(patience: Duration, what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + patience;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain until {what}");
        sleep(POLL).await;
    }
}

/// Waits for a future with [`PATIENCE`].
///
/// # Panics
/// When it takes longer.
pub async fn patiently<T>(what: &str, future: impl Future<Output = T>) -> T {
    match timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited in vain for {what}"),
    }
}

/// Holds that `condition` stays false for [`QUIET`].
///
/// # Panics
/// When it comes true.
pub async fn never(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + QUIET;
    while Instant::now() < end {
        assert!(!condition().await, "{what}");
        sleep(POLL).await;
    }
}
