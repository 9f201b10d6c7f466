//! What a call costs, against the deadline that the configuration gives.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::case::Function;
use super::super::load::Kept;
use super::super::policies::WasmPolicy;
use super::super::synthetic::{Prepared, request};
use super::inputs::HUGE;
use super::subject::{LIMIT, Subject, question};
use super::{Report, Timing};
use crate::clock::{Nanos, nanos};
use crate::policy::{CallError, Reason};

/// Candidates, and calls at most.
const SIZES: [(usize, usize); 3] = [(16, 2_000), (1_024, 500), (HUGE, 100)];
/// Calls that are not counted: the first ones of an instance are its slowest.
const WARM_UP: usize = 5;
/// Time for one function at one size, for guests that take milliseconds.
const AT_MOST: Duration = Duration::from_secs(1);

pub(super) fn check(subject: &Subject, report: &mut Report) {
    let deadline = nanos(subject.config.deadline);
    for function in subject.functions() {
        for (endpoints, calls) in SIZES {
            let check = format!("time at {endpoints} candidates");
            match measure(subject, function, endpoints, calls) {
                Ok(times) => {
                    let timing = Timing::of(function, endpoints, times, deadline);
                    let detail =
                        format!("median {:.1} \u{b5}s, p99 {:.1} \u{b5}s", timing.median_us, timing.p99_us);
                    if timing.p99_us > timing.deadline_us {
                        report.failed(function.as_str(), &check, format!("{detail}; {}", over(deadline)));
                    } else {
                        report.passed(function.as_str(), &check, detail);
                    }
                    report.timing.push(timing);
                }
                Err(error) if error.reason == Reason::Deadline => {
                    let least = format!("over {} \u{b5}s", LIMIT / 1_000);
                    report.failed(function.as_str(), &check, format!("{least}; {}", over(deadline)));
                }
                Err(error) => report.failed(function.as_str(), &check, error.to_string()),
            }
        }
    }
}

fn over(deadline: Nanos) -> String {
    format!(
        "the deadline is {} \u{b5}s: read fewer columns, do less per candidate, or raise `deadline_ms`",
        deadline / 1_000
    )
}

fn measure(
    subject: &Subject,
    function: Function,
    endpoints: usize,
    calls: usize,
) -> Result<Vec<Nanos>, CallError> {
    let instances = subject.instances(&Kept::default());
    // Made and given back, so that its columns are known.
    instances.refresh()?;
    let view = Prepared::view(endpoints, &instances.columns());
    let policy = WasmPolicy::new(instances, LIMIT);
    let mut times = Vec::with_capacity(calls);
    let began = Instant::now();
    for number in 0..WARM_UP + calls {
        let Some(answered) = question(&policy, function, &Arc::new(request(number)), &view) else { break };
        answered.said?;
        if number >= WARM_UP {
            times.push(answered.used);
            if began.elapsed() > AT_MOST {
                break;
            }
        }
    }
    times.sort_unstable();
    Ok(times)
}
