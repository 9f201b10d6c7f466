//! One decided request, for those who are asked about it later.

use std::sync::Arc;

use super::Frozen;
use crate::clock::Nanos;
use crate::policy::{OnEmpty, Request, Shadow, Stage};
use crate::pool::Endpoint;
use crate::route::explain::{Answer, Given};
use crate::types::{EndpointId, Profile};

/// What every policy of a request saw and what those in force said. It holds the request and with it the body.
#[derive(Debug)]
pub struct Snapshot {
    pub(super) request: Arc<Request>,
    /// Who is asked, each with the CPU time that the version in force of its name used.
    pub(super) shadows: Vec<(Arc<Shadow>, Nanos)>,
    /// CPU time that the policies of the request had together.
    pub(super) budget: Nanos,
    /// The candidates at admission and placement, where some shadow is asked about these.
    pub(super) arrival: Option<Arc<Frozen>>,
    pub(super) judged: Vec<Judged>,
    pub(super) split: Option<Split>,
    /// Of the stages that some shadow answers too.
    pub(super) answers: Vec<Answer>,
}

/// How the candidates of one profile were judged.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) profile: Profile,
    pub(super) all: Arc<Frozen>,
    /// None where nobody was left, or a policy refused.
    pub(super) left: Option<Left>,
}

/// The candidates that filters left.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) endpoints: Arc<Vec<Arc<Endpoint>>>,
    /// Load for weight of each, as it was when equal sums were told apart.
    pub(super) loads: Vec<f32>,
    pub(super) first: Option<EndpointId>,
}

/// Who could have worked on a request before decode.
#[derive(Debug)]
pub(super) struct Split {
    pub(super) everyone: Arc<Frozen>,
    pub(super) decode: u32,
}

impl Snapshot {
    /// Who is asked.
    pub fn shadows(&self) -> impl Iterator<Item = &Arc<Shadow>> {
        self.shadows.iter().map(|(shadow, _)| shadow)
    }

    /// Bytes that it keeps alive, about: the body, the prompt found in it, and the columns. Columns that two views
    /// share count twice.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let views = self.judged.iter().map(|judged| &judged.all);
        let views = views.chain(&self.arrival).chain(self.split.as_ref().map(|split| &split.everyone));
        self.request.body.len() * 2 + views.map(|view| view.bytes()).sum::<usize>()
    }

    /// Nobody is going to be asked: lets go of it, and counts it.
    pub fn dropped(self) {
        for shadow in self.shadows() {
            shadow.stats.dropped();
        }
    }

    /// Answers of a stage, in the order in which they came.
    pub(super) fn answers(&self, stage: Stage, profile: Option<Profile>) -> impl Iterator<Item = &Answer> {
        self.answers.iter().filter(move |answer| answer.stage == stage && answer.profile == profile)
    }

    /// What the filter of this name was given and what it kept. A filter that the chain does not have would come
    /// last and is compared with keeping all; none where nobody was left for it.
    pub(super) fn filtered(&self, judged: &Judged, name: &str) -> Option<[Arc<Vec<Arc<Endpoint>>>; 2]> {
        let mut left = Arc::clone(judged.all.endpoints());
        for answer in self.answers(Stage::Filter, Some(judged.profile)) {
            let kept = match &answer.given {
                Ok(Given::Endpoints(kept))
                    if kept.is_empty() && answer.plugin.on_empty == OnEmpty::Ignore =>
                {
                    Arc::clone(&left)
                }
                Ok(Given::Endpoints(kept)) => Arc::new(kept.clone()),
                _ => Arc::clone(&left),
            };
            if *answer.plugin.name == *name {
                return Some([left, kept]);
            }
            left = kept;
        }
        (!left.is_empty()).then(|| [Arc::clone(&left), left])
    }
}
