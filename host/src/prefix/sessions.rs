//! Where each conversation was sent last, and how often it came.
//!
//! Bounded twice: by a number of sessions, of which the one not noted for longest goes first, and by a time
//! after which a session is forgotten. Ids are kept as digests, so that a client's long ids cost nothing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_128;

use crate::clock::Nanos;
use crate::types::EndpointId;

const SHARDS: usize = 16;
const NONE: u32 = u32::MAX;

/// The sessions of a pool.
#[derive(Debug)]
pub struct Sessions {
    shards: Box<[Mutex<Shard>]>,
    ttl: AtomicU64,
}

impl Sessions {
    /// At most `max` sessions, each for `ttl` after it was noted last.
    #[must_use]
    pub fn new(max: usize, ttl: Nanos) -> Self {
        // Few sessions are kept in as few shards, so that the bound holds to the letter.
        let count = SHARDS.min(max);
        let shard = |number: usize| Mutex::new(Shard::new(max / count + usize::from(number < max % count)));
        Self { shards: (0..count).map(shard).collect(), ttl: AtomicU64::new(ttl) }
    }

    /// From now on each is kept for `ttl` after it was noted last.
    pub fn set_ttl(&self, ttl: Nanos) {
        self.ttl.store(ttl, Ordering::Relaxed);
    }

    fn ttl(&self) -> Nanos {
        self.ttl.load(Ordering::Relaxed)
    }

    /// The endpoint of a session and how often it was noted; none when it is not known (any more).
    pub fn get(&self, session: &str, now: Nanos) -> Option<(EndpointId, u32)> {
        let digest = xxh3_128(session.as_bytes());
        let shard = self.shard(digest)?.lock();
        let entry = shard.entry(*shard.places.get(&digest)?)?;
        (now.saturating_sub(entry.noted) < self.ttl()).then_some((entry.endpoint, entry.turns))
    }

    /// A request of a session was sent to an endpoint.
    pub fn note(&self, session: &str, endpoint: EndpointId, now: Nanos) {
        let digest = xxh3_128(session.as_bytes());
        if let Some(shard) = self.shard(digest) {
            shard.lock().note(digest, endpoint, now, self.ttl());
        }
    }

    /// What it holds, the one noted first before the others of its kind.
    #[must_use]
    pub fn export(&self, now: Nanos) -> Vec<Session> {
        let ttl = self.ttl();
        let mut sessions = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            let mut place = shard.oldest;
            while let Some(entry) = shard.entry(place) {
                let age = now.saturating_sub(entry.noted);
                if age < ttl {
                    let Entry { digest, endpoint, turns, .. } = *entry;
                    sessions.push(Session { digest, endpoint, turns, age });
                }
                place = entry.newer;
            }
        }
        sessions.sort_unstable_by_key(|session| std::cmp::Reverse(session.age));
        sessions
    }

    /// Takes in what [`Self::export`] gave, in its order.
    pub fn import(&self, sessions: impl Iterator<Item = Session>, now: Nanos) {
        let ttl = self.ttl();
        for Session { digest, endpoint, turns, age } in sessions {
            if age >= ttl {
                continue;
            }
            if let Some(shard) = self.shard(digest) {
                let mut shard = shard.lock();
                shard.note(digest, endpoint, now.saturating_sub(age), ttl);
                let newest = shard.newest;
                if let Some(entry) = shard.entry_mut(newest) {
                    entry.turns = turns;
                }
            }
        }
    }

    /// How many sessions are kept, expired ones that nobody has replaced included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().places.len()).sum()
    }

    /// Whether there is no session.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self, digest: u128) -> Option<&Mutex<Shard>> {
        let count = u128::try_from(self.shards.len()).ok()?;
        let number = usize::try_from((digest >> 64).checked_rem(count)?).ok()?;
        self.shards.get(number)
    }
}

/// A session, for whoever keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    /// Of its id.
    pub digest: u128,
    /// Where it was sent last.
    pub endpoint: EndpointId,
    /// How often it came.
    pub turns: u32,
    /// Time since it came last.
    pub age: Nanos,
}

/// Entries in a list from the one noted last to the one noted first.
#[derive(Debug)]
struct Shard {
    max: usize,
    places: HashMap<u128, u32>,
    entries: Vec<Entry>,
    newest: u32,
    oldest: u32,
}

#[derive(Debug)]
struct Entry {
    digest: u128,
    noted: Nanos,
    endpoint: EndpointId,
    turns: u32,
    newer: u32,
    older: u32,
}

impl Shard {
    fn new(max: usize) -> Self {
        Self { max, places: HashMap::new(), entries: Vec::new(), newest: NONE, oldest: NONE }
    }

    fn entry(&self, place: u32) -> Option<&Entry> {
        self.entries.get(usize::try_from(place).ok()?)
    }

    fn entry_mut(&mut self, place: u32) -> Option<&mut Entry> {
        self.entries.get_mut(usize::try_from(place).ok()?)
    }

    fn note(&mut self, digest: u128, endpoint: EndpointId, now: Nanos, ttl: Nanos) {
        let place = match self.places.get(&digest) {
            Some(place) => *place,
            None => self.place(digest),
        };
        self.unlink(place);
        let newest = self.newest;
        if let Some(entry) = self.entry_mut(place) {
            if now.saturating_sub(entry.noted) >= ttl {
                entry.turns = 0;
            }
            entry.turns = entry.turns.saturating_add(1);
            entry.endpoint = endpoint;
            entry.noted = entry.noted.max(now);
            entry.older = newest;
        }
        match self.entry_mut(newest) {
            Some(second) => second.newer = place,
            None => self.oldest = place,
        }
        self.newest = place;
    }

    /// Room for a new session: a new entry, or that of the session not noted for longest.
    fn place(&mut self, digest: u128) -> u32 {
        let entry = Entry { digest, noted: 0, endpoint: EndpointId(0), turns: 0, newer: NONE, older: NONE };
        let full = self.entries.len() >= self.max;
        let place = if full { self.oldest } else { u32::try_from(self.entries.len()).unwrap_or(NONE) };
        if full {
            self.unlink(place);
            if let Some(old) = self.entry_mut(place) {
                let gone = std::mem::replace(old, entry).digest;
                self.places.remove(&gone);
            }
        } else {
            self.entries.push(entry);
        }
        self.places.insert(digest, place);
        place
    }

    fn unlink(&mut self, place: u32) {
        let Some(entry) = self.entry_mut(place) else { return };
        let newer = std::mem::replace(&mut entry.newer, NONE);
        let older = std::mem::replace(&mut entry.older, NONE);
        if let Some(entry) = self.entry_mut(newer) {
            entry.older = older;
        } else if self.newest == place {
            self.newest = older;
        }
        if let Some(entry) = self.entry_mut(older) {
            entry.newer = newer;
        } else if self.oldest == place {
            self.oldest = newer;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_session_is_found_until_it_expires() {
        let sessions = Sessions::new(100, 50);
        assert_eq!(sessions.get("a", 0), None);
        sessions.note("a", EndpointId(1), 10);
        sessions.note("a", EndpointId(2), 20);
        assert_eq!(sessions.get("a", 69), Some((EndpointId(2), 2)));
        assert_eq!(sessions.get("a", 70), None);
        sessions.note("a", EndpointId(3), 80);
        assert_eq!(sessions.get("a", 80), Some((EndpointId(3), 1)));
        sessions.set_ttl(30);
        assert_eq!((sessions.get("a", 109), sessions.get("a", 110)), (Some((EndpointId(3), 1)), None));
        let none = Sessions::new(0, 50);
        none.note("a", EndpointId(1), 0);
        assert!(none.is_empty());
    }

    #[test]
    fn what_goes_out_comes_back() {
        let sessions = Sessions::new(100, 50);
        for (id, now) in [("a", 10), ("b", 20), ("a", 30)] {
            sessions.note(id, EndpointId(1), now);
        }
        let back = Sessions::new(100, 50);
        back.import(sessions.export(40).into_iter(), 1_000);
        assert_eq!(back.get("a", 1_030), Some((EndpointId(1), 2)));
        assert_eq!((back.get("b", 1_029), back.get("b", 1_030)), (Some((EndpointId(1), 1)), None));
        assert_eq!(sessions.export(75).len(), 1, "what has expired is not kept");
    }

    proptest! {
        #[test]
        fn one_shard_is_an_lru(max in 1_usize..6, ids in proptest::collection::vec(0_u128..10, 0..60)) {
            let mut shard = Shard::new(max);
            let mut model: Vec<(u128, u32)> = Vec::new();
            for (now, id) in ids.into_iter().enumerate() {
                shard.note(id, EndpointId(1), now as u64, u64::MAX);
                let turns = model.iter().find(|(known, _)| *known == id).map_or(0, |(_, turns)| *turns);
                model.retain(|(known, _)| *known != id);
                model.insert(0, (id, turns + 1));
                model.truncate(max);
                let mut listed = Vec::new();
                let mut place = shard.newest;
                while let Some(entry) = shard.entry(place) {
                    listed.push((entry.digest, entry.turns));
                    place = entry.older;
                }
                prop_assert_eq!(&listed, &model);
                prop_assert_eq!(shard.places.len(), model.len());
            }
        }

        #[test]
        fn the_bound_holds(max in 0_usize..40) {
            let sessions = Sessions::new(max, 10);
            for number in 0..200 {
                sessions.note(&number.to_string(), EndpointId(1), 0);
            }
            prop_assert!(sessions.len() <= max);
        }
    }
}
