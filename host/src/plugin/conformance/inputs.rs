//! Every stage against ordinary, empty, huge and hostile inputs: an answer that can be used, each time.

use std::sync::Arc;

use super::super::synthetic::{Endpoints, Values, bare, overlong, request};
use super::Report;
use super::subject::{Subject, question};
use crate::policy::Request;

/// A fleet that no router should be surprised by.
pub(super) const HUGE: usize = 17_000;

/// Name, candidates, values of their columns, request.
type Input = (&'static str, usize, Values, fn() -> Request);

const INPUTS: [Input; 12] = [
    ("ordinary", 16, Values::Ordinary, ordinary),
    ("no candidates", 0, Values::Ordinary, ordinary),
    ("one candidate", 1, Values::Ordinary, ordinary),
    ("17,000 candidates", HUGE, Values::Ordinary, ordinary),
    ("17,000 candidates of which nothing is known", HUGE, Values::Missing, ordinary),
    ("columns of which nothing is known", 16, Values::Missing, ordinary),
    ("columns of zeros", 16, Values::Zero, ordinary),
    ("columns below zero", 16, Values::Negative, ordinary),
    ("the largest and smallest numbers", 16, Values::Extreme, ordinary),
    ("infinities", 16, Values::Infinite, ordinary),
    ("an empty request of 0 tokens", 16, Values::Ordinary, bare),
    ("texts of 84,000 characters and a prompt of 4 G tokens", 16, Values::Ordinary, overlong),
];

fn ordinary() -> Request {
    request(0)
}

pub(super) fn check(subject: &Subject, report: &mut Report) {
    let policy = subject.fresh();
    for function in subject.functions() {
        for (name, len, values, request) in INPUTS {
            let endpoints = Endpoints::view(len, values);
            match question(&policy, function, &Arc::new(request()), &endpoints).map(|answered| answered.said)
            {
                None => {}
                Some(Ok(_)) => report.passed(function.as_str(), name, String::new()),
                Some(Err(error)) => report.failed(function.as_str(), name, error.to_string()),
            }
        }
    }
}
