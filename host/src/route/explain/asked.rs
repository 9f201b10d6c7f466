//! One question of a decision, put together again: what the policy was shown, and what it said.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Answer, Explanation, Given, Seen};
use crate::clock::Nanos;
use crate::policy::{CallError, ColumnId, Facts, Leg, OnEmpty, Plugin, Said, Stage};
use crate::pool::Endpoint;
use crate::types::{EndpointId, Profile};

/// What a policy was asked about a request that is done.
#[derive(Debug)]
pub struct Asked {
    /// Who was asked.
    pub plugin: Arc<Plugin>,
    /// As what.
    pub stage: Stage,
    /// About which request.
    pub facts: Facts,
    /// When.
    pub now: Nanos,
    /// For what the candidates were judged.
    pub profile: Profile,
    /// The candidates that are kept, by position.
    pub endpoints: Vec<Arc<Endpoint>>,
    /// What policies read of them; NaN where it was not known.
    pub columns: Vec<(ColumnId, Vec<f32>)>,
    /// How many candidates there were.
    pub of: usize,
    /// The sums that a picker was given.
    pub scores: Option<Vec<f32>>,
    /// The decode endpoint that disaggregation was given.
    pub decode: Option<u32>,
    /// What it said; none when it was not asked after all.
    pub said: Option<Result<Said, CallError>>,
}

impl Explanation {
    /// The first question to `plugin` as `stage`; where neither is named the first to a scorer, else the first of
    /// all.
    #[must_use]
    pub fn asked(&self, plugin: Option<&str>, stage: Option<Stage>) -> Option<Asked> {
        let scorers = self.answers.iter().any(|answer| answer.stage == Stage::Scorer);
        let stage = stage.or_else(|| (plugin.is_none() && scorers).then_some(Stage::Scorer));
        let wanted = |answer: &&Answer| {
            plugin.is_none_or(|name| *answer.plugin.name == *name)
                && stage.is_none_or(|stage| answer.stage == stage)
        };
        let answer = self.answers.iter().find(wanted)?;
        let question = self.question(answer)?;
        let mut facts = self.facts.clone();
        facts.age_ms = question.seen.now.saturating_sub(self.arrived) / crate::clock::MILLI;
        let (endpoints, columns) = question.seen.rows(&question.input);
        let positions: Positions =
            endpoints.iter().zip(0..).map(|(endpoint, position)| (endpoint.id, position)).collect();
        Some(Asked {
            plugin: Arc::clone(&answer.plugin),
            stage: answer.stage,
            facts,
            now: question.seen.now,
            profile: answer.profile.filter(|_| question.decode.is_none()).unwrap_or(Profile::Decode),
            endpoints,
            columns,
            of: question.of,
            scores: question.scores,
            decode: question.decode,
            said: said(&answer.given, &positions),
        })
    }

    fn question(&self, answer: &Answer) -> Option<Question<'_>> {
        let profile = answer.profile.unwrap_or(Profile::Decode);
        let judgement = self.judgements.iter().find(|judgement| judgement.profile == profile);
        let whole = |seen| Question {
            seen,
            input: Arc::clone(&seen.endpoints),
            of: seen.of,
            scores: None,
            decode: None,
        };
        match answer.stage {
            Stage::Admission | Stage::FlowControl => {
                self.asked.as_ref().or(judgement.map(|judgement| &judgement.seen)).map(whole)
            }
            Stage::Disaggregation => {
                let (seen, decode) = self.split.as_ref()?;
                Some(Question { decode: Some(*decode), ..whole(seen) })
            }
            Stage::Filter => {
                let seen = &judgement?.seen;
                Some(match self.kept_before(answer, profile) {
                    Some(kept) => Question { of: kept.len(), input: Arc::new(kept.to_vec()), ..whole(seen) },
                    None => whole(seen),
                })
            }
            Stage::Scorer | Stage::Picker => {
                let judgement = judgement?;
                let question = Question {
                    input: Arc::clone(&judgement.left),
                    of: judgement.left_of,
                    ..whole(&judgement.seen)
                };
                let scores = (answer.stage == Stage::Picker).then(|| judgement.scores.clone());
                Some(Question { scores, ..question })
            }
        }
    }

    /// What the filters before this one left; none when they left everybody.
    fn kept_before(&self, answer: &Answer, profile: Profile) -> Option<&[Arc<Endpoint>]> {
        let before = self.answers.iter().take_while(|other| !std::ptr::eq(*other, answer));
        let kept = before.filter(|other| other.stage == Stage::Filter && other.profile == Some(profile));
        let heard = kept.filter_map(|other| match &other.given {
            Ok(Given::Endpoints(kept)) if kept.is_empty() && other.plugin.on_empty == OnEmpty::Ignore => None,
            Ok(Given::Endpoints(kept)) => Some(kept.as_slice()),
            _ => None,
        });
        heard.last()
    }
}

struct Question<'a> {
    seen: &'a Seen,
    /// The candidates of the call, all of them among those seen unless they were cut.
    input: Arc<Vec<Arc<Endpoint>>>,
    of: usize,
    scores: Option<Vec<f32>>,
    decode: Option<u32>,
}

type Positions = HashMap<EndpointId, u32>;
type Named = Vec<(ColumnId, Vec<f32>)>;

impl Seen {
    /// Of these endpoints those that were seen, with the values that were read.
    fn rows(&self, wanted: &[Arc<Endpoint>]) -> (Vec<Arc<Endpoint>>, Named) {
        let rows: HashMap<EndpointId, usize> =
            self.endpoints.iter().zip(0..).map(|(endpoint, row)| (endpoint.id, row)).collect();
        let found: Vec<_> =
            wanted.iter().filter(|endpoint| rows.contains_key(&endpoint.id)).cloned().collect();
        let columns = self.columns.shown().map(|(id, values)| {
            let value = |endpoint: &Arc<Endpoint>| {
                rows.get(&endpoint.id).and_then(|row| values.get(*row)).copied().unwrap_or(f32::NAN)
            };
            (id, found.iter().map(value).collect())
        });
        let columns = columns.collect();
        (found, columns)
    }
}

fn said(given: &Result<Given, CallError>, positions: &Positions) -> Option<Result<Said, CallError>> {
    let at = |endpoints: &[Arc<Endpoint>]| -> Vec<u32> {
        endpoints.iter().filter_map(|endpoint| positions.get(&endpoint.id)).copied().collect()
    };
    match given {
        Err(error) if !error.reason.is_failure() => None,
        Err(error) => Some(Err(error.clone())),
        Ok(Given::Scores(scores)) => Some(Ok(Said::Scores(scores.clone()))),
        Ok(Given::Endpoints(endpoints)) => Some(Ok(Said::Positions(at(endpoints)))),
        Ok(Given::Verdict(verdict)) => Some(Ok(Said::Verdict(verdict.clone()))),
        Ok(Given::Placement(placement)) => Some(Ok(Said::Placement(placement.clone()))),
        Ok(Given::Legs(legs)) => {
            let legs =
                legs.iter().map(|(stage, order)| Leg { stage: *stage, candidates: at(order) }).collect();
            Some(Ok(Said::Legs(legs)))
        }
    }
}
