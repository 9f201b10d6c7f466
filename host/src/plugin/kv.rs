//! The `store` of a plugin: keys and values shared by its instances and kept across its versions.
//!
//! Bounded in keys and bytes, each and together. Expired keys go when they are met, and all at once before a
//! write is refused for want of room. A write that is refused changes nothing.
//!
//! A candidate has a store that lies over the plugin's: it sees what the plugin stored, and what it writes
//! itself nobody else sees until [`Store::adopt`].

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::clock::{MILLI, Nanos};

/// Bytes of a key.
const MAX_KEY: usize = 1_024;
/// Bytes of a value. Every `get` copies it.
const MAX_VALUE: usize = 1024 * 1024;
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
    /// Keys of the store below that were removed here.
    gone: HashSet<String>,
    bytes: usize,
    /// No key expires before this, so that a plugin that writes into a full store does not have it searched
    /// each time.
    expiry_from: Nanos,
}

/// Keys and values of one plugin.
#[derive(Debug, Default)]
pub(super) struct Store {
    inner: Mutex<Inner>,
    below: Option<Arc<Self>>,
}

impl Store {
    /// A store of a candidate, over that of its plugin.
    pub(super) fn over(below: &Arc<Self>) -> Self {
        Self { inner: Mutex::default(), below: Some(Arc::clone(below)) }
    }

    /// Takes over what was written to a store that lies over this one, and empties that. What finds no room
    /// is dropped: the candidate could not have written it here either.
    pub(super) fn adopt(&self, above: &Self, now: Nanos) {
        let written = std::mem::take(&mut *above.inner.lock());
        let mut inner = self.inner.lock();
        for key in &written.gone {
            inner.remove(key);
        }
        for (key, value) in written.values {
            let _ = inner.put(key, value.bytes, value.expires, now);
        }
    }

    /// What it holds itself, with the time that each value has left.
    pub(super) fn export(&self, now: Nanos) -> Vec<(String, Vec<u8>, Option<Nanos>)> {
        let inner = self.inner.lock();
        let live = inner.values.iter().filter(|(_, value)| value.expires.is_none_or(|at| at > now));
        live.map(|(key, value)| (key.clone(), value.bytes.clone(), value.expires.map(|at| at - now)))
            .collect()
    }

    /// Takes in a value that it does not hold; without room it is dropped.
    pub(super) fn import(&self, key: String, value: Vec<u8>, left: Option<Nanos>, now: Nanos) {
        let mut inner = self.inner.lock();
        if inner.live(&key, now).is_none() {
            let _ = inner.put(key, value, left.map(|left| now.saturating_add(left)), now);
        }
    }

    pub(super) fn get(&self, key: &str, now: Nanos) -> Option<Vec<u8>> {
        self.seen(&mut self.inner.lock(), key, now)
    }

    pub(super) fn set(
        &self,
        key: String,
        value: Vec<u8>,
        ttl_ms: Option<u32>,
        now: Nanos,
    ) -> Result<(), String> {
        self.inner.lock().put(key, value, expiry(ttl_ms, now), now)
    }

    pub(super) fn add(&self, key: String, by: i64, ttl_ms: Option<u32>, now: Nanos) -> Result<i64, String> {
        let mut inner = self.inner.lock();
        let old = match self.seen(&mut inner, &key, now) {
            None => 0,
            Some(bytes) => i64::from_le_bytes(
                bytes
                    .as_slice()
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
        let mut inner = self.inner.lock();
        if self.seen(&mut inner, &key, now).as_deref() != expected {
            return Ok(false);
        }
        match value {
            Some(value) => inner.put(key, value, expiry(ttl_ms, now), now)?,
            None => {
                inner.remove(&key);
                if self.below.as_ref().is_some_and(|below| below.get(&key, now).is_some()) {
                    inner.gone.insert(key);
                }
            }
        }
        Ok(true)
    }

    /// A value, of this store or of the one below.
    fn seen(&self, inner: &mut Inner, key: &str, now: Nanos) -> Option<Vec<u8>> {
        if let Some(bytes) = inner.live(key, now) {
            return Some(bytes.to_vec());
        }
        let below = self.below.as_ref().filter(|_| !inner.gone.contains(key))?;
        below.get(key, now)
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
        if key.len() > MAX_KEY || bytes.len() > MAX_VALUE {
            return Err(format!(
                "a key of {} bytes with a value of {}; keys of up to {MAX_KEY} and values of up to {MAX_VALUE} are stored",
                key.len(),
                bytes.len()
            ));
        }
        if !self.fits(&key, &bytes) {
            self.expire(now);
        }
        if !self.fits(&key, &bytes) {
            return Err(format!(
                "the store is full: {} keys of {MAX_KEYS}, {} bytes of {MAX_BYTES}",
                self.values.len(),
                self.bytes
            ));
        }
        self.remove(&key);
        self.bytes += size(&key, &bytes);
        if let Some(at) = expires {
            self.expiry_from = self.expiry_from.min(at);
        }
        self.gone.remove(&key);
        self.values.insert(key, Value { bytes, expires });
        Ok(())
    }

    /// Whether there is room, given that an old value of the key goes.
    fn fits(&self, key: &str, bytes: &[u8]) -> bool {
        let old = self.values.get(key);
        let freed = old.map_or(0, |value| size(key, &value.bytes));
        self.values.len() - usize::from(old.is_some()) < MAX_KEYS
            && self.bytes - freed + size(key, bytes) <= MAX_BYTES
    }

    fn remove(&mut self, key: &str) {
        if let Some(value) = self.values.remove(key) {
            self.bytes -= size(key, &value.bytes);
        }
    }

    fn expire(&mut self, now: Nanos) {
        if now < self.expiry_from {
            return;
        }
        let bytes = &mut self.bytes;
        let mut next = Nanos::MAX;
        self.values.retain(|key, value| {
            let keep = value.expires.is_none_or(|at| at > now);
            if keep {
                next = next.min(value.expires.unwrap_or(Nanos::MAX));
            } else {
                *bytes -= size(key, &value.bytes);
            }
            keep
        });
        self.expiry_from = next;
    }
}

fn size(key: &str, bytes: &[u8]) -> usize {
    key.len() + bytes.len()
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
    fn what_a_candidate_writes_is_its_own_until_it_is_adopted() {
        let below = Arc::new(Store::default());
        below.set("a".into(), b"1".to_vec(), None, 0).unwrap();
        below.set("b".into(), b"2".to_vec(), None, 0).unwrap();
        below.add("n".into(), 5, None, 0).unwrap();
        let above = Store::over(&below);
        assert_eq!(above.get("a", 0).as_deref(), Some(&b"1"[..]));
        above.set("a".into(), b"3".to_vec(), None, 0).unwrap();
        assert_eq!(above.swap("b".into(), Some(b"2"), None, None, 0), Ok(true));
        assert_eq!(above.add("n".into(), 2, None, 0), Ok(7));
        assert_eq!((above.get("a", 0).as_deref(), above.get("b", 0)), (Some(&b"3"[..]), None));
        assert_eq!(
            (below.get("a", 0).as_deref(), below.get("b", 0).as_deref()),
            (Some(&b"1"[..]), Some(&b"2"[..]))
        );
        assert_eq!(below.add("n".into(), 0, None, 0), Ok(5));
        below.adopt(&above, 0);
        assert_eq!((below.get("a", 0).as_deref(), below.get("b", 0)), (Some(&b"3"[..]), None));
        assert_eq!(below.add("n".into(), 0, None, 0), Ok(7));
        assert_eq!(above.get("a", 0).as_deref(), Some(&b"3"[..]), "it sees what it wrote, now below");
    }

    #[test]
    fn it_is_bounded_and_makes_room_by_expiry() {
        let store = Store::default();
        for n in 0..15 {
            store.set(n.to_string(), vec![0; MAX_VALUE], Some(1), 0).unwrap();
        }
        store.set("last".into(), vec![0; MAX_VALUE - 100], None, 0).unwrap();
        assert!(store.set("more".into(), vec![0; 200], None, 0).is_err());
        assert!(store.set("more".into(), vec![0; 200], None, 2 * MILLI).is_ok());
        assert!(store.set("0".repeat(MAX_KEY + 1), Vec::new(), None, 0).is_err());
        assert!(store.set("big".into(), vec![0; MAX_VALUE + 1], None, 0).is_err());
    }

    #[test]
    fn a_write_that_is_refused_changes_nothing() {
        let store = Store::default();
        for n in 0..15 {
            store.set(n.to_string(), vec![0; MAX_VALUE], None, 0).unwrap();
        }
        store.set("k".into(), b"old".to_vec(), None, 0).unwrap();
        assert!(store.set("k".into(), vec![0; MAX_VALUE], None, 0).is_err());
        assert_eq!(store.get("k", 0).as_deref(), Some(b"old".as_slice()));
        // An old value makes room for a new one of its own key.
        assert!(store.set("0".into(), vec![1; MAX_VALUE], None, 0).is_ok());
    }

    #[derive(Debug, Clone)]
    enum Step {
        Set(u8, usize, Option<u32>),
        Delete(u8),
        Wait(u64),
    }

    fn step() -> impl proptest::strategy::Strategy<Value = Step> {
        use proptest::prelude::*;
        prop_oneof![
            (any::<u8>(), 0..2 * MAX_VALUE, proptest::option::of(0..50_u32))
                .prop_map(|(key, len, ttl)| Step::Set(key % 40, len, ttl)),
            any::<u8>().prop_map(|key| Step::Delete(key % 40)),
            (0..100_u64).prop_map(Step::Wait),
        ]
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config::with_cases(48))]

        #[test]
        fn its_bytes_are_those_of_what_it_holds(steps in proptest::collection::vec(step(), 0..60)) {
            let (store, mut now) = (Store::default(), 0);
            for step in steps {
                match step {
                    Step::Set(key, len, ttl) => {
                        let _ = store.set(key.to_string(), vec![0; len], ttl, now);
                    }
                    Step::Delete(key) => {
                        let key = key.to_string();
                        let held = store.get(&key, now);
                        let _ = store.swap(key, held.as_deref(), None, None, now);
                    }
                    Step::Wait(ms) => now += ms * MILLI,
                }
                let inner = store.inner.lock();
                let sum: usize = inner.values.iter().map(|(key, value)| size(key, &value.bytes)).sum();
                proptest::prop_assert_eq!(sum, inner.bytes);
                proptest::prop_assert!(sum <= MAX_BYTES && inner.values.len() <= MAX_KEYS);
                let first = inner.values.values().filter_map(|value| value.expires).min();
                proptest::prop_assert!(first.is_none_or(|at| at >= inner.expiry_from));
            }
        }
    }
}
