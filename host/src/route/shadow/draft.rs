//! What a request's trace gathers for the shadows of its chain.

use std::sync::Arc;

use super::snapshot::{Judged, Left, Split};
use super::{ShadowSink, Snapshot};
use crate::clock::Nanos;
use crate::policy::{Budget, Chain, Request, Shadow, Stage};
use crate::pool::Endpoint;
use crate::route::explain::{Answer, Trace};
use crate::route::{Candidates, Lane, Order};
use crate::types::Profile;

/// A snapshot in the making.
#[derive(Debug)]
pub(in crate::route) struct Draft {
    sink: Arc<dyn ShadowSink>,
    shadows: Vec<Arc<Shadow>>,
    budget: Nanos,
    arrival: Option<Arc<super::Frozen>>,
    judged: Vec<Judged>,
    /// Of the judgement under way.
    loads: Vec<f32>,
    split: Option<Split>,
}

impl Draft {
    /// None where the chain has no shadow, or nobody asks it.
    fn new(lane: &Lane, chain: &Chain, budget: &Budget) -> Option<Box<Self>> {
        let sink = lane.shadows.as_ref().filter(|_| !chain.shadows.is_empty())?;
        Some(Box::new(Self {
            sink: Arc::clone(sink),
            shadows: chain.shadows.clone(),
            budget: budget.limit(),
            arrival: None,
            judged: Vec::new(),
            loads: Vec::new(),
            split: None,
        }))
    }

    fn is_for(&self, chain: &Chain) -> bool {
        self.shadows.len() == chain.shadows.len()
            && self.shadows.iter().zip(&chain.shadows).all(|(a, b)| Arc::ptr_eq(a, b))
    }

    fn asks(&self, stage: Stage) -> bool {
        self.shadows.iter().any(|shadow| match stage {
            Stage::Admission => shadow.stages.admission.is_some(),
            Stage::FlowControl => shadow.stages.flow.is_some(),
            Stage::Filter => shadow.stages.filter.is_some(),
            // A picker is given the sums of the scores.
            Stage::Scorer => shadow.stages.scorer.is_some() || shadow.stages.picker.is_some(),
            Stage::Picker => shadow.stages.picker.is_some(),
            Stage::Disaggregation => shadow.stages.disaggregation.is_some(),
        })
    }

    /// Candidates are about to be judged.
    pub(in crate::route) fn judging(&mut self, profile: Profile, all: &Candidates) {
        self.loads.clear();
        self.judged.push(Judged { profile, all: all.freeze(), left: None });
    }

    /// They have been judged.
    pub(in crate::route) fn judged(
        &mut self,
        profile: Profile,
        left: &Arc<Vec<Arc<Endpoint>>>,
        order: &Order,
    ) {
        let judged = self.judged.iter_mut().rev().find(|judged| judged.profile == profile);
        if let Some(judged) = judged {
            judged.left = Some(Left {
                endpoints: Arc::clone(left),
                loads: std::mem::take(&mut self.loads),
                first: order.first().map(|endpoint| endpoint.id),
            });
        }
    }

    fn finish(self, request: &Arc<Request>, answers: &[Answer]) -> Snapshot {
        let used = |name: &str| {
            answers.iter().filter(|answer| *answer.plugin.name == *name).map(|answer| answer.used).sum()
        };
        let kept = answers.iter().filter(|answer| self.asks(answer.stage)).cloned().collect();
        let shadows = self.shadows.into_iter().map(|shadow| {
            let used = used(&shadow.plugin.name);
            (shadow, used)
        });
        Snapshot {
            request: Arc::clone(request),
            shadows: shadows.collect(),
            budget: self.budget,
            arrival: self.arrival,
            judged: self.judged,
            split: self.split,
            answers: kept,
        }
    }
}

impl Trace {
    /// The request comes to admission.
    pub(in crate::route) fn arrives(
        &mut self,
        lane: &Lane,
        chain: &Chain,
        budget: &Budget,
        candidates: &Candidates,
    ) {
        self.draft = Draft::new(lane, chain, budget);
        if let Some(draft) = &mut self.draft
            && (draft.asks(Stage::Admission) || draft.asks(Stage::FlowControl))
        {
            draft.arrival = Some(candidates.freeze());
        }
    }

    /// The request comes to the choice of its endpoints. While it waited a swap may have brought other shadows, which
    /// know nothing of its arrival.
    pub(in crate::route) fn decides(&mut self, lane: &Lane, chain: &Chain, budget: &Budget) {
        if !self.draft.as_ref().is_some_and(|draft| draft.is_for(chain)) {
            self.draft = Draft::new(lane, chain, budget);
        }
        if let Some(draft) = self.draft.take_if(|draft| !draft.sink.has_room()) {
            for shadow in &draft.shadows {
                shadow.stats.dropped();
            }
        }
    }

    /// The load by which an endpoint is told from its equals; gives it back.
    pub(in crate::route) fn saw_load(&mut self, load: f32) -> f32 {
        if let Some(draft) = &mut self.draft {
            draft.loads.push(load);
        }
        load
    }

    /// Whether some shadow says who works on a request before decode.
    pub(in crate::route) fn shadows_split(&self) -> bool {
        self.draft.as_ref().is_some_and(|draft| draft.asks(Stage::Disaggregation))
    }

    /// It is going to be asked who else works on the request.
    pub(in crate::route) fn splits(&mut self, everyone: &Candidates, decode: u32) {
        if let Some(draft) = &mut self.draft
            && draft.asks(Stage::Disaggregation)
        {
            draft.split = Some(Split { everyone: everyone.freeze(), decode });
        }
    }

    /// All is decided: the shadows may be asked.
    pub(in crate::route) fn hand_over(&mut self) {
        if let Some(draft) = self.draft.take() {
            let sink = Arc::clone(&draft.sink);
            sink.offer(draft.finish(&self.request, &self.answers));
        }
    }
}
