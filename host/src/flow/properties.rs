//! What holds whatever happens at a gate.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;
use crate::policy::Placement;
use crate::policy::flows::MAX_FLOWS;

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Went,
    Refused,
    Expired,
    Displaced,
    Cancelled,
    SentAway,
}

type Fates = Arc<Mutex<BTreeMap<usize, Vec<Fate>>>>;

#[derive(Debug, Clone)]
enum Step {
    Enter { flow: u8, band: i32, rank: i8, bytes: u16, ttl: u8, session: u8 },
    Release { count: u8 },
    Leave(usize),
    Done(usize),
    Time(i8),
    Saturation(f32),
    Capacity(Option<u16>),
}

fn step() -> impl Strategy<Value = Step> {
    let enter = (0..5_u8, -2..3_i32, any::<i8>(), 0..400_u16, any::<u8>(), 0..6_u8);
    let enter = enter.prop_map(|(flow, band, rank, bytes, ttl, session)| Step::Enter {
        flow,
        band,
        rank,
        bytes,
        ttl,
        session,
    });
    prop_oneof![
        6 => enter,
        3 => (0..6_u8).prop_map(|count| Step::Release { count }),
        1 => any::<usize>().prop_map(Step::Leave),
        2 => any::<usize>().prop_map(Step::Done),
        2 => any::<i8>().prop_map(Step::Time),
        1 => prop_oneof![Just(0.0_f32), Just(0.7), Just(1.0)].prop_map(Step::Saturation),
        1 => prop::option::of(any::<u16>()).prop_map(Step::Capacity),
    ]
}

struct World {
    gate: Arc<Gate>,
    fates: Fates,
    passes: Arc<Mutex<Vec<Pass>>>,
    waiting: Vec<(usize, Waiting)>,
    now: u64,
    count: usize,
}

impl World {
    fn new() -> Self {
        let pool = Amount { requests: 12, bytes: 2_000, tokens: 3_000 };
        let limits = Limits {
            pool,
            band: Amount { requests: 8, ..Amount::UNBOUNDED },
            bands: [(1, Amount { requests: 3, ..Amount::UNBOUNDED })].into(),
            flow: Amount { requests: 5, ..Amount::UNBOUNDED },
        };
        Self {
            gate: Gate::new(limits, Box::new(|| ())),
            fates: Arc::default(),
            passes: Arc::default(),
            waiting: Vec::new(),
            now: 1_000,
            count: 0,
        }
    }

    fn enter(&mut self, flow: u8, band: i32, rank: i8, bytes: u16, ttl: u8, session: u8) {
        let number = self.count;
        self.count += 1;
        let placement = Placement {
            flow: flow.to_string().into(),
            band,
            weight: f32::from(flow) + 0.5,
            cost: bytes.into(),
            rank: rank.into(),
            ceiling: 0.5 + 0.1 * band as f32,
            ttl_ms: None,
            kv_tokens: None,
        };
        let place = Place {
            placement: &placement,
            bytes: bytes.into(),
            tokens: bytes.into(),
            claim: (session > 0).then(|| Claim { session: session.into(), tokens: bytes.into() }),
            deadline: self.now + u64::from(ttl),
            open: true,
        };
        let (fates, passes) = (Arc::clone(&self.fates), Arc::clone(&self.passes));
        let waiter = || -> Waiter {
            Box::new(move |outcome| {
                let fate = match outcome {
                    Outcome::Go(pass) => {
                        passes.lock().push(pass);
                        Fate::Went
                    }
                    Outcome::Expired => Fate::Expired,
                    Outcome::Displaced => Fate::Displaced,
                    Outcome::ShuttingDown => Fate::SentAway,
                };
                fates.lock().entry(number).or_default().push(fate);
            })
        };
        match self.gate.enter(place, self.now, waiter) {
            Entered::Go(pass) => {
                self.passes.lock().push(pass);
                self.fates.lock().entry(number).or_default().push(Fate::Went);
            }
            Entered::Waits(waiting) => self.waiting.push((number, waiting)),
            Entered::Full(_) => self.fates.lock().entry(number).or_default().push(Fate::Refused),
        }
        self.settle();
    }

    /// A client whose request was told its fate leaves its place.
    fn settle(&mut self) {
        let fates = self.fates.lock();
        self.waiting.retain(|(number, _)| !fates.contains_key(number));
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Enter { flow, band, rank, bytes, ttl, session } => {
                self.enter(flow, band, rank, bytes, ttl, session);
            }
            Step::Release { count } => {
                let rows = self.gate.flows(self.now, MAX_FLOWS).rows;
                let ids: Vec<u32> = rows.iter().map(|row| row.id).take(count.into()).collect();
                self.gate.release(&ids);
            }
            Step::Leave(at) => {
                if !self.waiting.is_empty() {
                    let (number, waiting) = self.waiting.swap_remove(at % self.waiting.len());
                    drop(waiting);
                    self.fates.lock().entry(number).or_default().push(Fate::Cancelled);
                }
            }
            Step::Done(at) => {
                let pass = {
                    let mut passes = self.passes.lock();
                    let len = passes.len();
                    (len > 0).then(|| passes.swap_remove(at % len))
                };
                if let Some(mut pass) = pass {
                    pass.settled();
                    pass.served(10);
                }
            }
            Step::Time(by) => {
                // A clock that jumps back is no reason for anything.
                self.now = self.now.saturating_add_signed(i64::from(by) * 20);
                self.gate.expire(self.now);
            }
            Step::Saturation(saturation) => self.gate.set_saturation(saturation, 4),
            Step::Capacity(tokens) => self.gate.set_capacity(tokens.map(u64::from)),
        }
        self.settle();
    }
}

proptest! {
    /// Every request is dispatched, refused, displaced, expired, cancelled or sent away exactly once, the bounds hold,
    /// and nothing is left behind.
    #[test]
    fn every_request_has_one_fate(steps in prop::collection::vec(step(), 0..150)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
            let status = world.gate.status();
            let waiting: usize = status.waiting.iter().map(|(_, requests)| requests).sum();
            prop_assert_eq!(waiting, world.waiting.len());
            prop_assert!(waiting <= 12 && status.bytes <= 2_000 && status.tokens <= 3_000);
            prop_assert_eq!(status.running, world.passes.lock().len());
        }
        world.gate.close();
        world.settle();
        prop_assert!(world.waiting.is_empty());
        let fates = world.fates.lock().clone();
        prop_assert_eq!(fates.len(), world.count);
        prop_assert!(fates.values().all(|fates| fates.len() == 1), "{:?}", fates);
        world.passes.lock().clear();
        let status = world.gate.status();
        prop_assert_eq!((status.running, status.bytes, status.tokens, world.gate.unsettled()), (0, 0, 0, 0));
        prop_assert!(status.waiting.is_empty());
    }

    /// Whoever goes by the queue goes below its ceiling, and nobody of a lower band is shown before one of a higher.
    #[test]
    fn who_is_shown_may_go(steps in prop::collection::vec(step(), 0..80), saturation in 0.0..1.0_f32) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.gate.set_saturation(saturation, 0);
        let rows = world.gate.flows(world.now, MAX_FLOWS).rows;
        prop_assert!(rows.iter().all(|row| saturation < 0.5 + 0.1 * row.band as f32));
        prop_assert!(rows.is_sorted_by_key(|row| std::cmp::Reverse(row.band)));
    }
}
