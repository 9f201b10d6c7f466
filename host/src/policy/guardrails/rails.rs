//! The rules, one function each.

use super::stats::{Marked, ln_binomial, ln_more_often, ln_sets, real};
use super::{Against, Guardrails, RARE, Rail, Split, Tripped};
use crate::pool::window::{BUSIEST, Pulse, Summary};

/// How much more may come to a pool than before for its load to be called the same.
const SAME_LOAD: f64 = 1.25;

/// Preemptions that come together: an engine that runs out of blocks preempts several requests at once, so counts
/// vary more than independent events do, and are divided by this (quasi-Poisson: McCullagh and Nelder, "Generalized
/// Linear Models", 2nd ed. 1989, §6.2).
const BURST: f64 = 4.0;

/// Standard errors that a normal mean is above the true one with a chance of [`RARE`].
const SIGMAS: f64 = 5.2;

/// Sessions below which a mean is not taken for normal.
const FEW_SESSIONS: u32 = 10;

/// Whether no more comes to the pool than came before, in requests and in tokens.
pub(super) fn alike(before: &Pulse, now: &Pulse) -> bool {
    let no_more = |before_count: u64, now_count: u64| {
        real(now_count) * before.seconds <= SAME_LOAD * real(before_count) * now.seconds
    };
    before.requests > 0
        && no_more(before.requests, now.requests)
        && no_more(before.prompt_tokens, now.prompt_tokens)
}

/// A share of requests that failed or were refused.
pub(super) fn errors(rails: &Guardrails, against: Against, was: &Summary, is: &Summary) -> Option<Tripped> {
    let enough = on(rails.error_rate) && enough(rails, was.decided(), is.decided());
    let (was_rate, is_rate) = (was.error_rate().filter(|_| enough)?, is.error_rate()?);
    let (is_lost, was_lost) = (lost(is), lost(was));
    if is_rate - was_rate <= f64::from(rails.error_rate) || !rare(ln_more_often(is_lost, was_lost)) {
        return None;
    }
    let text = format!(
        "{} fails more: {is_lost} requests failed or were refused, {was_lost} {}",
        who(against),
        than(against)
    );
    Some(Tripped { rail: Rail::Errors, against, was: was_rate, is: is_rate, text })
}

fn lost(summary: &Summary) -> Marked {
    Marked { marked: summary.lost(), of: summary.decided() }
}

/// The 90th percentile, and how many lie above what it may be: of the old side few can, because nine of ten lie
/// below a shorter time.
pub(super) fn ttft(rails: &Guardrails, against: Against, was: &Summary, is: &Summary) -> Option<Tripped> {
    let enough = on(rails.ttft_ratio) && enough(rails, was.ttft.count(), is.ttft.count());
    let (was_ms, is_ms) = (was.ttft_p90_ms().filter(|_| enough)?, is.ttft_p90_ms()?);
    let limit = (was_ms * f64::from(rails.ttft_ratio)).max(was_ms + rails.ttft_slack.as_secs_f64() * 1e3);
    let slow = |summary: &Summary| {
        by_session(Marked { marked: summary.ttft.above(limit), of: summary.ttft.count() }, summary)
    };
    if is_ms <= limit || !rare(ln_more_often(slow(is), slow(was))) {
        return None;
    }
    let text = format!(
        "{} is slower: nine of ten first tokens come within {is_ms:.0} ms (of {}), {was_ms:.0} ms (of {}) {}",
        who(against),
        is.ttft.count(),
        was.ttft.count(),
        than(against)
    );
    Some(Tripped { rail: Rail::Ttft, against, was: was_ms, is: is_ms, text })
}

/// The share of prompt tokens found in caches. The larger of the two variances stands for the newer side, so that a
/// few requests that happen to agree are not taken for certain.
pub(super) fn hit_ratio(
    rails: &Guardrails,
    against: Against,
    was: &Summary,
    is: &Summary,
) -> Option<Tripped> {
    let enough = on(rails.hit_ratio_drop)
        && enough(rails, was.hits.requests, is.hits.requests)
        && was.spread.sessions.min(is.spread.sessions) >= FEW_SESSIONS;
    let (was_ratio, is_ratio) = (was.hit_ratio().filter(|_| enough)?, is.hit_ratio()?);
    let (was_variance, is_variance) = (was.hits.variance()?, is.hits.variance()?);
    let independent = |summary: &Summary| real(summary.hits.requests.min(summary.spread.sessions.into()));
    let variance = was_variance / independent(was) + was_variance.max(is_variance) / independent(is);
    let drop = was_ratio - is_ratio;
    if drop <= f64::from(rails.hit_ratio_drop) || drop <= SIGMAS * variance.sqrt() {
        return None;
    }
    let text = format!(
        "{} finds less in caches: {:.0} % of prompt tokens (of {} requests), {:.0} % (of {}) {}",
        who(against),
        is_ratio * 100.0,
        is.hits.requests,
        was_ratio * 100.0,
        was.hits.requests,
        than(against)
    );
    Some(Tripped { rail: Rail::HitRatio, against, was: was_ratio, is: is_ratio, text })
}

/// Preemptions by request, of the whole pool. That of all that happened so many fell into the later time is a
/// binomial chance (Przyborowski and Wilenski, Biometrika 31, 1940).
pub(super) fn preemptions(rails: &Guardrails, before: &Pulse, now: &Pulse) -> Option<Tripped> {
    let enough = on(rails.preemption_ratio) && enough(rails, before.requests, now.requests);
    let (was_count, is_count) = (before.preemptions.filter(|_| enough)?, now.preemptions?);
    let (was, is) = (was_count / real(before.requests), is_count / real(now.requests));
    let bursts = |count: f64| whole(count / BURST);
    let share = real(now.requests) / real(before.requests + now.requests);
    let chance = ln_binomial(bursts(is_count), bursts(is_count + was_count), share);
    if is <= was * f64::from(rails.preemption_ratio) || !rare(chance) {
        return None;
    }
    let text = format!(
        "the pool preempts more: {is_count:.0} preemptions in {} requests, {was_count:.0} in {} {}",
        now.requests,
        before.requests,
        than(Against::Before)
    );
    Some(Tripped { rail: Rail::Preemptions, against: Against::Before, was, is, text })
}

/// Concentration, by units (see [`Spread`](crate::pool::window::Spread)). Of the arm any set of endpoints might have
/// turned out the busiest, so the chance is taken times the number of such sets (Bonferroni). Sets of several
/// endpoints are looked at only where the old version leaves at least half to the others, else they are most of the
/// pool.
pub(super) fn herding(rails: &Guardrails, split: Split, base: &Summary, arm: &Summary) -> Option<Tripped> {
    if split == Split::Endpoints || !on(rails.herding) {
        return None;
    }
    let (was, is) = (&base.spread, &arm.spread);
    let sets = BUSIEST.iter().zip(was.busiest.iter().zip(is.busiest));
    for (many, (was_top, is_top)) in sets {
        let was_top = Marked { marked: (*was_top).into(), of: was.units.into() };
        let is_top = Marked { marked: is_top.into(), of: is.units.into() };
        let (was_share, is_share) = (was_top.share()?, is_top.share()?);
        if *many > 1 && was_share > 0.5 {
            break;
        }
        let excess = is_share - was_share > f64::from(rails.herding) * (1.0 - was_share);
        let chance = ln_more_often(is_top, was_top) + ln_sets(was.endpoints.max(is.endpoints), *many);
        if excess && rare(chance) {
            let text = format!(
                "the new version herds: it sent {is_top} sessions or single requests to the {}, {was_top} {}",
                if *many == 1 { "same endpoint".to_owned() } else { format!("same {many} endpoints") },
                than(Against::Base)
            );
            return Some(Tripped {
                rail: Rail::Herding,
                against: Against::Base,
                was: was_share,
                is: is_share,
                text,
            });
        }
    }
    None
}

/// A sample that counts for no more than its sessions, its share of marks as it is.
fn by_session(counts: Marked, summary: &Summary) -> Marked {
    let of = counts.of.min(summary.spread.sessions.into());
    let marked = counts.share().map_or(0, |share| whole(share * real(of)));
    Marked { marked, of }
}

impl Marked {
    fn share(self) -> Option<f64> {
        (self.of > 0).then(|| real(self.marked) / real(self.of))
    }
}

impl std::fmt::Display for Marked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.marked, self.of)
    }
}

fn on(limit: f32) -> bool {
    limit > 0.0
}

fn enough(rails: &Guardrails, was: u64, is: u64) -> bool {
    was.min(is) >= u64::from(rails.min_samples)
}

fn rare(ln_chance: f64) -> bool {
    ln_chance < RARE.ln()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count, rounded")]
fn whole(count: f64) -> u64 {
    count.round() as u64
}

fn who(against: Against) -> &'static str {
    match against {
        Against::Base => "the new version",
        Against::Before => "the pool",
    }
}

fn than(against: Against) -> &'static str {
    match against {
        Against::Base => "with the old version in the same time",
        Against::Before => "before the trial",
    }
}
