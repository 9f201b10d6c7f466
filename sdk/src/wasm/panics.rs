//! What a panic leaves behind: one line in the host's log, before the trap that says nothing.

use std::sync::Once;

use super::imports::log;

/// Installs the hook, once.
pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        std::panic::set_hook(Box::new(|panic| log::write(log::Level::Error, &panic.to_string())));
    });
}
