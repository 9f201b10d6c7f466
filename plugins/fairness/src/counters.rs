//! Virtual token counters: how much service each flow has had for its weight.

use std::collections::{HashMap, HashSet};

/// What is known of a flow.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Flow {
    /// Service had, in priced tokens for a weight of 1.
    pub(crate) served: f64,
    weight: f64,
    /// Moving average of output tokens; none before the first answer.
    pub(crate) output: Option<f32>,
    seen_ms: u64,
}

/// A flow that waits, as `select` sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) id: u32,
    pub(crate) band: i32,
    pub(crate) weight: f32,
}

/// Flows not heard of for so long are forgotten; they come back as new ones.
const FORGET_AFTER_MS: u64 = 10 * 60 * 1_000;

/// Weight of the newest answer in the moving average of output tokens.
const NEWEST: f32 = 0.1;

/// The counters of all flows.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) flows: HashMap<u32, Flow>,
    /// The greatest service that any flow has had.
    pub(crate) most: f64,
    waiting: HashSet<u32>,
    swept_ms: u64,
}

impl Counters {
    /// Adds to a flow's service, or takes off what was too much.
    pub(crate) fn charge(&mut self, id: u32, tokens: f64, now_ms: u64) {
        let most = self.most;
        let flow = self.flow(id, now_ms);
        flow.served += tokens / flow.weight;
        self.most = most.max(flow.served);
    }

    /// Takes note of how long a flow's answer was.
    pub(crate) fn answered(&mut self, id: u32, output: f32, now_ms: u64) {
        let flow = self.flow(id, now_ms);
        flow.output = Some(flow.output.map_or(output, |usual| usual + NEWEST * (output - usual)));
    }

    /// Output tokens to expect of a flow.
    pub(crate) fn expected_output(&self, id: u32) -> Option<f32> {
        self.flows.get(&id)?.output
    }

    pub(crate) fn served(&self, id: u32) -> f64 {
        self.flows.get(&id).map_or(self.most, |flow| flow.served)
    }

    /// Takes note of who waits now. Who did not wait before is lifted to the least counter of those of its band
    /// who did: nobody saves up service by staying away. A band where nobody waited had enough for all, so
    /// there all start level.
    pub(crate) fn arrive(&mut self, waiting: &[Waiting], now_ms: u64) {
        let mut least: HashMap<i32, f64> = HashMap::new();
        for flow in waiting.iter().filter(|flow| self.waiting.contains(&flow.id)) {
            let served = self.served(flow.id);
            least.entry(flow.band).and_modify(|least| *least = least.min(served)).or_insert(served);
        }
        let most = self.most;
        for one in waiting {
            let is_new = !self.waiting.contains(&one.id);
            let flow = self.flow(one.id, now_ms);
            flow.weight = f64::from(one.weight).max(f64::MIN_POSITIVE);
            if is_new {
                flow.served = flow.served.max(least.get(&one.band).copied().unwrap_or(most));
            }
        }
        self.waiting.clear();
        self.waiting.extend(waiting.iter().map(|flow| flow.id));
        self.sweep(now_ms);
    }

    fn flow(&mut self, id: u32, now_ms: u64) -> &mut Flow {
        let flow =
            self.flows.entry(id).or_insert(Flow { served: 0.0, weight: 1.0, output: None, seen_ms: now_ms });
        flow.seen_ms = now_ms;
        flow
    }

    fn sweep(&mut self, now_ms: u64) {
        if now_ms.saturating_sub(self.swept_ms) < FORGET_AFTER_MS / 10 {
            return;
        }
        self.swept_ms = now_ms;
        self.flows.retain(|_, flow| now_ms.saturating_sub(flow.seen_ms) < FORGET_AFTER_MS);
    }

    /// The counters as bytes: see [`restore`](Self::restore).
    pub(crate) fn save(&self) -> Vec<u8> {
        let mut state = Vec::with_capacity(1 + 8 + self.flows.len() * ROW);
        state.push(VERSION);
        state.extend(self.most.to_le_bytes());
        for (id, flow) in &self.flows {
            state.extend(id.to_le_bytes());
            state.extend(flow.served.to_le_bytes());
            state.extend(flow.output.unwrap_or(f32::NAN).to_le_bytes());
        }
        state
    }

    /// Takes the counters that another instance saved.
    pub(crate) fn restore(&mut self, state: &[u8], now_ms: u64) -> Result<(), String> {
        let broken = || "the saved state is cut off".to_owned();
        let (version, rest) = state.split_first().ok_or_else(broken)?;
        if *version != VERSION {
            return Err(format!("the saved state is of version {version}, this one reads {VERSION}"));
        }
        let (most, rest) = rest.split_first_chunk().ok_or_else(broken)?;
        let rows = rest.chunks(ROW).map(|row| {
            let (id, row) = row.split_first_chunk()?;
            let (served, row) = row.split_first_chunk()?;
            let (output, _) = row.split_first_chunk()?;
            let output = Some(f32::from_le_bytes(*output)).filter(|output| output.is_finite());
            let flow = Flow { served: f64::from_le_bytes(*served), weight: 1.0, output, seen_ms: now_ms };
            Some((u32::from_le_bytes(*id), flow)).filter(|(_, flow)| flow.served.is_finite())
        });
        self.flows = rows.collect::<Option<_>>().ok_or_else(broken)?;
        self.most = Some(f64::from_le_bytes(*most)).filter(|most| most.is_finite()).ok_or_else(broken)?;
        Ok(())
    }
}

const VERSION: u8 = 1;
/// Bytes of a flow: its handle, its service, its usual output.
const ROW: usize = 4 + 8 + 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(id: u32) -> Waiting {
        Waiting { id, band: 0, weight: 1.0 }
    }

    #[test]
    fn who_comes_back_starts_at_the_least_of_those_who_wait() {
        let mut counters = Counters::default();
        counters.arrive(&[waits(1), waits(2)], 0);
        counters.charge(1, 500.0, 0);
        counters.charge(2, 800.0, 0);
        counters.arrive(&[waits(1), waits(2), waits(3)], 0);
        assert_eq!(counters.served(3), 500.0);
    }

    #[test]
    fn without_contention_there_are_no_debts() {
        let mut counters = Counters::default();
        counters.charge(1, 1e6, 0);
        counters.arrive(&[waits(1), waits(2)], 0);
        assert_eq!(counters.served(1), counters.served(2));
    }

    #[test]
    fn bands_do_not_mix() {
        let mut counters = Counters::default();
        let high = |id| Waiting { band: 1, ..waits(id) };
        counters.arrive(&[waits(1), high(2)], 0);
        counters.charge(2, 1e6, 0);
        counters.arrive(&[waits(1), high(2), waits(3)], 0);
        assert_eq!(counters.served(3), counters.served(1));
    }

    #[test]
    fn a_weight_divides_service() {
        let mut counters = Counters::default();
        counters.arrive(&[Waiting { weight: 4.0, ..waits(1) }], 0);
        counters.charge(1, 100.0, 0);
        assert_eq!(counters.served(1), 25.0);
    }

    #[test]
    fn what_is_saved_comes_back() {
        let mut counters = Counters::default();
        counters.charge(7, 12.5, 0);
        counters.charge(8, 3.0, 0);
        counters.answered(7, 90.0, 0);
        let mut other = Counters::default();
        other.restore(&counters.save(), 0).unwrap();
        assert_eq!((other.flows, other.most), (counters.flows.clone(), counters.most));
    }

    #[test]
    fn a_broken_state_is_refused() {
        let mut counters = Counters::default();
        counters.charge(7, 12.5, 0);
        let state = counters.save();
        assert!(Counters::default().restore(&[], 0).is_err());
        assert!(Counters::default().restore(&[9], 0).is_err());
        assert!(Counters::default().restore(&state[..state.len() - 1], 0).is_err());
    }

    #[test]
    fn flows_are_forgotten() {
        let mut counters = Counters::default();
        counters.charge(1, 1.0, 0);
        counters.arrive(&[waits(2)], FORGET_AFTER_MS);
        assert!(!counters.flows.contains_key(&1));
    }
}
