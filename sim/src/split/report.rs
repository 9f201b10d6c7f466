//! What came of each set-up.

use std::fmt::Write as _;

use serde::Serialize;

use crate::load::Report;

/// One set-up at one rate of one mix.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// What is asked.
    pub mix: &'static str,
    /// Requests a second.
    pub rate: f64,
    /// Which engines there are, and which mode.
    pub setup: &'static str,
    /// Geometric mean of time to first token and time per output token, as a multiple of the least of all set-ups of
    /// the same engines at this rate.
    pub slowdown: f64,
    /// What came of it.
    pub report: Report,
}

impl Row {
    /// What policies are compared by: halving all times to the first token is worth as much as halving all times per
    /// token, and a request that waits twice as long counts the same whether it is short or long.
    pub(super) fn cost(report: &Report) -> f64 {
        (report.ttft_ms.mean * report.tpot_ms.mean).sqrt()
    }
}

/// The rows of one mix as a table of the book.
pub(super) fn table(rows: &[Row]) -> String {
    let mut table = String::from(
        "| rate | set-up | TTFT p50 ms | p99 | TPOT p50 ms | p99 | answer p50 ms | p99 | slowdown |\n\
         |---:|---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for Row { rate, setup, slowdown, report, .. } in rows {
        let Report { ttft_ms: ttft, tpot_ms: tpot, latency_ms: answer, .. } = report;
        let _ = writeln!(
            table,
            "| {rate} | {setup} | {:.0} | {:.0} | {:.1} | {:.1} | {:.0} | {:.0} | {slowdown:.2} |",
            ttft.p50, ttft.p99, tpot.p50, tpot.p99, answer.p50, answer.p99,
        );
    }
    table
}
