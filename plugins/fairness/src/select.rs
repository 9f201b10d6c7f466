//! Who goes next.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use crate::drr::Drr;
use crate::place::ceiling;
use crate::{Between, Config};

/// A flow that waits.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Candidate {
    pub(crate) position: u32,
    pub(crate) band: i32,
    pub(crate) length: u32,
    pub(crate) head_age_ms: f32,
    pub(crate) head_cost: f32,
    pub(crate) weight: f32,
    /// What the rule between flows goes by: the least goes first.
    pub(crate) served: f64,
    /// It goes to the account of the newcomers of its band.
    pub(crate) is_new: bool,
    /// It has a backlog.
    pub(crate) backlog: bool,
    /// How many of it may go now, where that is bounded.
    pub(crate) at_most: Option<u32>,
}

impl Candidate {
    /// Tokens of the head for a weight of 1.
    pub(crate) fn share(&self) -> f64 {
        f64::from(self.head_cost.max(1.0)) / f64::from(self.weight.max(f32::MIN_POSITIVE))
    }

    /// Where its counter will be when its head has gone: two that have had the same go by what they ask for.
    fn then(&self) -> f64 {
        self.served + self.share()
    }

    /// Whether it goes before another of its band.
    fn before(&self, other: &Self, between: Between) -> Ordering {
        let (one, other_one) = match between {
            Between::Vtc => (self.then(), other.then()),
            _ => (self.served, other.served),
        };
        let least = other_one.total_cmp(&one);
        let oldest = self.head_age_ms.total_cmp(&other.head_age_ms);
        least.then(oldest).then(other.position.cmp(&self.position))
    }
}

/// The order of choice: the greatest goes first.
#[derive(Debug, Clone, Copy)]
struct Turn {
    flow: Candidate,
    between: Between,
}

impl Ord for Turn {
    fn cmp(&self, other: &Self) -> Ordering {
        self.flow.band.cmp(&other.flow.band).then_with(|| self.flow.before(&other.flow, self.between))
    }
}

impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Turn {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Turn {}

/// What a band's flows are chosen by, beside what is known of each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Terms {
    /// Where the newcomers' account stands, and what it weighs.
    pub(crate) newcomers: (f64, f64),
    /// Share of the pool that is kept free of flows with a backlog.
    pub(crate) kept_free: f32,
}

impl Default for Terms {
    fn default() -> Self {
        Self { newcomers: (0.0, 1.0), kept_free: 0.0 }
    }
}

/// The newcomers of a band: one of them at a time stands among the other flows.
#[derive(Debug, Default)]
struct Queue {
    rest: BinaryHeap<Turn>,
    served: f64,
    weight: f64,
}

impl Queue {
    fn next(&mut self) -> Option<Turn> {
        let mut turn = self.rest.pop()?;
        turn.flow.served = turn.flow.served.max(self.served);
        Some(turn)
    }
}

/// Appends to `chosen` the positions to serve next, in order: at most `count` in all, and of each band at most as many
/// as there are endpoints below its ceiling.
pub(crate) fn select(
    flows: impl IntoIterator<Item = Candidate>,
    saturations: &[f32],
    count: usize,
    mut chosen: Vec<u32>,
    terms: &HashMap<i32, Terms>,
    config: &Config,
) -> Vec<u32> {
    let between = config.between;
    let terms = |band: i32| terms.get(&band).copied().unwrap_or_default();
    let mut turns = BinaryHeap::new();
    let mut newcomers: HashMap<i32, Queue> = HashMap::new();
    for flow in flows.into_iter().filter(|flow| flow.length > 0) {
        if flow.is_new && between == Between::Vtc {
            let (served, weight) = terms(flow.band).newcomers;
            let queue = newcomers.entry(flow.band).or_insert(Queue { served, weight, ..Queue::default() });
            queue.rest.push(Turn { flow, between });
        } else {
            turns.push(Turn { flow, between });
        }
    }
    turns.extend(newcomers.values_mut().filter_map(Queue::next));
    let mut left = Kept::default();
    let mut last = turns.iter().map(|turn| turn.flow.served).fold(0.0, f64::max);
    while chosen.len() < count {
        let Some(Turn { mut flow, .. }) = turns.pop() else { break };
        let ceiling = ceiling(flow.band, config);
        let is_full =
            |ceiling: f32| chosen.len() >= saturations.iter().filter(|full| **full < ceiling).count();
        // Ceilings fall with the band: if there is no room for this one there is none for those that follow.
        if is_full(ceiling.min(left.above(flow.band))) {
            break;
        }
        let kept = ceiling * (1.0 - terms(flow.band).kept_free);
        let goes = match flow.at_most {
            Some(0) => {
                left.keeps(0.0);
                false
            }
            _ if flow.backlog && is_full(kept) => {
                left.keeps(kept);
                false
            }
            _ => true,
        };
        if goes {
            chosen.push(flow.position);
            flow.length -= 1;
            flow.at_most = flow.at_most.map(|most| most - 1);
        }
        let queue = newcomers.get_mut(&flow.band).filter(|_| flow.is_new);
        if let Some(queue) = queue {
            if goes {
                queue.served = flow.served + f64::from(flow.head_cost.max(1.0)) / queue.weight;
            }
            flow.served += flow.share();
            flow.head_age_ms = 0.0;
            if goes && flow.length > 0 {
                queue.rest.push(Turn { flow, between });
            }
            turns.extend(queue.next());
            continue;
        }
        if !goes || flow.length == 0 {
            continue;
        }
        flow.served = match between {
            Between::Vtc | Between::Las | Between::Drr => flow.served + flow.share(),
            // Behind all others, and the others before it stay in their order.
            Between::RoundRobin => behind(&mut last),
            Between::Fcfs => flow.served,
        };
        // The next of the flow has waited no longer than its head; it has to earn its age by itself.
        flow.head_age_ms = 0.0;
        turns.push(Turn { flow, between });
    }
    chosen
}

/// What is kept free in a band is not for those below it.
struct Kept {
    band: i32,
    here: f32,
    above: f32,
}

impl Default for Kept {
    fn default() -> Self {
        Self { band: i32::MAX, here: f32::INFINITY, above: f32::INFINITY }
    }
}

impl Kept {
    /// How full the pool may be for this band, as far as those above it say. Bands come from the top.
    fn above(&mut self, band: i32) -> f32 {
        if band < self.band {
            self.band = band;
            self.above = self.above.min(self.here);
            self.here = f32::INFINITY;
        }
        self.above
    }

    /// Somebody of the band stays behind, so that the pool is no fuller than this.
    fn keeps(&mut self, saturation: f32) {
        self.here = self.here.min(saturation);
    }
}

fn behind(last: &mut f64) -> f64 {
    *last += 1.0;
    *last
}

/// The same under deficit round robin: bands in order, and in each the flows in turn.
pub(crate) fn select_by_turns(
    flows: impl IntoIterator<Item = (u32, Candidate)>,
    saturations: &[f32],
    count: usize,
    mut chosen: Vec<u32>,
    drr: &mut Drr,
    config: &Config,
) -> Vec<u32> {
    let mut bands: BTreeMap<Reverse<i32>, Vec<(u32, Candidate)>> = BTreeMap::new();
    for (id, flow) in flows.into_iter().filter(|(_, flow)| flow.length > 0) {
        bands.entry(Reverse(flow.band)).or_default().push((id, flow));
    }
    for (Reverse(band), mut flows) in bands {
        let ceiling = ceiling(band, config);
        let free = saturations.iter().filter(|full| **full < ceiling).count();
        drr.choose(&mut flows, count.min(free), f64::from(config.quantum), &mut chosen);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn flow(position: u32) -> Candidate {
        Candidate { position, length: 1, head_cost: 100.0, weight: 1.0, ..Candidate::default() }
    }

    fn chosen(flows: impl IntoIterator<Item = Candidate>, count: usize) -> Vec<u32> {
        select(flows, &vec![0.0; count], count, Vec::new(), &HashMap::new(), &Config::default())
    }

    #[test]
    fn a_higher_band_goes_first() {
        let flows = [flow(0), Candidate { band: 1, served: 1e9, ..flow(1) }];
        assert_eq!(chosen(flows, 2), [1, 0]);
    }

    #[test]
    fn in_a_band_the_least_served_goes_first() {
        let flows = [Candidate { served: 10.0, ..flow(0) }, flow(1), Candidate { served: 5.0, ..flow(2) }];
        assert_eq!(chosen(flows, 3), [1, 2, 0]);
    }

    #[test]
    fn a_batch_is_shared_by_weight() {
        let flows = [
            Candidate { length: 100, weight: 3.0, ..flow(0) },
            Candidate { length: 100, weight: 1.0, ..flow(1) },
        ];
        let chosen = chosen(flows, 40);
        let shares = chosen.iter().filter(|position| **position == 0).count();
        assert!((29..=31).contains(&shares), "{shares}");
    }

    #[test]
    fn each_in_turn_and_who_came_first() {
        let flows = || {
            [Candidate { length: 3, served: 5.0, ..flow(0) }, Candidate { length: 3, served: 2.0, ..flow(1) }]
        };
        let by = |between, flows: [Candidate; 2]| {
            select(flows, &[0.0; 4], 4, Vec::new(), &HashMap::new(), &Config { between, ..Config::default() })
        };
        assert_eq!(by(Between::RoundRobin, flows()), [1, 0, 1, 0]);
        let old = flows().map(|flow| Candidate { served: 0.0, head_age_ms: flow.served as f32, ..flow });
        assert_eq!(by(Between::Fcfs, old)[0], 0);
    }

    #[test]
    fn newcomers_share_an_account() {
        let known = [Candidate { length: 100, ..flow(0) }, Candidate { length: 100, ..flow(1) }];
        let new = (2..102).map(|position| Candidate { is_new: true, ..flow(position) });
        let terms = HashMap::from([(0, Terms { newcomers: (0.0, 2.0), ..Terms::default() })]);
        let chosen =
            select(known.into_iter().chain(new), &[0.0; 40], 40, Vec::new(), &terms, &Config::default());
        let new = chosen.iter().filter(|position| **position >= 2).count();
        assert!((19..=21).contains(&new), "{new}");
        let unique: std::collections::HashSet<_> = chosen.iter().filter(|position| **position >= 2).collect();
        assert_eq!(unique.len(), new);
    }

    #[test]
    fn room_is_kept_free_of_those_with_a_backlog() {
        let flows =
            || [Candidate { length: 9, backlog: true, ..flow(0) }, Candidate { served: 1e6, ..flow(1) }];
        let terms = HashMap::from([(0, Terms { kept_free: 0.2, ..Terms::default() })]);
        let at = |full: f32| select(flows(), &[full; 4], 4, Vec::new(), &terms, &Config::default());
        assert_eq!((at(0.7), at(0.8)), (vec![0, 0, 0, 0], vec![1]));
    }

    #[test]
    fn what_is_kept_free_is_not_for_lower_bands() {
        let low = Candidate { band: -1, ..flow(1) };
        let terms = HashMap::from([(0, Terms { kept_free: 0.5, ..Terms::default() })]);
        let chosen = |high: Candidate, full: f32| {
            select([high, low], &[full; 4], 4, Vec::new(), &terms, &Config::default())
        };
        let backlog = Candidate { backlog: true, ..flow(0) };
        assert_eq!((chosen(backlog, 0.4), chosen(backlog, 0.5)), (vec![0, 1], vec![]));
        assert_eq!(chosen(Candidate { at_most: Some(0), ..flow(0) }, 0.0), [0; 0]);
        assert_eq!(chosen(Candidate { at_most: Some(1), length: 3, ..flow(0) }, 0.0), [0]);
        assert_eq!(chosen(flow(0), 0.5), [0, 1]);
    }

    #[test]
    fn a_full_pool_keeps_low_bands_waiting() {
        let flows = || [flow(0), Candidate { band: -2, ..flow(1) }];
        let at = |full: f32| select(flows(), &[full; 4], 4, Vec::new(), &HashMap::new(), &Config::default());
        assert_eq!(at(0.5), [0, 1]);
        assert_eq!(at(0.8), [0]);
        assert!(at(1.0).is_empty());
    }

    #[test]
    fn no_more_go_than_endpoints_have_room() {
        let flows = [Candidate { length: 9, ..flow(0) }];
        assert_eq!(
            select(flows, &[0.0, 1.0, 0.2, 1.0], 9, Vec::new(), &HashMap::new(), &Config::default()),
            [0, 0]
        );
    }

    prop_compose! {
        fn waiting()(rows in prop::collection::vec(
            (-3_i32..3, 0_u32..4, 0.0..60_000.0_f32, 0.0..1e4_f32, 0.1..10.0_f32, 0.0..1e6_f64), 0..40,
        )) -> Vec<Candidate> {
            let rows = rows.into_iter().enumerate();
            rows.map(|(position, (band, length, head_age_ms, head_cost, weight, served))| Candidate {
                position: u32::try_from(position).unwrap(), band, length, head_age_ms, head_cost, weight, served, ..Candidate::default()
            }).collect()
        }
    }

    proptest! {
        #[test]
        fn nobody_goes_more_often_than_it_waits(
            flows in waiting(), full in prop::collection::vec(0.0..1.0_f32, 0..30), count in 0_usize..40,
        ) {
            let chosen = select(flows.clone(), &full, count, Vec::new(), &HashMap::new(), &Config::default());
            prop_assert!(chosen.len() <= count.min(full.len()));
            for flow in flows {
                let times = chosen.iter().filter(|position| **position == flow.position).count();
                prop_assert!(times <= flow.length as usize);
            }
        }

        #[test]
        fn an_idle_pool_is_used(flows in waiting(), count in 1_usize..40) {
            let waiting: usize = flows.iter().map(|flow| flow.length as usize).sum();
            let chosen = select(flows, &vec![0.0; count], count, Vec::new(), &HashMap::new(), &Config::default());
            prop_assert_eq!(chosen.len(), count.min(waiting));
        }
    }
}
