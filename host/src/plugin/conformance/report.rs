//! What a test found.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Value, json};

use super::super::artifact::digest;
use super::super::case::Function;
use crate::clock::Nanos;
use crate::config::PluginConfig;

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The function or stage.
    pub of: Box<str>,
    /// What was done with it.
    pub check: Box<str>,
    /// Whether it stood.
    pub ok: bool,
    /// What was measured, or why it failed.
    pub detail: Box<str>,
}

/// What calls of one function took. CPU time, microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Timing {
    /// The function.
    pub call: Function,
    /// Candidates.
    pub endpoints: usize,
    /// Calls that were measured.
    pub calls: usize,
    /// Half of them took less.
    pub median_us: f64,
    /// 99 of 100 took less.
    pub p99_us: f64,
    /// What the configuration allows.
    pub deadline_us: f64,
}

/// All that was checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The plugin's name.
    pub plugin: Box<str>,
    /// SHA-256 of its file, hex.
    pub digest: Box<str>,
    /// In the order in which it was done.
    pub checks: Vec<Check>,
    /// What calls took.
    pub timing: Vec<Timing>,
}

impl Timing {
    pub(super) fn of(call: Function, endpoints: usize, sorted: Vec<Nanos>, deadline: Nanos) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "shown to people")]
        let micros = |nanos: Nanos| nanos as f64 / 1_000.0;
        let at = |percent: usize| {
            let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
            sorted.get(index).copied().map_or(0.0, micros)
        };
        Self {
            call,
            endpoints,
            calls: sorted.len(),
            median_us: at(50),
            p99_us: at(99),
            deadline_us: micros(deadline),
        }
    }
}

impl Report {
    pub(super) fn of(config: &PluginConfig, bytes: &[u8]) -> Self {
        Self { plugin: config.name.clone(), digest: digest(bytes), checks: Vec::new(), timing: Vec::new() }
    }

    pub(super) fn passed(&mut self, of: &str, check: &str, detail: String) {
        self.checks.push(Check { of: of.into(), check: check.into(), ok: true, detail: detail.into() });
    }

    pub(super) fn failed(&mut self, of: &str, check: &str, why: String) {
        self.checks.push(Check { of: of.into(), check: check.into(), ok: false, detail: why.into() });
    }

    /// How many checks failed.
    #[must_use]
    pub fn failures(&self) -> usize {
        self.checks.iter().filter(|check| !check.ok).count()
    }

    /// The same for programs, with `ok` and the number of `failures`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "plugin": self.plugin, "digest": self.digest, "ok": self.failures() == 0, "failures": self.failures(),
            "checks": self.checks, "timing": self.timing,
        })
    }

    /// One line a check, and a summary.
    #[must_use]
    pub fn to_text(&self) -> String {
        let width =
            |text: fn(&Check) -> &str| self.checks.iter().map(|check| text(check).chars().count()).max();
        let of = width(|check| &check.of).unwrap_or(0);
        let what = width(|check| &check.check).unwrap_or(0);
        let mut text = String::new();
        for check in &self.checks {
            let outcome = if check.ok { "ok" } else { "FAIL" };
            let line = format!("{outcome:<4}  {:<of$}  {:<what$}  {}", check.of, check.check, check.detail);
            let _ = writeln!(text, "{}", line.trim_end());
        }
        let many = if self.checks.len() == 1 { "check" } else { "checks" };
        let _ = writeln!(text, "{} {many}, {} failed", self.checks.len(), self.failures());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_a_line_a_check_and_a_summary() {
        let mut report = Report::of(&PluginConfig::named("x"), b"");
        report.passed("scorer.score", "ordinary", String::new());
        report.failed("filter.keep", "no candidates", "trap: unreachable".into());
        assert_eq!(
            report.to_text(),
            "ok    scorer.score  ordinary\n\
             FAIL  filter.keep   no candidates  trap: unreachable\n\
             2 checks, 1 failed\n"
        );
        assert_eq!(report.failures(), 1);
    }

    #[test]
    fn percentiles_are_of_the_sorted_times() {
        let timing = Timing::of(Function::Score, 16, (1..=100).map(|n| n * 1_000).collect(), 5_000_000);
        assert_eq!((timing.calls, timing.median_us, timing.p99_us), (100, 51.0, 100.0));
    }
}
