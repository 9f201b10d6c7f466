//! Over how many endpoints requests are spread.
//!
//! Of each second a bounded random sample of (endpoint, session) is kept, so that memory depends neither on the
//! size of the pool nor on the rate. Two things are read from it: shares of requests, for people, and counts of
//! *units*. A unit is a session at an endpoint, however often it came there; a request without a session is one of
//! its own. Requests of one session go to one endpoint for good reasons and say together no more than one of them
//! about where a policy sends traffic.

use crate::types::EndpointId;

/// Requests of one second that are kept.
const SAMPLED: usize = 128;

/// Requests of one second by endpoint and session: all of them, or a sample in which each is as likely.
#[derive(Debug, Clone, Default)]
pub(super) struct Sampled {
    kept: Vec<(EndpointId, u32)>,
    seen: u64,
}

impl Sampled {
    /// Takes a request in; `random` is a fresh random number. Which request makes room is algorithm R's choice
    /// (Vitter, "Random Sampling with a Reservoir", ACM TOMS 11, 1985).
    pub(super) fn add(&mut self, endpoint: EndpointId, session: u64, random: u64) {
        // Half of the hash is enough to tell sessions of a few minutes apart; 0 stays "no session".
        let session = u32::try_from(session >> 32).unwrap_or_default().max(u32::from(session != 0));
        self.seen += 1;
        if self.kept.len() < SAMPLED {
            self.kept.push((endpoint, session));
            return;
        }
        let place = random.checked_rem(self.seen).and_then(|place| usize::try_from(place).ok());
        if let Some(kept) = place.and_then(|place| self.kept.get_mut(place)) {
            *kept = (endpoint, session);
        }
    }

    pub(super) fn kept(&self) -> &[(EndpointId, u32)] {
        &self.kept
    }
}

/// How many of the busiest endpoints [`Spread::busiest`] takes together.
pub const BUSIEST: [u32; 4] = [1, 2, 4, 8];

/// How requests were spread over endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spread {
    /// Requests that this was read from.
    pub requests: u32,
    /// Share of the endpoint with the most requests, 0..=1.
    pub top_share: f32,
    /// 1 / Σ share²: as many endpoints with equal shares would be as concentrated; 0 without requests.
    pub effective_endpoints: f32,
    /// Endpoints that got any.
    pub endpoints: u32,
    /// Sessions, each request without one counted as one.
    pub sessions: u32,
    /// Sessions at endpoints, each request without a session counted as one.
    pub units: u32,
    /// Units at the 1, 2, 4 and 8 endpoints that have the most of them ([`BUSIEST`]).
    pub busiest: [u32; 4],
}

impl Spread {
    pub(super) fn of(mut sampled: Vec<(EndpointId, u32)>) -> Self {
        sampled.sort_unstable();
        let requests = count(sampled.len());
        let mut squares = 0.0;
        let mut top: usize = 0;
        let mut units = Vec::new();
        for at_one in sampled.chunk_by(|a, b| a.0 == b.0) {
            top = top.max(at_one.len());
            squares += f64::from(count(at_one.len())).powi(2);
            units.push(count(at_one.chunk_by(|a, b| a.1 == b.1 && a.1 != 0).count()));
        }
        units.sort_unstable_by(|a, b| b.cmp(a));
        let mut sessions: Vec<u32> = sampled.iter().map(|(_, session)| *session).collect();
        sessions.sort_unstable();
        let busiest = BUSIEST.map(|many| units.iter().zip(0..many).map(|(units, _)| units).sum());
        Self {
            requests,
            top_share: share(f64::from(count(top)), f64::from(requests)),
            effective_endpoints: share(f64::from(requests).powi(2), squares),
            endpoints: count(units.len()),
            sessions: count(sessions.chunk_by(|a, b| a == b && *a != 0).count()),
            units: units.iter().sum(),
            busiest,
        }
    }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[expect(clippy::cast_possible_truncation, reason = "shown to people")]
fn share(part: f64, of: f64) -> f32 {
    if of > 0.0 { (part / of) as f32 } else { 0.0 }
}
