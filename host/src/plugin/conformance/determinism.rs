//! A call may land on any instance: what an instance remembers of earlier calls must not show in its answers.
//!
//! One instance answers a row of questions; then each question of the same row goes to an instance that has answered
//! nothing. Requests, columns, clock and random numbers are the same, and each side has a store of its own that lives
//! as long as the row. An answer that differs depends on which instance was asked.

use std::sync::Arc;

use super::super::case::Function;
use super::super::load::Kept;
use super::super::policies::WasmPolicy;
use super::super::synthetic::{Endpoints, Values, request};
use super::Report;
use super::subject::{LIMIT, Subject, question};

const CHECK: &str = "any instance answers the same";
/// Questions of a row.
const QUESTIONS: usize = 24;

pub(super) fn check(subject: &Subject, report: &mut Report) {
    for function in subject.functions() {
        match row(subject, function) {
            Row::Same => report.passed(function.as_str(), CHECK, String::new()),
            Row::Unanswered => report.failed(function.as_str(), CHECK, "no question was answered".into()),
            Row::Differs { question, warm, cold } => report.failed(
                function.as_str(),
                CHECK,
                format!(
                    "question {question} of {QUESTIONS}: an instance that answered the others says {warm}, a fresh one \
                     {cold}; calls land on any instance, so keep what must be shared in `store`"
                ),
            ),
        }
    }
}

/// What came of a row of questions.
enum Row {
    Same,
    Unanswered,
    Differs { question: usize, warm: String, cold: String },
}

fn row(subject: &Subject, function: Function) -> Row {
    let (warm, kept) = (subject.fresh(), Kept::default());
    let mut row = Row::Unanswered;
    for number in 0..QUESTIONS {
        let request = Arc::new(request(number));
        let endpoints = Endpoints::view(1 + number % 16, Values::Ordinary);
        let cold = WasmPolicy::new(subject.instances(&kept), LIMIT);
        let ask = |policy| question(policy, function, &request, &endpoints)?.said.ok();
        let (Some(warm), Some(cold)) = (ask(&warm), ask(&cold)) else { continue };
        if warm != cold {
            return Row::Differs { question: number + 1, warm: shown(&warm), cold: shown(&cold) };
        }
        row = Row::Same;
    }
    row
}

fn shown(said: &impl serde::Serialize) -> String {
    /// An answer about 16 candidates fits.
    const MOST: usize = 200;
    let mut text = serde_json::to_string(said).unwrap_or_default();
    if text.len() > MOST {
        text.truncate(text.floor_char_boundary(MOST));
        text.push('…');
    }
    text
}
