//! Who goes next.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::Config;
use crate::place::ceiling;

/// A flow that waits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) position: u32,
    pub(crate) band: i32,
    pub(crate) length: u32,
    pub(crate) head_age_ms: f32,
    pub(crate) head_cost: f32,
    pub(crate) weight: f32,
    pub(crate) served: f64,
}

/// The order of choice: the greatest goes first.
#[derive(Debug, Clone, Copy)]
struct Turn {
    band: i32,
    flow: Candidate,
}

impl Ord for Turn {
    fn cmp(&self, other: &Self) -> Ordering {
        let least = other.flow.served.total_cmp(&self.flow.served);
        let oldest = self.flow.head_age_ms.total_cmp(&other.flow.head_age_ms);
        let first = other.flow.position.cmp(&self.flow.position);
        self.band.cmp(&other.band).then(least).then(oldest).then(first)
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

/// Positions to serve next, in order: at most `count`, and of each band at most as many as there are endpoints
/// below its ceiling.
pub(crate) fn select(
    flows: impl IntoIterator<Item = Candidate>,
    saturations: &[f32],
    count: usize,
    config: &Config,
) -> Vec<u32> {
    let turns = flows.into_iter().filter(|flow| flow.length > 0);
    let mut turns: BinaryHeap<Turn> = turns.map(|flow| Turn { band: aged(&flow, config), flow }).collect();
    let mut chosen = Vec::with_capacity(count.min(saturations.len()));
    while chosen.len() < count {
        let Some(Turn { band, mut flow }) = turns.pop() else { break };
        let ceiling = ceiling(band, config);
        // Ceilings fall with the band: if there is no room for this one there is none for those that follow.
        if chosen.len() >= saturations.iter().filter(|full| **full < ceiling).count() {
            break;
        }
        chosen.push(flow.position);
        flow.length -= 1;
        flow.served += f64::from(flow.head_cost.max(1.0)) / f64::from(flow.weight.max(f32::MIN_POSITIVE));
        // The next of the flow has waited no longer than its head; it has to earn its age by itself.
        flow.head_age_ms = 0.0;
        if flow.length > 0 {
            turns.push(Turn { band: aged(&flow, config), flow });
        }
    }
    chosen
}

/// The band that a flow counts as: one more for each span that its head has waited.
#[expect(clippy::cast_possible_truncation, reason = "a cast saturates, and no head waits so long")]
fn aged(flow: &Candidate, config: &Config) -> i32 {
    if config.band_age_ms <= 0.0 {
        return flow.band;
    }
    flow.band.saturating_add((flow.head_age_ms / config.band_age_ms) as i32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn flow(position: u32) -> Candidate {
        Candidate {
            position,
            band: 0,
            length: 1,
            head_age_ms: 0.0,
            head_cost: 100.0,
            weight: 1.0,
            served: 0.0,
        }
    }

    fn chosen(flows: impl IntoIterator<Item = Candidate>, count: usize) -> Vec<u32> {
        select(flows, &vec![0.0; count], count, &Config::default())
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
    fn age_lifts_a_band() {
        let flows = [Candidate { band: 1, ..flow(0) }, Candidate { head_age_ms: 25_000.0, ..flow(1) }];
        assert_eq!(chosen(flows, 2), [1, 0]);
    }

    #[test]
    fn a_full_pool_keeps_low_bands_waiting() {
        let flows = || [flow(0), Candidate { band: -2, ..flow(1) }];
        let at = |full: f32| select(flows(), &[full; 4], 4, &Config::default());
        assert_eq!(at(0.5), [0, 1]);
        assert_eq!(at(0.8), [0]);
        assert!(at(1.0).is_empty());
    }

    #[test]
    fn no_more_go_than_endpoints_have_room() {
        let flows = [Candidate { length: 9, ..flow(0) }];
        assert_eq!(select(flows, &[0.0, 1.0, 0.2, 1.0], 9, &Config::default()), [0, 0]);
    }

    prop_compose! {
        fn waiting()(rows in prop::collection::vec(
            (-3_i32..3, 0_u32..4, 0.0..60_000.0_f32, 0.0..1e4_f32, 0.1..10.0_f32, 0.0..1e6_f64), 0..40,
        )) -> Vec<Candidate> {
            let rows = rows.into_iter().enumerate();
            rows.map(|(position, (band, length, head_age_ms, head_cost, weight, served))| Candidate {
                position: u32::try_from(position).unwrap(), band, length, head_age_ms, head_cost, weight, served,
            }).collect()
        }
    }

    proptest! {
        #[test]
        fn nobody_goes_more_often_than_it_waits(
            flows in waiting(), full in prop::collection::vec(0.0..1.0_f32, 0..30), count in 0_usize..40,
        ) {
            let chosen = select(flows.clone(), &full, count, &Config::default());
            prop_assert!(chosen.len() <= count.min(full.len()));
            for flow in flows {
                let times = chosen.iter().filter(|position| **position == flow.position).count();
                prop_assert!(times <= flow.length as usize);
            }
        }

        #[test]
        fn an_idle_pool_is_used(flows in waiting(), count in 1_usize..40) {
            let waiting: usize = flows.iter().map(|flow| flow.length as usize).sum();
            let chosen = select(flows, &vec![0.0; count], count, &Config::default());
            prop_assert_eq!(chosen.len(), count.min(waiting));
        }
    }
}
