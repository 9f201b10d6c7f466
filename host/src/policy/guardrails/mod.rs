//! What tells that a new version of a policy does harm while it serves requests.
//!
//! Two comparisons, because each is blind where the other sees. The candidate's arm against the old version's, in
//! the same time and from the same traffic: whatever else happens happens to both, so a rise in load trips nothing.
//! And the whole pool against the window before the trial, because arms that share endpoints share queues and
//! caches: what one does to them slows both. A rise in load would show there as harm, so the pool is compared only
//! while its load is what it was ([`rails::alike`]).
//!
//! Every rule asks for two things: a difference that matters, which the operator sets, and that chance alone would
//! hardly ever show it ([`RARE`]). The second is what keeps small samples from being judged by their noise.
//! Requests of one session are alike, so a sample counts for no more than its sessions (the design effect of
//! clusters that agree wholly: L. Kish, "Survey Sampling", 1965, §5.4); errors are counted as they are, because an
//! engine that fails has no regard for sessions.
//!
//! Herding has a rule of its own. A candidate that sends its share of a pool to one endpoint need not be slower
//! than the old version, whose requests wait in the same queue. But it is more concentrated, and this is compared.

mod comparison;
mod rails;
mod stats;

#[cfg(test)]
mod simulations;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use crate::config::Guardrails;
use crate::pool::window::{Pulse, Summary};

pub use comparison::Comparison;

/// Chance of a difference as large as the one seen, or larger, where there is none, above which nothing trips. A
/// trial is judged about once a second on eight counts: in a minute the sum of these chances is 1 in 20,000.
const RARE: f64 = 1e-7;

/// How a candidate's share of the traffic is cut out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// Some of the requests, at the same endpoints as the rest.
    Requests,
    /// Endpoints of its own. It cannot be compared how arms of different sizes spread requests, and a candidate
    /// that herds has only itself to slow down.
    Endpoints,
}

/// What is known of a trial at one moment.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// How the arm is cut out.
    pub split: Split,
    /// The whole pool before the trial.
    pub before: Summary,
    /// What came to it then.
    pub pulse_before: Pulse,
    /// The whole pool, of late.
    pub now: Summary,
    /// What came to it.
    pub pulse_now: Pulse,
    /// The old version since the trial began.
    pub base: Summary,
    /// The candidate since the trial began.
    pub arm: Summary,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rail {
    /// 90th percentile of the time to first token.
    Ttft,
    /// Share of prompt tokens found in caches.
    HitRatio,
    /// Share of requests that failed or were refused.
    Errors,
    /// Preemptions by request.
    Preemptions,
    /// Concentration of requests on few endpoints.
    Herding,
}

impl Rail {
    /// Its name in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ttft => "ttft",
            Self::HitRatio => "hit_ratio",
            Self::Errors => "errors",
            Self::Preemptions => "preemptions",
            Self::Herding => "herding",
        }
    }
}

/// Against what the candidate fell short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Against {
    /// The old version in the same time.
    Base,
    /// The whole pool before the trial.
    Before,
}

/// A guardrail that a candidate has broken.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tripped {
    /// Which one.
    pub rail: Rail,
    /// Compared with what.
    pub against: Against,
    /// The number there: milliseconds, a share, or preemptions by request.
    pub was: f64,
    /// The same number of the candidate, or of the pool with it.
    pub is: f64,
    /// All of it in words.
    pub text: String,
}

/// The first guardrail that the evidence breaks. What points at the candidate itself comes first.
#[must_use]
pub fn judge(rails: &Guardrails, evidence: &Evidence) -> Option<Tripped> {
    let Evidence { split, before, pulse_before, now, pulse_now, base, arm } = evidence;
    let apart = rails::errors(rails, Against::Base, base, arm)
        .or_else(|| rails::herding(rails, *split, base, arm))
        .or_else(|| rails::ttft(rails, Against::Base, base, arm))
        .or_else(|| rails::hit_ratio(rails, Against::Base, base, arm));
    if apart.is_some() || !rails::alike(pulse_before, pulse_now) {
        return apart;
    }
    rails::errors(rails, Against::Before, before, now)
        .or_else(|| rails::ttft(rails, Against::Before, before, now))
        .or_else(|| rails::hit_ratio(rails, Against::Before, before, now))
        .or_else(|| rails::preemptions(rails, pulse_before, pulse_now))
}
