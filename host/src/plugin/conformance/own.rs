//! The instance that hears events: its answers, and the state that it hands on.

use super::super::case::{Function, Shown, ask_own};
use super::super::own::WasmOwn;
use super::super::synthetic::{Endpoints, Values, extreme_flows, flows, lives, stray_events};
use super::Report;
use super::inputs::HUGE;
use super::subject::Subject;
use crate::policy::flows::MAX_FLOWS;
use crate::policy::{CallError, Own as _};

pub(super) fn check(subject: &Subject, report: &mut Report) {
    if subject.exports("observer") {
        events(subject, report);
    }
    if subject.exports("flow-control") {
        selecting(subject, report);
    }
    if subject.exports("handoff") {
        handing_over(subject, report);
    }
}

fn events(subject: &Subject, report: &mut Report) {
    let batches = [
        ("one event", lives(0, 1).iter().take(1).cloned().collect()),
        ("300 events of 100 requests", lives(0, 100)),
        ("30,000 events in one batch", lives(100, 10_000)),
        ("events that fit to nothing", stray_events()),
    ];
    for (name, events) in batches {
        let shown = Shown { events: Some(events), ..Shown::default() };
        asked(subject, report, Function::Observe, name, &shown);
    }
}

fn selecting(subject: &Subject, report: &mut Report) {
    let most = u32::try_from(MAX_FLOWS).unwrap_or(u32::MAX);
    for (name, len, values) in [
        ("ordinary", 16, Values::Ordinary),
        ("no candidates", 0, Values::Ordinary),
        ("17,000 candidates", HUGE, Values::Ordinary),
        ("columns of which nothing is known", 16, Values::Missing),
        ("the largest and smallest numbers", 16, Values::Extreme),
        ("infinities", 16, Values::Infinite),
    ] {
        let endpoints = Some(Endpoints::view(len, values));
        let shown = Shown { endpoints, flows: Some(flows(8)), count: 16, ..Shown::default() };
        asked(subject, report, Function::Saturation, name, &shown);
        asked(subject, report, Function::Select, name, &shown);
    }
    for (name, flows) in [
        ("one flow", flows(1)),
        ("1,024 flows", flows(most)),
        ("flows of the largest and smallest numbers", extreme_flows(64)),
    ] {
        let endpoints = Some(Endpoints::view(16, Values::Ordinary));
        let shown = Shown { endpoints, flows: Some(flows), count: 16, ..Shown::default() };
        asked(subject, report, Function::Select, name, &shown);
    }
}

fn asked(subject: &Subject, report: &mut Report, function: Function, name: &str, shown: &Shown) {
    let answer = subject.fresh().wasm_own().and_then(|mut own| ask_own(&mut own, function, shown));
    match answer {
        Ok(_) => report.passed(function.as_str(), name, String::new()),
        Err(error) => report.failed(function.as_str(), name, error.to_string()),
    }
}

fn handing_over(subject: &Subject, report: &mut Report) {
    let (stage, saved) = ("handoff", busy(subject).and_then(|mut own| state(&mut own)));
    let saved = match saved {
        Ok(saved) => saved,
        Err(error) => return report.failed(stage, "saves", error.to_string()),
    };
    report.passed(stage, "saves", format!("{} bytes", saved.len()));

    match carried(subject, &saved) {
        // The order within may be another one, as with a hash map.
        Ok(again) if again.len() == saved.len() => {
            report.passed(stage, "a fresh instance restores it", String::new());
        }
        Ok(again) => {
            let lengths = format!("{} bytes saved, {} after they were restored", saved.len(), again.len());
            report.failed(stage, "a fresh instance restores it", format!("{lengths}: a part of it is lost"));
        }
        Err(error) => report.failed(stage, "a fresh instance restores it", error.to_string()),
    }

    let half = saved.get(..saved.len() / 2).unwrap_or_default();
    for (name, bytes) in [
        ("an empty state", &[][..]),
        ("a state of another plugin", b"\xff\xff not a state"),
        ("half a state", half),
    ] {
        match refused(subject, bytes) {
            Ok(detail) => report.passed(stage, name, detail.into()),
            Err(problem) => report.failed(stage, name, problem),
        }
    }
}

/// An own instance with something to remember.
fn busy(subject: &Subject) -> Result<WasmOwn, CallError> {
    let mut own = subject.fresh().wasm_own()?;
    own.observe(&lives(0, 50))?;
    if subject.exports("flow-control") {
        own.select(&flows(8), &Endpoints::view(16, Values::Ordinary), 4)?;
    }
    Ok(own)
}

fn state(own: &mut WasmOwn) -> Result<Vec<u8>, CallError> {
    own.save().map(Option::unwrap_or_default)
}

fn carried(subject: &Subject, saved: &[u8]) -> Result<Vec<u8>, CallError> {
    let mut own = subject.fresh().wasm_own()?;
    own.restore(saved)?;
    state(&mut own)
}

/// A state that it cannot take is refused in words, never with a trap, or leaves it as good as new.
fn refused(subject: &Subject, bytes: &[u8]) -> Result<&'static str, String> {
    let words = |error: CallError| error.to_string();
    let mut own = subject.fresh().wasm_own().map_err(words)?;
    match own.restored(bytes) {
        Err(error) => Err(format!("instead of an error from `restore`: {error}")),
        Ok(Err(_)) => Ok("refused"),
        Ok(Ok(())) => {
            let clean = subject.fresh().wasm_own().and_then(|mut own| state(&mut own)).map_err(words)?;
            let taken = state(&mut own).map_err(words)?;
            if taken == clean { Ok("starts clean") } else { Err("it is taken for a state".into()) }
        }
    }
}
