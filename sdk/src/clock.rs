//! Time as the host sees it.

/// Milliseconds of a monotonic clock; stands still within a call, virtual in replay.
#[must_use]
pub fn now_ms() -> u64 {
    backend::now()
}

#[cfg(target_arch = "wasm32")]
use crate::wasm::imports::clock as backend;

#[cfg(not(target_arch = "wasm32"))]
mod backend {
    pub(super) fn now() -> u64 {
        crate::fake::with(|host| host.now_ms)
    }
}
