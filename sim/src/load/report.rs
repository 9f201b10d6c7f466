//! Sums up a run.

use super::sample::Sample;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Quantiles of a duration, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// Half are below.
    pub p50: f64,
    /// Nine of ten are below.
    pub p90: f64,
    /// 99 of 100 are below.
    pub p99: f64,
    /// The geometric mean: doubling each value doubles it, and small values count as much as large ones.
    pub mean: f64,
}

impl Quantiles {
    /// By nearest rank; zeros when there is nothing.
    #[must_use]
    pub fn of(mut values: Vec<Duration>) -> Self {
        values.sort_unstable();
        let rank = |quantile: f64| {
            let at = (quantile * values.len() as f64).ceil() as usize;
            values.get(at.saturating_sub(1)).map_or(0.0, |value| value.as_secs_f64() * 1e3)
        };
        // A time of 0 has no logarithm.
        let logarithms = values.iter().map(|value| value.as_secs_f64().max(1e-9).ln());
        let mean = (logarithms.sum::<f64>() / values.len().max(1) as f64).exp() * 1e3;
        Self {
            p50: rank(0.5),
            p90: rank(0.9),
            p99: rank(0.99),
            mean: if values.is_empty() { 0.0 } else { mean },
        }
    }
}

/// What came of a run. Times count requests that did not fail.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// Requests sent.
    pub requests: u64,
    /// Of those, the ones that failed.
    pub failed: u64,
    /// From the first request to the last answer, in seconds.
    pub elapsed_s: f64,
    /// Time to the first token.
    pub ttft_ms: Quantiles,
    /// Time per output token after the first: `(latency - ttft) / (output tokens - 1)`.
    pub tpot_ms: Quantiles,
    /// From sending to the end.
    pub latency_ms: Quantiles,
    /// Requests answered a second.
    pub requests_per_s: f64,
    /// Tokens generated a second.
    pub output_tokens_per_s: f64,
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Of those, the ones found in a cache.
    pub cached_tokens: u64,
    /// `cached_tokens / prompt_tokens`, 0 to 1.
    pub cache_hit_rate: f64,
    /// Tokens generated.
    pub output_tokens: u64,
    /// Failures by kind.
    pub errors: BTreeMap<String, u64>,
    /// Requests by the endpoint that the router named.
    pub endpoints: BTreeMap<String, u64>,
}

impl Report {
    /// Sums up `samples` of a run that took `elapsed`.
    #[must_use]
    pub fn new(samples: &[Sample], elapsed: Duration) -> Self {
        let mut report =
            Self { requests: samples.len() as u64, elapsed_s: elapsed.as_secs_f64(), ..Self::default() };
        let (mut ttft, mut tpot, mut latency) = (Vec::new(), Vec::new(), Vec::new());
        for sample in samples {
            if let Some(endpoint) = &sample.endpoint {
                *report.endpoints.entry(endpoint.clone()).or_default() += 1;
            }
            if let Some(trouble) = &sample.trouble {
                report.failed += 1;
                *report.errors.entry(trouble.to_string()).or_default() += 1;
                continue;
            }
            report.prompt_tokens += sample.prompt_tokens;
            report.cached_tokens += sample.cached_tokens;
            report.output_tokens += sample.output_tokens;
            latency.push(sample.latency);
            if let Some(first) = sample.ttft {
                ttft.push(first);
                if let Ok(gaps @ 1..) = u32::try_from(sample.output_tokens.saturating_sub(1)) {
                    tpot.push(sample.latency.saturating_sub(first) / gaps);
                }
            }
        }
        let seconds = report.elapsed_s.max(1e-9);
        report.requests_per_s = latency.len() as f64 / seconds;
        report.output_tokens_per_s = report.output_tokens as f64 / seconds;
        report.cache_hit_rate = report.cached_tokens as f64 / (report.prompt_tokens.max(1)) as f64;
        report.ttft_ms = Quantiles::of(ttft);
        report.tpot_ms = Quantiles::of(tpot);
        report.latency_ms = Quantiles::of(latency);
        report
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |f: &mut fmt::Formatter<'_>, name: &str, q: &Quantiles| {
            writeln!(f, "{name:<22}{:>10.1}{:>10.1}{:>10.1}", q.p50, q.p90, q.p99)
        };
        writeln!(f, "{:<22}{:>10}", "requests", self.requests)?;
        writeln!(f, "{:<22}{:>10}", "failed", self.failed)?;
        writeln!(f, "{:<22}{:>10.1} s", "elapsed", self.elapsed_s)?;
        writeln!(f, "{:<22}{:>10.1} req/s", "throughput", self.requests_per_s)?;
        writeln!(f, "{:<22}{:>10.0} tok/s", "output", self.output_tokens_per_s)?;
        writeln!(
            f,
            "{:<22}{:>10.1} %  ({} of {} prompt tokens)",
            "cache hit rate",
            self.cache_hit_rate * 100.0,
            self.cached_tokens,
            self.prompt_tokens
        )?;
        writeln!(f, "{:<22}{:>10}{:>10}{:>10}", "", "p50", "p90", "p99")?;
        row(f, "TTFT (ms)", &self.ttft_ms)?;
        row(f, "TPOT (ms)", &self.tpot_ms)?;
        row(f, "latency (ms)", &self.latency_ms)?;
        for (title, counts) in [("endpoint", &self.endpoints), ("error", &self.errors)] {
            for (name, count) in counts {
                writeln!(f, "{:<22}{count:>10}", format!("{title} {name}"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Trouble;

    #[test]
    fn quantiles_by_nearest_rank() {
        let q = Quantiles::of((1..=100).map(Duration::from_millis).collect());
        assert_eq!((q.p50, q.p90, q.p99), (50.0, 90.0, 99.0));
        let mean = Quantiles::of([1, 10, 100].map(Duration::from_millis).to_vec()).mean;
        assert!((mean - 10.0).abs() < 1e-9);
        assert_eq!(Quantiles::of(Vec::new()), Quantiles::default());
    }

    #[test]
    fn failures_count_apart() {
        let good = Sample {
            ttft: Some(Duration::from_millis(10)),
            latency: Duration::from_millis(40),
            prompt_tokens: 100,
            cached_tokens: 50,
            output_tokens: 4,
            endpoint: Some("a:1".into()),
            trouble: None,
        };
        let bad = Sample { trouble: Some(Trouble::Status(503, None)), ..good.clone() };
        let report = Report::new(&[good, bad], Duration::from_secs(1));
        assert_eq!((report.requests, report.failed, report.output_tokens), (2, 1, 4));
        assert_eq!((report.tpot_ms.p50, report.cache_hit_rate), (10.0, 0.5));
        assert_eq!(report.errors.get("status 503"), Some(&1));
        assert_eq!(report.endpoints.get("a:1"), Some(&2));
        assert!(report.to_string().contains("cache hit rate"));
    }
}
