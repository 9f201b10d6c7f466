//! Requests of lower bands that have waited for long: a small share of what goes is theirs, so that strict bands starve
//! nobody and stay strict otherwise.

use crate::Config;
use crate::place::ceiling;
use crate::select::Candidate;

/// What late requests have to come.
#[derive(Debug, Default)]
pub(crate) struct Late {
    credit: f64,
}

impl Late {
    /// The position among `flows` of one whose head goes before all others, if it is the turn of the late.
    pub(crate) fn take(
        &mut self,
        flows: &mut [Candidate],
        saturations: &[f32],
        config: &Config,
    ) -> Option<u32> {
        if self.credit < 1.0 - 1e-9 || config.band_age_ms <= 0.0 {
            return None;
        }
        let top = flows.iter().map(|flow| flow.band).max()?;
        let has_room = |flow: &Candidate| {
            let ceiling = ceiling(flow.band, config);
            saturations.iter().any(|full| *full < ceiling)
        };
        let late = flows.iter_mut().filter(|flow| {
            flow.band < top && flow.length > 0 && flow.head_age_ms >= config.band_age_ms && has_room(flow)
        });
        let flow = late.max_by(|a, b| a.head_age_ms.total_cmp(&b.head_age_ms))?;
        self.credit -= 1.0;
        flow.length -= 1;
        flow.head_age_ms = 0.0;
        Some(flow.position)
    }

    /// So many requests went.
    #[expect(clippy::cast_precision_loss, reason = "a number of requests")]
    pub(crate) fn went(&mut self, requests: usize, config: &Config) {
        self.credit = (self.credit + requests as f64 * config.late_share).min(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(position: u32, band: i32, head_age_ms: f32) -> Candidate {
        Candidate {
            position,
            band,
            length: 1_000,
            head_age_ms,
            head_cost: 1.0,
            weight: 1.0,
            ..Candidate::default()
        }
    }

    #[test]
    fn a_tenth_of_what_goes_is_for_the_late_of_lower_bands() {
        let config = Config::default();
        let mut late = Late::default();
        let mut went = 0;
        for _ in 0..1_000 {
            let mut flows =
                [flow(0, 1, 60_000.0), flow(1, 0, 20_000.0), flow(2, 0, 30_000.0), flow(3, 0, 9.0)];
            if let Some(position) = late.take(&mut flows, &[0.0], &config) {
                assert_eq!((position, flows[2].length), (2, 999));
                went += 1;
            }
            late.went(1, &config);
        }
        assert!((95..=101).contains(&went), "{went}");
    }

    #[test]
    fn nobody_is_late_in_the_highest_band_or_above_its_ceiling() {
        let mut late = Late { credit: 1.0 };
        assert_eq!(late.take(&mut [flow(0, 0, 1e6)], &[0.0], &Config::default()), None);
        let mut flows = [flow(0, 0, 0.0), flow(1, -5, 1e6)];
        assert_eq!(late.take(&mut flows, &[0.5], &Config::default()), None);
        assert_eq!(late.take(&mut flows, &[0.2], &Config::default()), Some(1));
    }
}
