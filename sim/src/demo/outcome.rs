//! What the demonstration has shown.

use crate::load::Report;
use serde_json::json;
use std::fmt;
use std::time::Duration;

/// Both runs, and the swap.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Requests in turn over all engines.
    pub round_robin: Report,
    /// The same through the router.
    pub sluicegate: Report,
    /// From renaming the file until the router served by it.
    pub swap: Duration,
    /// Requests that the router answered meanwhile.
    pub during_swap: u64,
    /// Whether to write JSON.
    pub as_json: bool,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (a, b) = (&self.round_robin, &self.sluicegate);
        let swap = self.swap.as_secs_f64() * 1e3;
        if self.as_json {
            let value =
                json!({"round_robin": a, "sluicegate": b, "swap_ms": swap, "during_swap": self.during_swap});
            return write!(f, "{value}");
        }
        writeln!(f, "{:<24}{:>14}{:>14}{:>14}", "", "round-robin", "sluicegate", "change")?;
        let (hit_a, hit_b) = (a.cache_hit_rate * 100.0, b.cache_hit_rate * 100.0);
        let points = format!("{:+.1} pts", hit_b - hit_a);
        writeln!(f, "{:<24}{hit_a:>12.1} %{hit_b:>12.1} %{points:>14}", "cache hit rate")?;
        for (name, of_a, of_b) in [
            ("TTFT p50 (ms)", a.ttft_ms.p50, b.ttft_ms.p50),
            ("TTFT p90 (ms)", a.ttft_ms.p90, b.ttft_ms.p90),
            ("TTFT p99 (ms)", a.ttft_ms.p99, b.ttft_ms.p99),
            ("throughput (req/s)", a.requests_per_s, b.requests_per_s),
            ("output (tok/s)", a.output_tokens_per_s, b.output_tokens_per_s),
        ] {
            writeln!(f, "{name:<24}{of_a:>14.1}{of_b:>14.1}{:>14}", change(of_a, of_b))?;
        }
        writeln!(f, "{:<24}{:>14}{:>14}", "requests", a.requests, b.requests)?;
        writeln!(f, "{:<24}{:>14}{:>14}", "failed requests", a.failed, b.failed)?;
        writeln!(f, "{:<24}{:>14}{swap:>14.1}", "policy swap (ms)", "-")?;
        write!(f, "{:<24}{:>14}{:>14}", "answered during swap", "-", self.during_swap)?;
        for (error, count) in &b.errors {
            write!(f, "\n{:<52}{count:>14}", format!("error: {error}"))?;
        }
        Ok(())
    }
}

/// The change as a factor when large, in per cent when small.
fn change(before: f64, after: f64) -> String {
    if before <= 0.0 || after <= 0.0 {
        return "-".into();
    }
    let factor = after / before;
    if factor >= 2.0 {
        format!("{factor:.1} x")
    } else if factor <= 0.5 {
        format!("1/{:.1}", 1.0 / factor)
    } else {
        format!("{:+.0} %", (factor - 1.0) * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_reads_well() {
        assert_eq!(change(100.0, 110.0), "+10 %");
        assert_eq!(change(100.0, 25.0), "1/4.0");
        assert_eq!(change(10.0, 25.0), "2.5 x");
        assert_eq!(change(0.0, 1.0), "-");
    }

    #[test]
    fn the_table_has_all_rows() {
        let outcome = Outcome {
            round_robin: Report::default(),
            sluicegate: Report::default(),
            swap: Duration::from_millis(120),
            during_swap: 3,
            as_json: false,
        };
        let text = outcome.to_string();
        for row in ["cache hit rate", "TTFT p99", "throughput", "failed requests", "policy swap (ms)"] {
            assert!(text.contains(row), "{text}");
        }
        let json = Outcome { as_json: true, ..outcome }.to_string();
        assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
    }
}
