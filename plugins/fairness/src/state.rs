//! The counters as bytes, for whoever comes after.

use std::collections::HashMap;

use crate::band::Band;
use crate::counters::{Counters, Flow};

const VERSION: u8 = 3;

impl Counters {
    /// The counters as bytes: see [`restore`](Self::restore).
    pub(crate) fn save(&self) -> Vec<u8> {
        let mut state = vec![VERSION];
        state.extend(self.most.to_le_bytes());
        state.extend(u32::try_from(self.bands.len()).unwrap_or(u32::MAX).to_le_bytes());
        for (band, known) in &self.bands {
            state.extend(band.to_le_bytes());
            state.extend(known.time.now().to_le_bytes());
            state.extend(known.newcomers.served.to_le_bytes());
        }
        for (id, flow) in &self.flows {
            state.extend(id.to_le_bytes());
            state.extend(flow.band.unwrap_or(i32::MIN).to_le_bytes());
            state.extend(flow.served.to_le_bytes());
            state.extend(flow.attained.to_le_bytes());
            state.extend(flow.output.unwrap_or(f32::NAN).to_le_bytes());
            state.push(flow.sent);
            state.push(u8::from(self.waiting.contains(id)));
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
        let read = Read(rest).all(now_ms).ok_or_else(broken)?;
        self.most = read.most;
        self.bands = read.bands;
        self.waiting = read.flows.iter().filter(|(_, _, waits)| *waits).map(|(id, ..)| *id).collect();
        self.flows = read.flows.into_iter().map(|(id, flow, _)| (id, flow)).collect();
        Ok(())
    }
}

/// What was saved: flows with their handles, and whether they waited.
struct Saved {
    most: f64,
    bands: HashMap<i32, Band>,
    flows: Vec<(u32, Flow, bool)>,
}

/// What is left to be read.
struct Read<'a>(&'a [u8]);

impl Read<'_> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    /// A number that is one.
    fn number(&mut self) -> Option<f64> {
        self.bytes().map(f64::from_le_bytes).filter(|number| number.is_finite())
    }

    fn all(mut self, now_ms: u64) -> Option<Saved> {
        let most = self.number()?;
        let count = u32::from_le_bytes(self.bytes()?);
        let mut bands = HashMap::new();
        for _ in 0..count {
            let band = i32::from_le_bytes(self.bytes()?);
            let mut known = Band::restored(self.number()?, now_ms);
            known.newcomers.served = self.number()?;
            bands.insert(band, known);
        }
        let mut flows = Vec::new();
        while !self.0.is_empty() {
            flows.push(self.flow(now_ms)?);
        }
        Some(Saved { most, bands, flows })
    }

    fn flow(&mut self, now_ms: u64) -> Option<(u32, Flow, bool)> {
        let id = u32::from_le_bytes(self.bytes()?);
        let band = Some(i32::from_le_bytes(self.bytes()?)).filter(|band| *band != i32::MIN);
        let (served, attained) = (self.number()?, self.number()?);
        let output = Some(f32::from_le_bytes(self.bytes()?)).filter(|output| output.is_finite());
        let [sent, waits] = self.bytes()?;
        Some((id, Flow { band, served, attained, output, sent, ..Flow::new(now_ms) }, waits > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Waiting;

    #[test]
    fn what_is_saved_comes_back() {
        let mut counters = Counters::default();
        let waits = |id| Waiting { id, band: 2, weight: 1.0, is_old: false };
        counters.arrive(&[waits(7), waits(8)], 0);
        counters.sent(7, None, 12.5, 0);
        counters.answered(7, 90.0, 0);
        for flow in counters.flows.values_mut() {
            (flow.light, flow.running) = (crate::light::Light::default(), 0);
        }
        let mut other = Counters::default();
        other.restore(&counters.save(), 0).unwrap();
        assert_eq!((&other.flows, other.most), (&counters.flows, counters.most));
        assert_eq!(other.waiting, counters.waiting);
        // Who waited before waits on, with the difference between them.
        other.arrive(&[waits(7), waits(8)], 10);
        assert_eq!(other.served(7) - other.served(8), 12.5);
    }

    #[test]
    fn a_broken_state_is_refused() {
        let mut counters = Counters::default();
        counters.sent(7, None, 12.5, 0);
        let state = counters.save();
        assert!(Counters::default().restore(&[], 0).is_err());
        assert!(Counters::default().restore(&[9], 0).is_err());
        assert!(Counters::default().restore(&state[..state.len() - 1], 0).is_err());
        assert!(Counters::default().restore(&[&state[..], &[0; 5]].concat(), 0).is_err());
    }
}
