//! From counters that engines keep since they started to what happened in between.

use std::collections::HashMap;

use crate::types::EndpointId;

/// The latest reading of each endpoint's counter.
#[derive(Debug, Default)]
pub(super) struct Engines(HashMap<EndpointId, f32>);

impl Engines {
    /// By how much the counters have grown since they were read last; none while none of them is known. The first
    /// reading of an endpoint is where it starts. A counter that has fallen is of an engine that was restarted and
    /// has counted from 0 again. Endpoints that are not named any more are forgotten.
    pub(super) fn read(&mut self, counters: impl IntoIterator<Item = (EndpointId, f32)>) -> Option<f64> {
        let before = std::mem::take(&mut self.0);
        let mut new = 0.0;
        for (endpoint, counter) in counters {
            let last = before.get(&endpoint).copied();
            if counter.is_finite()
                && let Some(last) = last
            {
                let since = if counter < last { 0.0 } else { last };
                new += f64::from(counter - since).max(0.0);
            }
            if let Some(known) = Some(counter).filter(|counter| counter.is_finite()).or(last) {
                self.0.insert(endpoint, known);
            }
        }
        (!self.0.is_empty()).then_some(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(engines: &mut Engines, counters: &[f32]) -> Option<f64> {
        engines.read((0..).map(EndpointId).zip(counters.iter().copied()))
    }

    #[test]
    fn what_is_new_is_counted_and_never_less_than_nothing() {
        let mut engines = Engines::default();
        assert_eq!(read(&mut engines, &[f32::NAN, f32::NAN]), None);
        assert_eq!(read(&mut engines, &[1_000.0, f32::NAN]), Some(0.0), "a first reading is a start");
        assert_eq!(read(&mut engines, &[1_003.0, 500.0]), Some(3.0));
        assert_eq!(read(&mut engines, &[2.0, 501.0]), Some(3.0), "the first one was restarted");
        assert_eq!(read(&mut engines, &[f32::NAN, 501.0]), Some(0.0));
        assert_eq!(read(&mut engines, &[4.0, 501.0]), Some(2.0), "a gap loses nothing");
        assert_eq!(read(&mut engines, &[]), None);
        assert_eq!(read(&mut engines, &[9.0]), Some(0.0), "it was gone");
    }
}
