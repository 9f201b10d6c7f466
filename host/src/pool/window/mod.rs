//! The last five minutes of a pool, by arm of an experiment.
//!
//! Told once when a request arrives and once when it has ended ([`Windows::note`]), under a short lock. A request
//! counts in the second in which it *arrived*, so that two arms that are compared from some moment on hold requests
//! of the same time and none from before: how long their answers take shifts neither side.
//!
//! Memory is bounded: [`MAX_ARMS`] arms of [`KEPT`] each, with a bounded sample of where requests went. A candidate's
//! arm that is over the bound takes the place of the one not heard of for longest.

mod engines;
mod histogram;
mod ring;
mod spread;
mod summary;
#[cfg(test)]
mod tests;

use parking_lot::Mutex;

use self::engines::Engines;
use self::histogram::Bucket;
use self::ring::Ring;
use self::spread::Sampled;
use crate::clock::{Nanos, SECOND};
use crate::types::{Arm, EndpointId};

pub use histogram::Histogram;
pub use spread::{BUSIEST, Spread};
pub use summary::{EndedCounts, Hits, Pulse, Summary};

/// How far back a window reaches.
pub const KEPT: Nanos = 300 * SECOND;

/// Arms that are kept apart.
pub const MAX_ARMS: usize = 8;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// An engine answered it.
    Answered,
    /// The engine found fault with the client (4xx).
    ClientError,
    /// No answer, 5xx, or an answer that broke off.
    Failed,
    /// It was refused here.
    Refused,
    /// The client went away.
    Cancelled,
}

/// One request that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// When it arrived.
    pub at: Nanos,
    /// Where the policies sent it, which need not be where it was served after all; none when it was sent nowhere.
    pub endpoint: Option<EndpointId>,
    /// Hash of its session; 0 for none.
    pub session: u64,
    /// How it ended.
    pub ended: Ended,
    /// From its arrival to the first token of its answer; none when there was no stream of tokens.
    pub ttft: Option<Nanos>,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Those that the engine found in its cache; none when it did not say.
    pub cached_tokens: Option<u32>,
}

/// Statistics of a pool's last minutes.
#[derive(Debug, Default)]
pub struct Windows {
    arms: Mutex<Arms>,
    arrivals: Mutex<Arrivals>,
    engines: Mutex<Engines>,
}

#[derive(Debug, Default)]
struct Arms {
    arms: Vec<Window>,
    random: u64,
}

#[derive(Debug)]
struct Window {
    arm: Arm,
    /// The latest arrival that it was told of.
    latest: Nanos,
    seconds: Ring<Second>,
}

/// Requests of one arm that arrived in one second.
#[derive(Debug, Clone, Default)]
struct Second {
    ended: EndedCounts,
    ttft: Histogram,
    hits: Hits,
    sampled: Sampled,
}

#[derive(Debug, Default)]
struct Arrivals {
    first: Option<Nanos>,
    seconds: Ring<Arrived>,
}

/// What came in one second.
#[derive(Debug, Clone, Default)]
struct Arrived {
    requests: u64,
    prompt_tokens: u64,
    preemptions: Option<f64>,
}

impl Windows {
    /// A request has arrived.
    pub fn arrived(&self, now: Nanos, prompt_tokens: u32) {
        let mut arrivals = self.arrivals.lock();
        if let Some(second) = arrivals.at(now) {
            second.requests += 1;
            second.prompt_tokens += u64::from(prompt_tokens);
        }
    }

    /// A request has ended.
    pub fn note(&self, arm: Arm, sample: Sample) {
        let ttft = sample.ttft.map(Bucket::of);
        let mut arms = self.arms.lock();
        let random = arms.random();
        if let Some(second) = arms.window(arm, sample.at).seconds.at(sample.at) {
            second.add(&sample, ttft, random);
        }
    }

    /// What the endpoints' counters of preemptions say now, NaN where one says nothing. To be told about once a
    /// second, of all endpoints of the pool.
    pub fn preemptions(&self, now: Nanos, counters: impl IntoIterator<Item = (EndpointId, f32)>) {
        let Some(new) = self.engines.lock().read(counters) else { return };
        if let Some(second) = self.arrivals.lock().at(now) {
            *second.preemptions.get_or_insert(0.0) += new;
        }
    }

    /// The requests of an arm, or of all arms, that arrived in the seconds that `from..to` touches and have ended.
    #[must_use]
    pub fn summary(&self, arm: Option<Arm>, from: Nanos, to: Nanos) -> Summary {
        let mut summary = Summary::default();
        let mut sampled = Vec::new();
        {
            let arms = self.arms.lock();
            for window in arms.arms.iter().filter(|window| arm.is_none_or(|arm| arm == window.arm)) {
                for second in window.seconds.within(from, to) {
                    second.add_to(&mut summary);
                    sampled.extend_from_slice(second.sampled.kept());
                }
            }
        }
        // Sorting takes far longer than copying, and requests wait for the lock.
        summary.spread = Spread::of(sampled);
        summary
    }

    /// What came to the pool in the seconds that `from..to` touches.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "seconds of a window")]
    pub fn pulse(&self, from: Nanos, to: Nanos) -> Pulse {
        let arrivals = self.arrivals.lock();
        let since = from.max(arrivals.first.unwrap_or(to));
        let mut pulse =
            Pulse { seconds: to.saturating_sub(since) as f64 / SECOND as f64, ..Pulse::default() };
        for second in arrivals.seconds.within(from, to) {
            pulse.requests += second.requests;
            pulse.prompt_tokens += second.prompt_tokens;
            if let Some(new) = second.preemptions {
                *pulse.preemptions.get_or_insert(0.0) += new;
            }
        }
        pulse
    }
}

impl Arrivals {
    fn at(&mut self, now: Nanos) -> Option<&mut Arrived> {
        self.first.get_or_insert(now);
        self.seconds.at(now)
    }
}

impl Arms {
    /// The arm's window, a new one if it has none.
    fn window(&mut self, arm: Arm, at: Nanos) -> &mut Window {
        let found = self.arms.iter().position(|window| window.arm == arm);
        let place = found.unwrap_or_else(|| {
            if self.arms.len() >= MAX_ARMS {
                let candidates = (0..).zip(&self.arms).filter(|(_, window)| window.arm != Arm::BASE);
                let oldest = candidates.min_by_key(|(_, window)| window.latest);
                self.arms.swap_remove(oldest.map_or(0, |(place, _)| place));
            }
            self.arms.push(Window { arm, latest: at, seconds: Ring::default() });
            self.arms.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "the place was just found or made")]
        let window = &mut self.arms[place];
        window.latest = window.latest.max(at);
        window
    }

    /// The next number of a Weyl sequence, mixed as in splitmix64 (Steele, Lea, Flood, OOPSLA 2014). It decides
    /// which requests a sample keeps and nothing else.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl Second {
    fn add(&mut self, sample: &Sample, ttft: Option<Bucket>, random: u64) {
        let count = match sample.ended {
            Ended::Answered => &mut self.ended.answered,
            Ended::ClientError => &mut self.ended.client_errors,
            Ended::Failed => &mut self.ended.failed,
            Ended::Refused => &mut self.ended.refused,
            Ended::Cancelled => &mut self.ended.cancelled,
        };
        *count += 1;
        if let Some(bucket) = ttft {
            self.ttft.add(bucket);
        }
        if let Some(cached) = sample.cached_tokens {
            self.hits.add(sample.prompt_tokens, cached);
        }
        if let Some(endpoint) = sample.endpoint {
            self.sampled.add(endpoint, sample.session, random);
        }
    }

    fn add_to(&self, summary: &mut Summary) {
        let (sum, ended) = (&mut summary.ended, &self.ended);
        sum.answered += ended.answered;
        sum.client_errors += ended.client_errors;
        sum.failed += ended.failed;
        sum.refused += ended.refused;
        sum.cancelled += ended.cancelled;
        summary.ttft.merge(&self.ttft);
        summary.hits.merge(&self.hits);
    }
}
