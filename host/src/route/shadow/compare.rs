//! What a shadow would have changed about one request.

use std::sync::Arc;

use super::Snapshot;
use super::asking::Asking;
use super::rank::correlation;
use super::snapshot::{Judged, Left};
use crate::clock::Clock;
use crate::policy::{
    Agreement, Budget, Compared, EndpointView, LegStage, OnEmpty, OnError, Reason, Stage, Verdict, clean,
};
use crate::pool::Endpoint;
use crate::route::explain::{Answer, Given};
use crate::route::pick;
use crate::route::pipeline::first_come;
use crate::types::{EndpointId, Profile};

/// Asks every shadow of a snapshot and notes what it would have changed. Takes as long as they take.
pub fn compare(snapshot: &Snapshot, clock: &dyn Clock) {
    for (shadow, active) in &snapshot.shadows {
        if !shadow.plugin.health.usable(clock.now()) {
            shadow.plugin.health.failed(Reason::SetAside, clock.now());
            continue;
        }
        let asking = Asking { snapshot, shadow, clock, budget: Budget::new(snapshot.budget) };
        asking.admission();
        asking.place();
        for judged in &snapshot.judged {
            if shadow.plugin.profiles.contains(&judged.profile) {
                asking.filter(judged);
                asking.scorer(judged);
                asking.picker(judged);
            }
        }
        asking.split();
        shadow.stats.judged(asking.budget.used(), *active);
    }
}

impl Asking<'_> {
    fn admission(&self) {
        let stages = &self.shadow.stages;
        let (Some(admission), Some(arrival)) = (&stages.admission, &self.snapshot.arrival) else { return };
        let Some(theirs) = self.verdict() else { return };
        let ours =
            self.ask(Compared::Admission, arrival, |call| admission.admit(call).and_then(clean::verdict));
        if let Some(ours) = ours {
            self.note(Compared::Admission, Agreement::of(status(&ours) == status(&theirs)));
        }
    }

    /// What the version in force said, or its default. None where an earlier policy had refused the request already.
    fn verdict(&self) -> Option<Verdict> {
        let mut answers = self.snapshot.answers(Stage::Admission, None);
        let refused = |answer: &Answer| match &answer.given {
            Ok(Given::Verdict(verdict)) => *verdict != Verdict::Accept,
            Ok(_) => false,
            Err(_) => answer.plugin.on_error == OnError::Reject,
        };
        let own = answers.find(|answer| self.is_namesake(answer) || refused(answer));
        match own {
            None => Some(Verdict::Accept),
            Some(answer) if self.is_namesake(answer) => match &answer.given {
                Ok(Given::Verdict(verdict)) => Some(verdict.clone()),
                _ => Some(Verdict::Accept),
            },
            Some(_) => None,
        }
    }

    fn place(&self) {
        let stages = &self.shadow.stages;
        let (Some(flow), Some(arrival)) = (&stages.flow, &self.snapshot.arrival) else { return };
        let ours = self.ask(Compared::Place, arrival, |call| flow.place(call).and_then(clean::placement));
        let Some(ours) = ours else { return };
        let answer = self.snapshot.answers(Stage::FlowControl, None).next();
        let theirs = match answer.map(|answer| &answer.given) {
            Some(Ok(Given::Placement(placement))) => placement.clone(),
            _ => first_come(&self.snapshot.request),
        };
        self.note(Compared::Place, self.shadow.stats.same_place(&theirs, &ours));
    }

    fn filter(&self, judged: &Judged) {
        let Some(filter) = &self.shadow.stages.filter else { return };
        let Some([given, kept]) = self.snapshot.filtered(judged, &self.shadow.plugin.name) else { return };
        let view = judged.all.subset(&given);
        let ours = self.ask(Compared::Filter, &view, |call| {
            filter.keep(call).and_then(|kept| clean::positions(kept, view.len()))
        });
        let Some(mut ours) = ours else { return };
        if ours.is_empty() && self.shadow.plugin.on_empty == OnEmpty::Ignore {
            ours = view.positions(view.endpoints());
        }
        let mut theirs = view.positions(&kept);
        ours.sort_unstable();
        theirs.sort_unstable();
        self.note(Compared::Filter, Agreement::of(ours == theirs));
    }

    fn scorer(&self, judged: &Judged) {
        let (Some(scorer), Some(left)) = (&self.shadow.stages.scorer, &judged.left) else { return };
        let view = judged.all.subset(&left.endpoints);
        let ours = self.ask(Compared::Scorer, &view, |call| {
            scorer.score(call).and_then(|scores| clean::scores(scores, view.len()))
        });
        let Some(ours) = ours else { return };
        self.shadow.plugin.health.clamped(ours.clamped);
        if view.len() < 2 {
            return;
        }
        let before = self.sums(judged.profile, left, None);
        let namesake = self.scorers(judged.profile).find(|answer| self.is_namesake(answer));
        match namesake.map(scores) {
            Some(Some(theirs)) => self.shadow.stats.correlated(correlation(&ours.values, theirs)),
            // The version in force failed.
            Some(None) => {}
            None => self.shadow.stats.correlated(correlation(&ours.values, &before)),
        }
        let after = self.sums(judged.profile, left, Some(&ours.values));
        let same = self.by_score(left, &before).first() == self.by_score(left, &after).first();
        self.note(Compared::Scorer, Agreement::of(same));
    }

    fn picker(&self, judged: &Judged) {
        let (Some(picker), Some(left)) = (&self.shadow.stages.picker, &judged.left) else { return };
        let view = judged.all.subset(&left.endpoints);
        let sums = self.sums(judged.profile, left, None);
        let count = u32::try_from(view.len()).unwrap_or(u32::MAX);
        let ours = self.ask(Compared::Picker, &view, |call| {
            picker.pick(call, &sums, count).and_then(|picked| clean::positions(picked, view.len()))
        });
        let Some(ours) = ours.filter(|_| view.len() > 1) else { return };
        let order = pick::completed(ours, self.by_score(left, &sums));
        let first = order.first().and_then(|position| view.at(*position)).map(|endpoint| endpoint.id);
        self.note(Compared::Picker, Agreement::of(first == left.first));
    }

    fn split(&self) {
        let stages = &self.shadow.stages;
        let (Some(split), Some(of)) = (&stages.disaggregation, &self.snapshot.split) else { return };
        let view = &of.everyone;
        let ours = self.ask(Compared::Disaggregation, view, |call| {
            let legs = split.split(call, of.decode)?;
            for leg in &legs {
                clean::positions(leg.candidates.clone(), view.len())?;
            }
            Ok(legs)
        });
        let Some(ours) = ours else { return };
        let decode = view.at(of.decode).map(|endpoint| endpoint.id);
        let ours = ours.iter().map(|leg| {
            let endpoints = leg.candidates.iter().filter_map(|position| view.at(*position));
            first_leg(leg.stage, endpoints, decode)
        });
        let ours: Vec<_> = ours.collect();
        let answer = self.snapshot.answers(Stage::Disaggregation, Some(Profile::Prefill)).next();
        let theirs: Vec<_> = match answer.map(|answer| &answer.given) {
            Some(Ok(Given::Legs(legs))) => {
                legs.iter().map(|(stage, order)| first_leg(*stage, order.iter(), decode)).collect()
            }
            _ => Vec::new(),
        };
        self.note(Compared::Disaggregation, Agreement::of(ours == theirs));
    }

    fn is_namesake(&self, answer: &Answer) -> bool {
        answer.plugin.name == self.shadow.plugin.name
    }

    fn scorers(&self, profile: Profile) -> impl Iterator<Item = &Answer> {
        self.snapshot.answers(Stage::Scorer, Some(profile))
    }

    /// The weighted sums, added up in the order of the pipeline so that equal scores give equal sums to the last bit;
    /// with `ours` in the place of the namesake's, or after all others.
    fn sums(&self, profile: Profile, left: &Left, ours: Option<&[f32]>) -> Vec<f32> {
        let mut sums = vec![0.0; left.endpoints.len()];
        let mut add = |weight: f32, scores: &[f32]| {
            for (sum, score) in sums.iter_mut().zip(scores) {
                *sum += weight * score;
            }
        };
        let mut ours = ours;
        for answer in self.scorers(profile) {
            match ours.take_if(|_| self.is_namesake(answer)) {
                Some(ours) => add(self.shadow.weight, ours),
                None => add(answer.weight, scores(answer).unwrap_or_default()),
            }
        }
        if let Some(ours) = ours {
            add(self.shadow.weight, ours);
        }
        sums
    }

    fn by_score(&self, left: &Left, sums: &[f32]) -> Vec<u32> {
        let mut loads = left.loads.iter().copied();
        pick::by_score(&left.endpoints, &self.snapshot.request, sums, |_| loads.next().unwrap_or(0.0))
    }
}

fn scores(answer: &Answer) -> Option<&[f32]> {
    match &answer.given {
        Ok(Given::Scores(scores)) => Some(scores),
        _ => None,
    }
}

/// None accepts.
fn status(verdict: &Verdict) -> Option<u16> {
    match verdict {
        Verdict::Accept => None,
        Verdict::Reject(rejection) => Some(rejection.status),
    }
}

/// A leg with the endpoint that it tries first: never the one that decodes, and none where the choice is left to the
/// prefill profile.
fn first_leg<'a>(
    stage: LegStage,
    mut order: impl Iterator<Item = &'a Arc<Endpoint>>,
    decode: Option<EndpointId>,
) -> (LegStage, Option<EndpointId>) {
    (stage, order.find(|endpoint| Some(endpoint.id) != decode).map(|endpoint| endpoint.id))
}
