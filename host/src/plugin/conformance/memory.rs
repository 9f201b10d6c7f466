//! Whether memory stays flat over many calls.

use std::sync::Arc;

use super::super::case::Function;
use super::super::load::Kept;
use super::super::policies::WasmPolicy;
use super::super::synthetic::{Prepared, lives, request};
use super::Report;
use super::subject::{LIMIT, Subject, question};
use crate::policy::{CallError, Own as _};

/// Growth after the first tenth of the calls that is no leak: caches fill, and memory comes in steps.
const ALLOWED: usize = 1 << 20;
/// Requests whose events come in one batch.
const BATCH: usize = 100;

pub(super) fn check(subject: &Subject, calls: usize, report: &mut Report) {
    for function in subject.functions() {
        judge(report, function.as_str(), calls, of_calls(subject, function, calls));
    }
    if subject.exports("observer") {
        judge(report, Function::Observe.as_str(), calls, of_events(subject, calls));
    }
}

/// Bytes after the first tenth, and at the end.
type Grown = Result<(usize, usize), CallError>;

fn of_calls(subject: &Subject, function: Function, calls: usize) -> Grown {
    let instances = subject.instances(&Kept::default());
    instances.refresh()?;
    let view = Prepared::view(16, &instances.columns());
    let policy = WasmPolicy::new(Arc::clone(&instances), LIMIT);
    let mut early = None;
    for number in 0..calls {
        if let Some(answered) = question(&policy, function, &Arc::new(request(number)), &view) {
            answered.said?;
        }
        if number == calls / 10 {
            early = Some(instances.memory_bytes()?);
        }
    }
    let end = instances.memory_bytes()?;
    Ok((early.unwrap_or(end), end))
}

fn of_events(subject: &Subject, calls: usize) -> Grown {
    let mut own = subject.fresh().wasm_own()?;
    let batches = calls.div_ceil(BATCH);
    let mut early = None;
    for batch in 0..batches {
        own.observe(&lives(batch * BATCH, BATCH))?;
        if batch == batches / 10 {
            early = own.memory_bytes();
        }
    }
    let end = own.memory_bytes().unwrap_or_default();
    Ok((early.unwrap_or(end), end))
}

fn judge(report: &mut Report, of: &str, calls: usize, grown: Grown) {
    let check = format!("memory over {calls} calls");
    match grown {
        Err(error) => report.failed(of, &check, error.to_string()),
        Ok((early, end)) => {
            let grew = end.saturating_sub(early);
            let detail = format!("{} KiB, grew by {} KiB after the first tenth", end >> 10, grew >> 10);
            if grew > ALLOWED {
                let each = grew / (calls - calls / 10).max(1);
                let advice = "what an instance keeps must be bounded";
                report.failed(of, &check, format!("{detail}: some {each} bytes a call; {advice}"));
            } else {
                report.passed(of, &check, detail);
            }
        }
    }
}
