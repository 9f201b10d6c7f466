//! The ids of pieces of text that were tokenized before.
//!
//! Keyed by 128 bits of the piece's hash, so that text is neither kept nor compared. Bounded in bytes: what was
//! used lately is in the young half; when that is full the old half goes, and what is asked for again grows young.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_128;

/// What an entry takes beside its ids: key, pointer, the table's slack and the allocator's. A generous guess.
const ENTRY_BYTES: usize = 96;

/// A bounded memory of ids.
#[derive(Debug)]
pub(super) struct Cache {
    half: usize,
    halves: Mutex<Halves>,
}

#[derive(Debug, Default)]
struct Halves {
    young: HashMap<u128, Arc<[u32]>>,
    old: HashMap<u128, Arc<[u32]>>,
    /// Of the young.
    bytes: usize,
}

impl Cache {
    /// A cache that holds `bytes` at most.
    pub(super) fn new(bytes: usize) -> Self {
        Self { half: bytes / 2, halves: Mutex::default() }
    }

    /// The ids of `piece`: those that were kept, or what `compute` makes of it.
    pub(super) fn ids<E>(
        &self,
        piece: &str,
        compute: impl FnOnce(&str) -> Result<Vec<u32>, E>,
    ) -> Result<Arc<[u32]>, E> {
        let key = xxh3_128(piece.as_bytes());
        if let Some(known) = self.known(key) {
            return Ok(known);
        }
        // Outside the lock: two that miss the same piece both compute it, and nobody waits for the other.
        let ids: Arc<[u32]> = compute(piece)?.into();
        self.halves.lock().keep(key, &ids, self.half);
        Ok(ids)
    }

    fn known(&self, key: u128) -> Option<Arc<[u32]>> {
        let mut halves = self.halves.lock();
        if let Some(young) = halves.young.get(&key) {
            return Some(Arc::clone(young));
        }
        let old = halves.old.remove(&key)?;
        halves.keep(key, &old, self.half);
        Some(old)
    }
}

impl Halves {
    fn keep(&mut self, key: u128, ids: &Arc<[u32]>, half: usize) {
        let bytes = size_of_val(&**ids).saturating_add(ENTRY_BYTES);
        if bytes > half {
            return;
        }
        if self.bytes.saturating_add(bytes) > half {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        if self.young.insert(key, Arc::clone(ids)).is_none() {
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(cache: &Cache, piece: &str, computed: &mut usize) -> Arc<[u32]> {
        let made = |piece: &str| {
            *computed += 1;
            Ok::<_, ()>(vec![7; piece.len()])
        };
        cache.ids(piece, made).unwrap()
    }

    #[test]
    fn a_piece_is_computed_once() {
        let (cache, mut computed) = (Cache::new(1 << 20), 0);
        assert_eq!(ids(&cache, "abc", &mut computed).len(), 3);
        assert_eq!(ids(&cache, "abc", &mut computed).len(), 3);
        assert_eq!(ids(&cache, "abd", &mut computed).len(), 3);
        assert_eq!(computed, 2);
    }

    #[test]
    fn bytes_stay_bounded_and_what_is_used_stays() {
        let (cache, mut computed) = (Cache::new(20 * (ENTRY_BYTES + 40)), 0);
        for n in 0..1_000 {
            ids(&cache, "the system p", &mut computed);
            ids(&cache, &format!("piece {n:04}"), &mut computed);
            let halves = cache.halves.lock();
            let held: usize =
                halves.young.values().chain(halves.old.values()).map(|ids| ids.len() * 4 + ENTRY_BYTES).sum();
            assert!(held <= 20 * (ENTRY_BYTES + 40), "{held}");
        }
        assert_eq!(computed, 1_001);
    }

    #[test]
    fn what_is_too_large_is_not_kept() {
        let (cache, mut computed) = (Cache::new(1_000), 0);
        let piece = "x".repeat(1_000);
        ids(&cache, &piece, &mut computed);
        ids(&cache, &piece, &mut computed);
        assert_eq!(computed, 2);
    }
}
