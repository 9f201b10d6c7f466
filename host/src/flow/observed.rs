//! What flows have had, for metrics.
//!
//! The first [`LINES`] flows of a pool have lines of their own; all others share one, so that names made up by clients
//! cannot fill the memory.

use std::collections::HashMap;
use std::sync::Arc;

use crate::clock::{Nanos, SECOND};

/// Flows that have a line of their own.
const LINES: usize = 64;
/// Under which name the others count.
const OTHERS: &str = "(others)";

/// What a flow has had since the start.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowLine {
    /// Its name; empty for the default flow.
    pub flow: Arc<str>,
    /// Its band.
    pub band: i32,
    /// Requests that went.
    pub requests: u64,
    /// Seconds that they waited.
    pub waited_s: f64,
    /// Tokens that they used.
    pub tokens: u64,
}

/// The lines of a pool.
#[derive(Debug, Default)]
pub(super) struct Observed {
    lines: Vec<FlowLine>,
    by_flow: HashMap<(i32, Arc<str>), usize>,
}

impl Observed {
    #[expect(clippy::cast_precision_loss, reason = "a duration")]
    pub(super) fn went(&mut self, band: i32, flow: &Arc<str>, waited: Nanos) {
        if let Some(line) = self.line(band, flow) {
            line.requests += 1;
            line.waited_s += waited as f64 / SECOND as f64;
        }
    }

    pub(super) fn served(&mut self, band: i32, flow: &Arc<str>, tokens: u64) {
        if let Some(line) = self.line(band, flow) {
            line.tokens += tokens;
        }
    }

    pub(super) fn lines(&self) -> Vec<FlowLine> {
        self.lines.clone()
    }

    fn line(&mut self, band: i32, flow: &Arc<str>) -> Option<&mut FlowLine> {
        if let Some(at) = self.by_flow.get(&(band, Arc::clone(flow))) {
            return self.lines.get_mut(*at);
        }
        let room = self.lines.len() < LINES;
        let (flow, band) = if room { (Arc::clone(flow), band) } else { (Arc::from(OTHERS), 0) };
        let lines = &mut self.lines;
        let at = *self.by_flow.entry((band, Arc::clone(&flow))).or_insert_with(|| {
            lines.push(FlowLine { flow, band, requests: 0, waited_s: 0.0, tokens: 0 });
            lines.len() - 1
        });
        lines.get_mut(at)
    }
}

/// Jain's index of shares: 1 where all are equal, 1/n where one of n has everything; 1 for none.
#[must_use]
pub fn jain(shares: impl IntoIterator<Item = f64>) -> f64 {
    let sums = shares
        .into_iter()
        .fold((0_u32, 0.0, 0.0), |(n, sum, squares), share| (n + 1, sum + share, squares + share * share));
    match sums {
        (n, sum, squares) if squares > 0.0 => sum * sum / (f64::from(n) * squares),
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_beyond_the_bound_share_a_line() {
        let mut observed = Observed::default();
        for flow in 0..LINES + 100 {
            observed.went(0, &Arc::from(flow.to_string()), SECOND);
        }
        let lines = observed.lines();
        assert_eq!(lines.len(), LINES + 1);
        assert_eq!((&*lines[LINES].flow, lines[LINES].requests, lines[LINES].waited_s), (OTHERS, 100, 100.0));
    }

    #[test]
    fn the_index_is_one_for_equal_shares_and_falls_with_their_difference() {
        assert!((jain([2.0, 2.0, 2.0]) - 1.0).abs() < 1e-9);
        assert!((jain([9.0, 0.0, 0.0]) - 1.0 / 3.0).abs() < 1e-9);
        assert!((jain([]) - 1.0).abs() < 1e-9);
    }
}
