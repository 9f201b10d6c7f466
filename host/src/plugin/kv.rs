//! The `store` of a plugin: keys and values shared by its instances and kept across its versions.
//!
//! Bounded in keys and bytes. Expired keys go when they are met, and all at once before a write is
//! refused for want of room.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::clock::{MILLI, Nanos};

/// Keys of one plugin at most.
const MAX_KEYS: usize = 65_536;
/// Bytes of keys and values of one plugin at most.
const MAX_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug)]
struct Value {
    bytes: Vec<u8>,
    expires: Option<Nanos>,
}

#[derive(Debug, Default)]
struct Inner {
    values: HashMap<String, Value>,
    bytes: usize,
}

/// Keys and values of one plugin.
#[derive(Debug, Default)]
pub(super) struct Store(Mutex<Inner>);

impl Store {
    pub(super) fn get(&self, key: &str, now: Nanos) -> Option<Vec<u8>> {
        self.0.lock().live(key, now).map(<[u8]>::to_vec)
    }

    pub(super) fn set(
        &self,
        key: String,
        value: Vec<u8>,
        ttl_ms: Option<u32>,
        now: Nanos,
    ) -> Result<(), String> {
        self.0.lock().put(key, value, expiry(ttl_ms, now), now)
    }

    pub(super) fn add(&self, key: String, by: i64, ttl_ms: Option<u32>, now: Nanos) -> Result<i64, String> {
        let mut inner = self.0.lock();
        let old = match inner.live(&key, now) {
            None => 0,
            Some(bytes) => i64::from_le_bytes(
                bytes
                    .try_into()
                    .map_err(|_| format!("`{key}` holds {} bytes, not a counter", bytes.len()))?,
            ),
        };
        let new = old.wrapping_add(by);
        inner.put(key, new.to_le_bytes().to_vec(), expiry(ttl_ms, now), now)?;
        Ok(new)
    }

    pub(super) fn swap(
        &self,
        key: String,
        expected: Option<&[u8]>,
        value: Option<Vec<u8>>,
        ttl_ms: Option<u32>,
        now: Nanos,
    ) -> Result<bool, String> {
        let mut inner = self.0.lock();
        if inner.live(&key, now) != expected {
            return Ok(false);
        }
        match value {
            Some(value) => inner.put(key, value, expiry(ttl_ms, now), now)?,
            None => inner.remove(&key),
        }
        Ok(true)
    }
}

fn expiry(ttl_ms: Option<u32>, now: Nanos) -> Option<Nanos> {
    ttl_ms.map(|ms| now + u64::from(ms) * MILLI)
}

impl Inner {
    fn live(&mut self, key: &str, now: Nanos) -> Option<&[u8]> {
        if self.values.get(key).is_some_and(|value| value.expires.is_some_and(|at| at <= now)) {
            self.remove(key);
        }
        self.values.get(key).map(|value| value.bytes.as_slice())
    }

    fn put(&mut self, key: String, bytes: Vec<u8>, expires: Option<Nanos>, now: Nanos) -> Result<(), String> {
        let size = key.len() + bytes.len();
        self.remove(&key);
        if !self.fits(size) {
            self.expire(now);
        }
        if !self.fits(size) {
            return Err(format!(
                "the store is full: {} keys of {MAX_KEYS}, {} bytes of {MAX_BYTES}",
                self.values.len(),
                self.bytes
            ));
        }
        self.bytes += size;
        self.values.insert(key, Value { bytes, expires });
        Ok(())
    }

    fn fits(&self, size: usize) -> bool {
        self.values.len() < MAX_KEYS && self.bytes + size <= MAX_BYTES
    }

    fn remove(&mut self, key: &str) {
        if let Some(value) = self.values.remove(key) {
            self.bytes -= key.len() + value.bytes.len();
        }
    }

    fn expire(&mut self, now: Nanos) {
        let bytes = &mut self.bytes;
        self.values.retain(|key, value| {
            let keep = value.expires.is_none_or(|at| at > now);
            if !keep {
                *bytes -= key.len() + value.bytes.len();
            }
            keep
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_and_expire() {
        let store = Store::default();
        assert_eq!(store.add("n".into(), 5, Some(10), 0), Ok(5));
        assert_eq!(store.add("n".into(), -2, Some(10), MILLI), Ok(3));
        assert_eq!(store.add("n".into(), 1, None, 20 * MILLI), Ok(1));
        store.set("text".into(), b"abc".to_vec(), None, 0).unwrap();
        assert!(store.add("text".into(), 1, None, 0).is_err());
    }

    #[test]
    fn swap_needs_the_expected_value() {
        let store = Store::default();
        assert_eq!(store.swap("k".into(), Some(b"a"), Some(b"b".to_vec()), None, 0), Ok(false));
        assert_eq!(store.swap("k".into(), None, Some(b"a".to_vec()), None, 0), Ok(true));
        assert_eq!(store.swap("k".into(), Some(b"a"), None, None, 0), Ok(true));
        assert_eq!(store.get("k", 0), None);
    }

    #[test]
    fn it_is_bounded_and_makes_room_by_expiry() {
        let store = Store::default();
        store.set("big".into(), vec![0; MAX_BYTES - 100], Some(1), 0).unwrap();
        assert!(store.set("more".into(), vec![0; 200], None, 0).is_err());
        assert!(store.set("more".into(), vec![0; 200], None, 2 * MILLI).is_ok());
    }
}
