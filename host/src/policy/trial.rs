//! Which version of a plugin serves a request while a candidate is tried on some of the traffic.
//!
//! A [`Trial`] belongs to a policy set. [`PolicySet::serving`] says, request by request, which chain serves
//! and, where the pool is split, on which of its endpoints. One candidate at a time is given traffic: what a
//! pool's figures then show can be blamed on it.
//!
//! A session stays with the version that it met first for as long as the trial lasts, and a larger share
//! keeps the sessions of a smaller one: the share is cut from a hash of the session, and the trial's salt.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xxhash_rust::xxh64::xxh64;

use super::{Chain, OwnFactory, PolicySet, Request, Slot};
use crate::types::{Arm, EndpointKey};

/// What of the traffic a candidate is given.
#[derive(Debug, Clone, PartialEq)]
pub enum Share {
    /// Sessions, in per cent (0 to 100).
    Sessions(f32),
    /// All requests that go to so many endpoints of each pool, and as large a share of the sessions.
    Endpoints(u32),
    /// All requests of these pools.
    Pools(BTreeSet<Box<str>>),
}

/// A candidate that is given traffic.
#[derive(Debug)]
pub struct Trial {
    /// The plugin that it would replace.
    pub plugin: Box<str>,
    /// What its requests are counted under.
    pub arm: Arm,
    /// How much it is given.
    pub share: Share,
    /// Makes the cut another one with each candidate.
    pub salt: u64,
    /// The chains that use the plugin, with the candidate in its place.
    pub chains: BTreeMap<Box<str>, Arc<Chain>>,
}

/// One side of a pool that is split between two versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    salt: u64,
    count: u32,
    tried: bool,
}

impl Part {
    /// Says for each endpoint of a pool whether it is of this side. Which endpoints are tried depends on
    /// their addresses and the trial alone, so replicas agree and a restart changes nothing.
    #[must_use]
    pub fn of(&self, pool: &[EndpointKey]) -> Vec<bool> {
        let rank = |key: &EndpointKey| xxh64(&key.0.to_le_bytes(), self.salt);
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        let mut ranks: Vec<u64> = pool.iter().map(rank).collect();
        let last = match count.checked_sub(1) {
            None => return vec![!self.tried; pool.len()],
            Some(last) if last < ranks.len() => *ranks.select_nth_unstable(last).1,
            Some(_) => u64::MAX,
        };
        pool.iter().map(|key| (rank(key) <= last) == self.tried).collect()
    }
}

/// What serves a request.
#[derive(Debug, Clone)]
pub struct Serving {
    /// The policies that are asked.
    pub chain: Arc<Chain>,
    /// What the request is counted under.
    pub arm: Arm,
    /// The side of the pool that it may go to; none: all of it.
    pub part: Option<Part>,
}

impl Serving {
    /// A chain on all of a pool, with no trial.
    #[must_use]
    pub fn plain(chain: Arc<Chain>) -> Self {
        Self { chain, arm: Arm::BASE, part: None }
    }
}

/// The pool of a request, as far as a trial asks.
#[derive(Debug, Clone, Copy)]
pub struct PoolFacts<'a> {
    /// Its name.
    pub name: &'a str,
    /// The chain that serves it.
    pub chain: &'a str,
    /// How many endpoints it has.
    pub endpoints: usize,
}

impl PolicySet {
    /// What serves this request of this pool.
    #[must_use]
    pub fn serving(&self, pool: PoolFacts<'_>, request: &Request) -> Serving {
        let base = self.chain(pool.chain);
        let Some((trial, chain)) = self.tried(pool.chain) else { return Serving::plain(base) };
        let (tried, part) = match &trial.share {
            Share::Pools(pools) => (pools.contains(pool.name), None),
            Share::Sessions(percent) => (trial.cuts(f64::from(*percent) / 100.0, request), None),
            Share::Endpoints(count) => {
                #[expect(clippy::cast_precision_loss, reason = "pools have thousands of endpoints, not more")]
                let all = pool.endpoints.max(1) as f64;
                let tried = trial.cuts(f64::from(*count) / all, request);
                (tried, Some(Part { salt: trial.salt, count: *count, tried }))
            }
        };
        if tried {
            Serving { chain: Arc::clone(chain), arm: trial.arm, part }
        } else {
            Serving { chain: base, arm: Arm::BASE, part }
        }
    }

    /// The chain whose flow control holds in a pool. Only a trial of whole pools tries one.
    #[must_use]
    pub fn controlling(&self, pool: &str, chain: &str) -> Arc<Chain> {
        match self.tried(chain) {
            Some((Trial { share: Share::Pools(pools), .. }, tried)) if pools.contains(pool) => {
                Arc::clone(tried)
            }
            _ => self.chain(chain),
        }
    }

    /// Whoever observes a pool: the observers of the chain that controls it, and those of a trial.
    #[must_use]
    pub fn observing(&self, pool: &str, chain: &str) -> Vec<Slot<dyn OwnFactory>> {
        let mut observers = self.controlling(pool, chain).observers.clone();
        let tried = self.tried(chain).map(|(_, chain)| &chain.observers);
        for slot in tried.into_iter().flatten() {
            if !observers.iter().any(|known| Arc::ptr_eq(&known.plugin, &slot.plugin)) {
                observers.push(slot.clone());
            }
        }
        observers
    }

    pub(super) fn tried(&self, chain: &str) -> Option<(&Trial, &Arc<Chain>)> {
        let trial = self.trial.as_ref()?;
        Some((trial, trial.chains.get(chain)?))
    }
}

impl Trial {
    /// Whether the request's session is in this share (0 to 1) of all. A request without a session is one of
    /// its own.
    fn cuts(&self, share: f64, request: &Request) -> bool {
        let session = request.session.as_deref().unwrap_or(&request.id);
        #[expect(clippy::cast_precision_loss, reason = "53 bits are a fine enough cut")]
        let place = (xxh64(session.as_bytes(), self.salt) >> 11) as f64 / (1_u64 << 53) as f64;
        place < share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(share: Share) -> PolicySet {
        let chain = |name: &str| Arc::new(Chain { name: name.into(), ..Chain::default() });
        let chains = BTreeMap::from([("c".into(), chain("tried"))]);
        PolicySet {
            chains: BTreeMap::from([("c".into(), chain("base"))]),
            trial: Some(Trial { plugin: "p".into(), arm: Arm(7), share, salt: 42, chains }),
            ..PolicySet::default()
        }
    }

    const POOL: PoolFacts<'_> = PoolFacts { name: "pool", chain: "c", endpoints: 4 };

    fn request(session: usize, turn: usize) -> Request {
        let mut request = Request::unremarkable(&format!("{session}-{turn}"));
        request.session = Some(format!("session {session}").into());
        request
    }

    pub(super) fn tried(set: &PolicySet, session: usize, turn: usize) -> bool {
        set.serving(POOL, &request(session, turn)).arm == Arm(7)
    }

    #[test]
    fn sessions_stay_where_they_are_and_the_share_is_kept() {
        let set = trial(Share::Sessions(10.0));
        let in_trial: Vec<_> = (0..10_000).filter(|session| tried(&set, *session, 0)).collect();
        assert!((900..1_100).contains(&in_trial.len()), "{}", in_trial.len());
        assert!(in_trial.iter().all(|session| (1..5).all(|turn| tried(&set, *session, turn))));
        let more = trial(Share::Sessions(50.0));
        assert!(in_trial.iter().all(|session| tried(&more, *session, 9)), "a larger share keeps them");
    }

    #[test]
    fn nothing_and_everything() {
        assert!((0..1_000).all(|session| !tried(&trial(Share::Sessions(0.0)), session, 0)));
        assert!((0..1_000).all(|session| tried(&trial(Share::Sessions(100.0)), session, 0)));
    }

    #[test]
    fn a_split_pool_gives_each_side_its_own_endpoints() {
        let set = trial(Share::Endpoints(1));
        let keys: Vec<_> = (0..4).map(EndpointKey).collect();
        let mut in_trial = 0;
        for session in 0..1_000 {
            let serving = set.serving(POOL, &request(session, 0));
            let mine = serving.part.unwrap().of(&keys);
            let count = mine.iter().filter(|mine| **mine).count();
            assert_eq!(count, if serving.arm == Arm::BASE { 3 } else { 1 });
            in_trial += usize::from(serving.arm != Arm::BASE);
        }
        assert!((200..300).contains(&in_trial), "{in_trial}");
    }

    #[test]
    fn a_trial_of_more_endpoints_than_there_are_takes_them_all() {
        let part = Part { salt: 1, count: 9, tried: true };
        assert_eq!(part.of(&[EndpointKey(1), EndpointKey(2)]), [true, true]);
        let none = Part { salt: 1, count: 0, tried: true };
        assert_eq!(none.of(&[EndpointKey(1)]), [false]);
    }

    #[test]
    fn whole_pools_are_tried_with_their_flow_control() {
        let set = trial(Share::Pools(BTreeSet::from(["pool".into()])));
        assert!(tried(&set, 1, 1));
        assert_eq!(&*set.controlling("pool", "c").name, "tried");
        assert_eq!(&*set.controlling("other", "c").name, "base");
        assert_eq!(&*trial(Share::Sessions(100.0)).controlling("pool", "c").name, "base");
    }

    #[test]
    fn chains_that_do_not_use_the_plugin_are_left_alone() {
        let set = trial(Share::Sessions(100.0));
        let pool = PoolFacts { chain: "other", ..POOL };
        assert_eq!(set.serving(pool, &request(1, 1)).arm, Arm::BASE);
    }
}
