//! Deficit round robin (Shreedhar and Varghese, 1995): each flow in turn gets a credit by its weight, and sends as long
//! as that lasts; what is left it keeps for its next turn.

use std::collections::HashMap;

use crate::select::Candidate;

/// The turns of all flows.
#[derive(Debug, Default)]
pub(crate) struct Drr {
    credits: HashMap<u32, f64>,
    /// The flow whose turn it was, and whether it may go on.
    last: Option<(u32, Left)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Left {
    /// There was no room left for what it may send.
    More,
    Nothing,
}

impl Drr {
    /// Appends the positions of the next requests of one band, until there are `most` in all.
    pub(crate) fn choose(
        &mut self,
        flows: &mut Vec<(u32, Candidate)>,
        most: usize,
        quantum: f64,
        chosen: &mut Vec<u32>,
    ) {
        flows.sort_unstable_by_key(|(id, _)| *id);
        // With less than its dearest head nobody would be served in some rounds: then a turn costs more than it says.
        let quantum = flows.iter().map(|(_, flow)| flow.share()).fold(quantum, f64::max);
        let start = self.last.map_or(0, |(last, left)| match left {
            Left::More => flows.partition_point(|(id, _)| *id < last),
            Left::Nothing => flows.partition_point(|(id, _)| *id <= last),
        });
        if !flows.is_empty() {
            let len = flows.len();
            flows.rotate_left(start % len);
        }
        while chosen.len() < most && !flows.is_empty() {
            for (id, flow) in flows.iter_mut() {
                if chosen.len() >= most {
                    break;
                }
                let goes_on = self.last == Some((*id, Left::More));
                let credit = self.credits.entry(*id).or_default();
                if !goes_on {
                    *credit += quantum;
                }
                while flow.length > 0 && *credit >= flow.share() && chosen.len() < most {
                    *credit -= flow.share();
                    flow.length -= 1;
                    chosen.push(flow.position);
                }
                let more = flow.length > 0 && *credit >= flow.share();
                self.last = Some((*id, if more { Left::More } else { Left::Nothing }));
                if flow.length == 0 {
                    self.credits.remove(id);
                }
            }
            flows.retain(|(_, flow)| flow.length > 0);
        }
    }

    /// Forgets the credits of flows that do not wait.
    pub(crate) fn keep(&mut self, waits: impl Fn(u32) -> bool) {
        self.credits.retain(|id, _| waits(*id));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn flow(position: u32, length: u32, cost: f32, weight: f32) -> (u32, Candidate) {
        let flow = Candidate { position, length, head_cost: cost, weight, ..Candidate::default() };
        (position, flow)
    }

    #[test]
    fn dear_requests_come_less_often() {
        let mut drr = Drr::default();
        let mut chosen = Vec::new();
        for _ in 0..110 {
            let mut flows = vec![flow(0, 1_000, 1_000.0, 1.0), flow(1, 1_000, 100.0, 1.0)];
            let mut one = Vec::new();
            drr.choose(&mut flows, 1, 500.0, &mut one);
            chosen.extend(one);
        }
        let dear = chosen.iter().filter(|position| **position == 0).count();
        assert_eq!(dear, 10);
    }

    proptest! {
        /// Between two flows that wait all the time, service for a weight of 1 differs by two turns at most.
        #[test]
        fn service_follows_weights(
            costs in prop::array::uniform2(1.0..3_000.0_f32), weights in prop::array::uniform2(0.2..5.0_f32), batch in 1_usize..9,
        ) {
            let mut drr = Drr::default();
            let mut served = [0.0_f64; 2];
            for _ in 0..300 {
                let mut flows: Vec<_> = (0..2_u32).map(|n| flow(n, 10_000, costs[n as usize], weights[n as usize])).collect();
                let mut chosen = Vec::new();
                drr.choose(&mut flows, batch, 2_000.0, &mut chosen);
                prop_assert_eq!(chosen.len(), batch);
                for position in chosen {
                    let n = position as usize;
                    served[n] += f64::from(costs[n]) / f64::from(weights[n]);
                }
            }
            let turn = costs.iter().zip(weights).map(|(cost, weight)| f64::from(cost / weight)).fold(2_000.0, f64::max);
            prop_assert!((served[0] - served[1]).abs() <= 2.0 * turn + 1.0, "{:?}", served);
        }
    }
}
