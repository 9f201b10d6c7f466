//! A store in memory.

use std::collections::BTreeMap;

#[derive(Debug, Clone)]
struct Entry {
    value: Vec<u8>,
    expires: Option<u64>,
}

/// Keys and values with expiry and a bound in keys.
#[derive(Debug)]
pub(crate) struct Store {
    entries: BTreeMap<String, Entry>,
    bound: usize,
}

impl Default for Store {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), bound: 4_096 }
    }
}

impl Store {
    pub(super) fn set_bound(&mut self, keys: usize) {
        self.bound = keys;
    }

    pub(crate) fn get(&self, now: u64, key: &str) -> Option<Vec<u8>> {
        let entry = self.entries.get(key)?;
        entry.expires.is_none_or(|expires| now < expires).then(|| entry.value.clone())
    }

    pub(crate) fn set(
        &mut self,
        now: u64,
        key: &str,
        value: &[u8],
        ttl_ms: Option<u32>,
    ) -> Result<(), String> {
        if !self.entries.contains_key(key) && self.entries.len() >= self.bound {
            return Err(format!("the store is full: it holds {} keys", self.bound));
        }
        let expires = ttl_ms.map(|ttl| now + u64::from(ttl));
        self.entries.insert(key.into(), Entry { value: value.into(), expires });
        Ok(())
    }

    pub(crate) fn add(&mut self, now: u64, key: &str, by: i64, ttl_ms: Option<u32>) -> Result<i64, String> {
        let old = match self.get(now, key) {
            None => 0,
            Some(bytes) => i64::from_le_bytes(
                bytes.try_into().map_err(|_| format!("`{key}` holds something else than a counter"))?,
            ),
        };
        let new = old.saturating_add(by);
        self.set(now, key, &new.to_le_bytes(), ttl_ms)?;
        Ok(new)
    }

    pub(crate) fn swap(
        &mut self,
        now: u64,
        key: &str,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
        ttl_ms: Option<u32>,
    ) -> Result<bool, String> {
        if self.get(now, key).as_deref() != expected {
            return Ok(false);
        }
        match value {
            Some(value) => self.set(now, key, value, ttl_ms)?,
            None => drop(self.entries.remove(key)),
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_expires() {
        let mut store = Store::default();
        store.set(0, "a", b"1", Some(10)).unwrap();
        assert_eq!(store.get(9, "a").as_deref(), Some(&b"1"[..]));
        assert_eq!(store.get(10, "a"), None);
    }

    #[test]
    fn a_swap_needs_the_expected_value() {
        let mut store = Store::default();
        assert_eq!(store.swap(0, "a", Some(b"x"), Some(b"y"), None), Ok(false));
        assert_eq!(store.swap(0, "a", None, Some(b"y"), None), Ok(true));
        assert_eq!(store.swap(0, "a", Some(b"y"), None, None), Ok(true));
        assert_eq!(store.get(0, "a"), None);
    }

    #[test]
    fn a_full_store_says_so() {
        let mut store = Store::default();
        store.set_bound(1);
        assert_eq!(store.add(0, "a", 2, None), Ok(2));
        assert_eq!(store.add(0, "a", 3, None), Ok(5));
        assert!(store.set(0, "b", b"", None).is_err());
    }
}
