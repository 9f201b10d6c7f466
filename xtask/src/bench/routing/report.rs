//! What came of it, beside each other.

use std::fmt;

use super::routers::Router;
use super::workloads::Workload;
use crate::bench::ask::number;

/// What clients and engines saw of one router under one workload.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Outcome {
    requests: f64,
    failed: f64,
    /// Share of all prompt tokens that the engines found in their caches.
    hit_rate: f64,
    /// Time to first token, ms: 50th, 90th, 99th percentile.
    ttft: [f64; 3],
    /// Time per output token, ms, 50th percentile.
    tpot: f64,
    requests_per_s: f64,
    /// Of the requests of which engines said what they had found: the shares that were predicted to the token, to within
    /// 16 and to within 1,024; none where the router predicts nothing that it tells.
    predicted: Option<[f64; 3]>,
    /// The largest share of the requests that one endpoint got; 0 where the router does not say.
    largest_share: f64,
}

impl Outcome {
    /// Reads the report of the load generator.
    pub(super) fn read(report: &str) -> Option<Self> {
        let after = |name: &str| Some(report.split_once(&format!("\"{name}\""))?.1);
        let (ttft, tpot) = (after("ttft_ms")?, after("tpot_ms")?);
        let requests = number(report, "requests")?;
        let endpoints = after("endpoints")?.split_once('}')?.0;
        let counts =
            endpoints.split(',').filter_map(|pair| pair.rsplit_once(':')?.1.trim().parse::<f64>().ok());
        Some(Self {
            requests,
            failed: number(report, "failed")?,
            hit_rate: number(report, "cache_hit_rate")?,
            ttft: [number(ttft, "p50")?, number(ttft, "p90")?, number(ttft, "p99")?],
            tpot: number(tpot, "p50")?,
            requests_per_s: number(report, "requests_per_s")?,
            predicted: None,
            largest_share: counts.fold(0.0, f64::max) / requests.max(1.0),
        })
    }
}

impl Outcome {
    /// Reads how well was predicted what engines would find, from a page of metrics of ours.
    pub(super) fn predicted(&mut self, page: &str) {
        let sum = |suffix: &str, label: &str| {
            let series = format!("sluicegate_prediction_error_tokens_{suffix}{{");
            let of = page.lines().filter(|line| line.starts_with(&series) && line.contains(label));
            of.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum::<f64>()
        };
        let all = sum("count", "");
        if all > 0.0 {
            let within = |tokens: &str| sum("bucket", &format!("le=\"{tokens}\"")) / all;
            self.predicted = Some(["0", "16", "1024"].map(within));
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p90, p99] = self.ttft;
        write!(
            f,
            "hit rate {:.1} %, TTFT {p50:.0} / {p90:.0} / {p99:.0} ms, {:.1} requests/s, {} of {} failed",
            self.hit_rate * 100.0,
            self.requests_per_s,
            self.failed,
            self.requests
        )
    }
}

/// All routers under one workload.
pub(super) struct Table<'a> {
    workload: &'a Workload,
    rows: Vec<(&'static str, Outcome)>,
}

impl<'a> Table<'a> {
    pub(super) fn new(workload: &'a Workload) -> Self {
        Self { workload, rows: Vec::new() }
    }

    pub(super) fn add(&mut self, router: &Router, outcome: Outcome) {
        self.rows.push((router.name, outcome));
    }

    pub(super) fn print(&self) {
        println!("\n{}: {}\n", self.workload.name, self.workload.about);
        println!(
            "| router | hit rate | TTFT p50 ms | p90 | p99 | TPOT p50 ms | requests/s | failed | most at one endpoint | predicted ± 0, 16, 1,024 tokens |"
        );
        println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
        for (name, outcome) in &self.rows {
            let [p50, p90, p99] = outcome.ttft;
            let share = match outcome.largest_share {
                0.0 => "not said".to_owned(),
                share => format!("{:.0} %", share * 100.0),
            };
            let predicted = outcome.predicted.map_or("not said".to_owned(), |within| {
                within.map(|share| format!("{:.1} %", share * 100.0)).join(", ")
            });
            println!(
                "| {name} | {:.1} % | {p50:.0} | {p90:.0} | {p99:.0} | {:.1} | {:.1} | {} of {} | {share} | {predicted} |",
                outcome.hit_rate * 100.0,
                outcome.tpot,
                outcome.requests_per_s,
                outcome.failed,
                outcome.requests
            );
        }
    }

    pub(super) fn print_json(&self) {
        for (name, outcome) in &self.rows {
            let [p50, p90, p99] = outcome.ttft;
            println!(
                "{{\"workload\":\"{}\",\"router\":\"{name}\",\"requests\":{},\"failed\":{},\"hit_rate\":{:.4},\
                 \"ttft_p50_ms\":{p50:.2},\"ttft_p90_ms\":{p90:.2},\"ttft_p99_ms\":{p99:.2},\
                 \"tpot_p50_ms\":{:.3},\"requests_per_s\":{:.3},\"largest_share\":{:.4},\"predicted\":{}}}",
                self.workload.name,
                outcome.requests,
                outcome.failed,
                outcome.hit_rate,
                outcome.tpot,
                outcome.requests_per_s,
                outcome.largest_share,
                outcome.predicted.map_or("null".to_owned(), |shares| format!("{shares:?}"))
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_predicted_is_read_from_buckets_of_all_labels() {
        let page = "\
sluicegate_prediction_error_tokens_bucket{pool=\"p\",found=\"same\",le=\"0\"} 6
sluicegate_prediction_error_tokens_bucket{pool=\"p\",found=\"same\",le=\"16\"} 6
sluicegate_prediction_error_tokens_bucket{pool=\"p\",found=\"same\",le=\"1024\"} 6
sluicegate_prediction_error_tokens_count{pool=\"p\",found=\"same\"} 6
sluicegate_prediction_error_tokens_bucket{pool=\"p\",found=\"less\",le=\"0\"} 0
sluicegate_prediction_error_tokens_bucket{pool=\"p\",found=\"less\",le=\"16\"} 1
sluicegate_prediction_error_tokens_bucket{pool=\"p\",found=\"less\",le=\"1024\"} 2
sluicegate_prediction_error_tokens_count{pool=\"p\",found=\"less\"} 4
";
        let mut outcome = Outcome::default();
        outcome.predicted(page);
        assert_eq!(outcome.predicted, Some([0.6, 0.7, 0.8]));
        outcome.predicted = None;
        outcome.predicted("");
        assert_eq!(outcome.predicted, None);
    }
}
