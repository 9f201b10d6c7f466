//! Keys and values shared by all instances of a plugin and kept when a new version replaces it.

/// A write that the host refused: the store is bounded in keys and bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(
    /// What the host said.
    pub String,
);

/// The value, if the key exists and has not expired.
#[must_use]
pub fn get(key: &str) -> Option<Vec<u8>> {
    backend::get(key)
}

/// Sets a value; without `ttl_ms` it stays until it is replaced.
///
/// # Errors
/// When the store is full.
pub fn set(key: &str, value: &[u8], ttl_ms: Option<u32>) -> Result<(), StoreError> {
    backend::set(key, value, ttl_ms).map_err(StoreError)
}

/// Adds to a counter (0 when absent) and returns the new value.
///
/// # Errors
/// When the store is full, or the key holds something else.
pub fn add(key: &str, by: i64, ttl_ms: Option<u32>) -> Result<i64, StoreError> {
    backend::add(key, by, ttl_ms).map_err(StoreError)
}

/// Sets `value` (none deletes) if the key still holds `expected`; says whether it did.
///
/// # Errors
/// When the store is full.
pub fn swap(
    key: &str,
    expected: Option<&[u8]>,
    value: Option<&[u8]>,
    ttl_ms: Option<u32>,
) -> Result<bool, StoreError> {
    backend::swap(key, expected, value, ttl_ms).map_err(StoreError)
}

#[cfg(target_arch = "wasm32")]
use crate::wasm::imports::store as backend;

#[cfg(not(target_arch = "wasm32"))]
mod backend {
    use crate::fake::with;

    pub(super) fn get(key: &str) -> Option<Vec<u8>> {
        with(|host| host.store.get(host.now_ms, key))
    }

    pub(super) fn set(key: &str, value: &[u8], ttl_ms: Option<u32>) -> Result<(), String> {
        with(|host| host.store.set(host.now_ms, key, value, ttl_ms))
    }

    pub(super) fn add(key: &str, by: i64, ttl_ms: Option<u32>) -> Result<i64, String> {
        with(|host| host.store.add(host.now_ms, key, by, ttl_ms))
    }

    pub(super) fn swap(
        key: &str,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
        ttl_ms: Option<u32>,
    ) -> Result<bool, String> {
        with(|host| host.store.swap(host.now_ms, key, expected, value, ttl_ms))
    }
}
