//! What came of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::clients::{Ask, Client};
use crate::load::Quantiles;
use crate::scheduler::Nanos;

/// What clients of one kind, or one flow, got.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Group {
    /// Requests that came.
    pub requests: u64,
    /// Of those, the ones answered.
    pub answered: u64,
    /// Of those, the ones refused.
    pub refused: u64,
    /// Arrival to first token.
    pub ttft_ms: Quantiles,
    /// Tokens of prompts that were computed, and of answers, of answers that ended within the time of traffic.
    pub tokens: u64,
    /// What the refused were told, seconds, the median.
    pub retry_after_s: f64,
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// Which.
    pub name: &'static str,
    /// By kind of client.
    pub groups: BTreeMap<String, Group>,
    /// Share of the tokens of each flow within the time of traffic.
    pub shares: BTreeMap<String, f64>,
    /// Answers a second until the last.
    pub answers_per_s: f64,
    /// Sessions that were answered whole.
    pub sessions: u64,
    /// From its first request to its last answer, seconds, the mean over sessions.
    pub session_s: f64,
    /// From the first request of all to the last answer, seconds.
    pub elapsed_s: f64,
    /// Prompt tokens found in caches, of all.
    pub cache_hit_rate: f64,
    /// Requests that engines set back.
    pub preemptions: u64,
    /// True waits as multiples of what was estimated.
    pub estimates: Estimates,
    /// Requests without an end.
    pub lost: usize,
}

/// Quantiles of ratios.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Estimates {
    /// A tenth is below.
    pub p10: f64,
    /// Half are below.
    pub p50: f64,
    /// Nine of ten are below.
    pub p90: f64,
}

#[derive(Default)]
struct Sums {
    group: Group,
    ttft: Vec<Duration>,
    retry_after: Vec<f64>,
}

/// What is counted as a run goes on.
pub(super) struct Tally {
    name: &'static str,
    until: Nanos,
    groups: BTreeMap<String, Sums>,
    flows: BTreeMap<String, u64>,
    ratios: Vec<f64>,
    begun: BTreeMap<u64, Nanos>,
    session_s: f64,
    sessions: u64,
    answers: u64,
    prompt: u64,
    cached: u64,
    last: Nanos,
}

impl Tally {
    pub(super) fn new(name: &'static str, seconds: f64) -> Self {
        Self {
            name,
            until: (seconds * 1e9) as Nanos,
            groups: BTreeMap::new(),
            flows: BTreeMap::new(),
            ratios: Vec::new(),
            begun: BTreeMap::new(),
            session_s: 0.0,
            sessions: 0,
            answers: 0,
            prompt: 0,
            cached: 0,
            last: 0,
        }
    }

    fn group(&mut self, client: &Client) -> &mut Sums {
        self.groups.entry(client.group.to_owned()).or_default()
    }

    pub(super) fn came(&mut self, client: &Client, _at: Nanos) {
        self.group(client).group.requests += 1;
    }

    pub(super) fn refused(&mut self, client: &Client, retry_after_s: Option<f64>) {
        let sums = self.group(client);
        sums.group.refused += 1;
        sums.retry_after.extend(retry_after_s);
    }

    pub(super) fn estimated(&mut self, estimate: f64, waited: f64) {
        self.ratios.push(waited / estimate.max(0.001));
    }

    pub(super) fn answered(
        &mut self,
        client: &Client,
        ask: &Ask,
        came: Nanos,
        first: Nanos,
        at: Nanos,
        (prompt, cached, output): (u32, u32, u32),
    ) {
        let tokens = u64::from(prompt.saturating_sub(cached)) + u64::from(output);
        self.answers += 1;
        self.prompt += u64::from(prompt);
        self.cached += u64::from(cached);
        self.last = self.last.max(at);
        if at <= self.until {
            *self.flows.entry(client.flow.clone()).or_default() += tokens;
        }
        let within = at <= self.until;
        let sums = self.group(client);
        sums.group.answered += 1;
        sums.group.tokens += if within { tokens } else { 0 };
        sums.ttft.push(Duration::from_nanos(first.saturating_sub(came)));
        if let Some((session, turn)) = ask.session {
            let begun = *self.begun.entry(session).or_insert(came);
            if turn == ask.turns {
                self.sessions += 1;
                self.session_s += at.saturating_sub(begun) as f64 / 1e9;
            }
        }
    }

    pub(super) fn outcome(self, preemptions: u64, lost: usize) -> Outcome {
        let all: u64 = self.flows.values().sum();
        let share = |tokens: u64| tokens as f64 / all.max(1) as f64;
        let elapsed_s = self.last as f64 / 1e9;
        let groups = self.groups.into_iter().map(|(name, sums)| {
            let retry_after_s = quantile(sums.retry_after, 0.5);
            (name, Group { ttft_ms: Quantiles::of(sums.ttft), retry_after_s, ..sums.group })
        });
        let ratios = self.ratios;
        Outcome {
            name: self.name,
            groups: groups.collect(),
            shares: self.flows.into_iter().map(|(flow, tokens)| (flow, share(tokens))).collect(),
            answers_per_s: self.answers as f64 / elapsed_s.max(1e-9),
            sessions: self.sessions,
            session_s: self.session_s / self.sessions.max(1) as f64,
            elapsed_s,
            cache_hit_rate: self.cached as f64 / self.prompt.max(1) as f64,
            preemptions,
            estimates: Estimates {
                p10: quantile(ratios.clone(), 0.1),
                p50: quantile(ratios.clone(), 0.5),
                p90: quantile(ratios, 0.9),
            },
            lost,
        }
    }
}

fn quantile(mut values: Vec<f64>, quantile: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let at = (quantile * values.len() as f64).ceil() as usize;
    values.get(at.saturating_sub(1)).copied().unwrap_or(0.0)
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.name)?;
        for (name, group) in &self.groups {
            writeln!(
                f,
                "  {name:<14} {:>7} requests {:>7} answered {:>7} refused   TTFT p50 {:>9.1} ms p99 {:>9.1} ms   retry after {:.1} s",
                group.requests,
                group.answered,
                group.refused,
                group.ttft_ms.p50,
                group.ttft_ms.p99,
                group.retry_after_s,
            )?;
        }
        if self.shares.len() > 1 {
            let shares = self.shares.iter().map(|(flow, share)| format!("{flow} {:.1} %", share * 100.0));
            writeln!(f, "  shares         {}", shares.collect::<Vec<_>>().join(", "))?;
        }
        if self.sessions > 0 {
            writeln!(f, "  sessions       {} in {:.1} s in the mean", self.sessions, self.session_s)?;
        }
        writeln!(
            f,
            "  in all         {:.1} answers/s, {:.1} s, {:.1} % of prompts from caches, {} preemptions, {} lost",
            self.answers_per_s,
            self.elapsed_s,
            self.cache_hit_rate * 100.0,
            self.preemptions,
            self.lost,
        )?;
        let Estimates { p10, p50, p90 } = self.estimates;
        writeln!(
            f,
            "  waits          {p10:.2} to {p90:.2} times what was estimated (p10, p90), {p50:.2} in the median"
        )
    }
}
